"""The commands that predict: inputs in, predictions out, in order.

`glassformer tag RUN < lines`: a line for each, or JSON with --json.
`glassformer tag RUN --in FILE --out FILE`: rows of a file with their predictions.

Their flags are made from the choices of each verb. Help of the program imports no records: a
command is a name with its help until it is called.
"""

import sys
from collections.abc import Iterator, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from glassformer.cli.chat import talk
from glassformer.cli.files import file_of_rows, predict_rows, predictions, report_skipped
from glassformer.cli.prompts import (
    is_streamed,
    pairs_of,
    prompts_of,
    save_attention,
    save_picture,
    stream,
)
from glassformer.cli.terminal import chunks, number_groups, print_json
from glassformer.cli.verbs import ALL, VERBS, Shared
from glassformer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.run.run import Run
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Predictor


def predict(verb: str, shared: Shared, own: dict[str, Any]) -> None:
    """Print the predictions of a run, or write them beside the rows of a file."""
    from glassformer.run import load
    from glassformer.tasks.options import OPTIONS

    options = OPTIONS[verb].parse({name: value for name, value in own.items() if value is not None})
    whole = VERBS[verb].whole
    out = file_of_rows(shared, whole)
    options.check("table" if shared.out else "json" if shared.json else "line")
    opening: Any = {"quantize": shared.quantize, "compile": shared.compile}
    run = load(shared.run, shared.device, shared.checkpoint, **opening)
    predictor = run.predictor(verb)  # another task is refused before a line is waited for
    if shared.batch_size is not None:
        predictor.resize(shared.batch_size)
    options = _with_draft(run, options)
    predictor.check(options)
    if out:
        return predict_rows(predictor, options, shared, out)
    if verb == "chat":
        return talk(predictor, options, shared)
    if verb == "generate" and is_streamed(predictor, shared):
        return stream(predictor, options, prompts_of(predictor, shared)[0], shared.json)
    if whole == ".npy" and shared.out:
        return _write_array(predictor, options, shared, shared.out)
    output = _Output(run, predictor, shared)
    for line, given, found in _predict_lines(predictor, options, shared):
        output.show(line, given, found)
    output.close()


def _write_array(
    predictor: "Predictor[Any]", options: "Options", shared: Shared, path: Path
) -> None:
    """Write the values of all lines as one array."""
    import numpy as np

    from glassformer.core.files import replacing

    found = _predict_lines(predictor, options, shared)
    rows = predictor.gather([one.value for _, _, one in found])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, rows)


def _predict_lines(
    predictor: "Predictor[Any]", options: "Options", shared: Shared
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each line, its input, and its prediction or the error of a bad file."""
    for number, rows in _groups(predictor, options, shared):
        given = [(one, f"{predictor.noun} {n}") for n, (_, one) in enumerate(rows, number)]
        found = predictions(predictor, options, given, number)
        for (line, one), prediction in zip(rows, found, strict=True):
            yield line, one, prediction


def _with_draft(run: "Run", options: Any) -> Any:
    """Return choices with an opened draft instead of its name."""
    named, ahead = getattr(options, "draft", None), getattr(options, "draft_tokens", None)
    if named is None and ahead is None:
        return options
    from glassformer.run import load
    from glassformer.run.drafting import NGRAM, drafts_in

    if named == "":
        raise ConfigError("--draft is empty; give a run with the same tokenizer, or ngram.")
    device = next(run.model.parameters()).device.type
    draft = named if named in (None, NGRAM) else load(named, device)
    return options.model_copy(update={"draft": drafts_in(run, draft, ahead)})


def _groups(
    predictor: "Predictor[Any]", options: Any, shared: Shared
) -> Iterator[tuple[int, Sequence[tuple[str, Any]]]]:
    """Lines and inputs that are computed together, each group with the number of its first."""
    if shared.prompt is not None or not predictor.lines:
        yield 1, [("", one) for one in prompts_of(predictor, shared)]
    elif predictor.name == "score":
        yield 1, [("", pair) for pair in pairs_of(options.targets)]
    else:
        size, named = predictor.together, shared.names or shared.text
        predictor.check_files(shared.names)
        parts = [named[at : at + size] for at in range(0, len(named), size)] if named else None
        for number, lines in number_groups(parts or chunks(size)):
            where = (f"{predictor.noun} {n}" for n in range(number, number + len(lines)))
            read = map(predictor.from_values, ([line] for line in lines), where)
            yield number, [*zip(lines, read, strict=True)]


class _Output:
    """Output of predictions, and of pictures beside them."""

    def __init__(self, run: "Run", predictor: "Predictor[Any]", shared: Shared):
        self.run, self.predictor, self.shared = run, predictor, shared
        self.attention, self.printed, self.skipped = shared.show_attention, 0, 0

    def show(self, line: str, given: Any, found: Any) -> None:
        """Print a prediction, or say why there is none."""
        if isinstance(found, DataError):
            self.skipped += 1
            print(found, file=sys.stderr)
            return
        if (beside := self.predictor.beside(line, given)) is None:
            return
        values = self.predictor.values(line if given is None else given)
        if self.shared.out:
            save_picture(found, values, self.shared.out, self.shared.json)
        elif self.shared.json or not self.predictor.has_lines:
            print_json({**values, **found.json()})
        else:
            if self.printed and found.between is not None:
                print(found.between)
            print(f"{found.line()}{beside}")
            self.printed += 1
        if self.attention and line.strip():
            save_attention(self.run, line, found.value, self.attention)
            self.attention = None

    def close(self) -> None:
        """Report what was left out; DataError: there was nothing to draw."""
        report_skipped(self.skipped)
        if self.attention:
            raise DataError(
                f"There was no line to draw, so {self.attention} was not written; give a sentence."
            )


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
