"""Flags of the commands that predict, made from the choices of each verb.

Help of the program imports no records: a command is a name with its help until it is called.
"""

from collections.abc import Iterator
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from glassformer.cli.predict import predict
from glassformer.cli.verbs import ALL, VERBS, Shared

if TYPE_CHECKING:
    from glassformer.tasks.options import Options


class Commands(TyperGroup):
    """The commands of the program, of which those that predict get their flags when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the rest of the arguments; see click."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command_of(name) if name in VERBS else command, rest


def command_of(name: str) -> Any:
    """The command of a verb with all its flags."""
    from glassformer.tasks.options import OPTIONS

    verb, record = VERBS[name], OPTIONS[name]
    known = signature(Shared).parameters
    shared = [known[flag] for flag in known if flag in ALL + verb.shared]

    def command(**given: Any) -> None:
        predict(name, Shared(**{flag.name: given.pop(flag.name) for flag in shared}), given)

    flags = [*shared[:1], *own_flags(record), *shared[1:]]
    flags = [flag.replace(kind=Parameter.KEYWORD_ONLY) for flag in flags]
    vars(command)["__signature__"] = Signature(flags)
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, help=verb.help)(command)
    return typer.main.get_command(app)


def own_flags(record: "type[Options]") -> Iterator[Parameter]:
    """A flag for each choice of a record that a flag can hold."""
    from glassformer.tasks.options import plain_fields

    for name, kind, choice in plain_fields(record):
        default = None if choice.default == () else choice.default
        declared = [f"--{name.replace('_', '-')}"] if default is False or kind is not bool else []
        option = Option(*declared, help=" ".join((choice.description or "").split()))
        kind = kind | None if default is None else kind
        yield Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )
