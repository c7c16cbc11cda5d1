"""Flags of the commands that predict, made from the choices of each verb.

Help of the program imports no records: a command is a name with its help until it is called.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from glassformer.cli.predict import ALL, VERBS, Shared, predict

if TYPE_CHECKING:
    from glassformer.tasks.options import Options


class Commands(TyperGroup):
    """The commands of the program, of which those that predict get their flags when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See click."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command_of(name) if name in VERBS else command, rest


def command_of(name: str) -> Any:
    """The command of a verb with all its flags."""
    from glassformer.tasks.options import OPTIONS

    verb, record = VERBS[name], OPTIONS[name]
    own, shared = [*own_flags(record)], [*shared_flags((*ALL, *verb.shared))]

    def command(**given: Any) -> None:
        known = {flag.name: given.pop(flag.name) for flag in shared}
        predict(name, Shared(**known), given)

    return _made(name, verb.help, command, [*shared[:1], *own, *shared[1:]])


def _made(
    name: str, help: str, command: Callable[..., None], flags: list[inspect.Parameter]
) -> Any:
    vars(command)["__signature__"] = inspect.Signature(flags)
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, help=help)(command)
    return typer.main.get_command(app)


def shared_flags(names: tuple[str, ...]) -> Iterator[inspect.Parameter]:
    """The flags of these fields of `Shared`."""
    for one in fields(Shared):
        if one.name in names:
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            yield _flag(one.name, one.type, default)


def own_flags(record: "type[Options]") -> Iterator[inspect.Parameter]:
    """A flag for each choice of a record that a flag can hold."""
    from glassformer.tasks.options import plain_fields

    for name, kind, choice in plain_fields(record):
        flag = f"--{name.replace('_', '-')}"
        default = None if choice.default == () else choice.default
        declared = [flag] if default is False or kind is not bool else []
        if default is None:
            kind |= None
        help = " ".join((choice.description or "").split())
        yield _flag(name, Annotated[kind, Option(*declared, help=help)], default)


def _flag(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
