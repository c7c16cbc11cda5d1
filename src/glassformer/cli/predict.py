"""The commands that predict: inputs in, predictions out, in order.

`glassformer tag RUN < lines`: a line for each, or JSON with --json.
`glassformer tag RUN --in FILE --out FILE`: rows of a file with their predictions.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.files import (
    Field,
    Files,
    In,
    Out,
    Resume,
    predict_file,
    predictions,
    report_skipped,
)
from glassformer.cli.lines import chunks, numbered
from glassformer.cli.options import AtStep, Device, Json, Quantize, RunFolder
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Predictor


FILES = "Images or audio files, also in archives: a.zip/b.png."


@dataclass(frozen=True)
class Shared:
    """Flags of the commands of several verbs: inputs, files, how the run is opened."""

    run: RunFolder
    names: Annotated[list[str] | None, Argument(help=FILES, metavar="FILE")] = None
    text: Annotated[
        list[str] | None, Option("--text", help="Text with blanks; may be repeated.")
    ] = None
    inp: In = None
    out: Out = None
    field: Field = None
    resume: Resume = False
    force: Force = False
    batch_size: Annotated[
        int | None, Option("--batch-size", min=1, help="Inputs computed together.")
    ] = None
    checkpoint: AtStep = None
    quantize: Quantize = None
    device: Device = "cpu"
    json: Json = False


ALL = ("run", "inp", "out", "field", "resume", "force", "checkpoint", "quantize", "device", "json")


@dataclass(frozen=True)
class Verb:
    """Help of a command, and which flags beside those of all it has."""

    help: str
    shared: tuple[str, ...] = ()
    array: bool = False
    """Whether --out may be an array, also of lines."""


VERBS = {
    "fill": Verb(
        "Print the likeliest words for each blank of --text, of lines of standard input, or of the "
        "rows of --in. A blank is ___, [MASK], <mask>, or the model's own mask symbol; several "
        "blanks of a text are filled independently.",
        ("text",),
    ),
    "embed": Verb("Embed lines of standard input, or rows of --in.", array=True),
    "classify": Verb(
        """Print the class of each line or file, or write those of the rows of --in, in order.

        A line of standard input is a text; two texts and a TAB for a model of pairs; the name of a
        file for a model of images or audio; a JSON list of parts for a multimodal model, [{"image":
        "a.png"}, {"text": "What is it?"}].
        """,
        ("names", "batch_size"),
    ),
    "tag": Verb(
        "Tag the words of each line of standard input, or of each row of --in. Words are separated "
        "by spaces; a line may have any length."
    ),
}
"""The commands that predict."""


def predict(verb: str, shared: Shared, own: dict[str, Any]) -> None:
    """Print the predictions of a run, or write them beside the rows of a file."""
    from glassformer.run import load
    from glassformer.tasks.options import OPTIONS

    options = OPTIONS[verb].parse({name: value for name, value in own.items() if value is not None})
    files = _files(shared, VERBS[verb].array)
    options.check("table" if shared.out else "json" if shared.json else "line")
    run = load(shared.run, shared.device, shared.checkpoint, quantize=shared.quantize)
    predictor = run.predictor(verb)  # another task is refused before a line is waited for
    predictor.check(options)
    if files:
        predict_file(predictor, options, files)
        return
    if shared.names and not run.processor.medium:
        raise ConfigError(
            f"{shared.run} reads lines that hold a {run.processor.noun} each, and "
            f"{shared.names[0]} is given as a file; give lines: < {shared.names[0]}."
        )
    if shared.out:
        _write_array(predictor, options, shared, shared.out)
        return
    skipped, as_json = 0, shared.json or not predictor.has_lines
    for line, given, found in _predict_lines(predictor, options, shared):
        if isinstance(found, DataError):
            skipped += 1
            print(found, file=sys.stderr)
        elif (beside := predictor.beside(line, given)) is None:
            continue
        elif as_json:
            values = predictor.values(line if given is None else given)
            print_json({**values, **found.json()})
        else:
            print(f"{found.line()}{beside}")
    report_skipped(skipped)


def _files(shared: Shared, array: bool) -> Files | None:
    """The files of --in and --out; None without --in. ConfigError: beside inputs or --json."""
    for name, given in (("text", shared.text), ("json", shared.json)):
        if shared.out and given:
            raise ConfigError(f"--out has a form of its own, so --{name} has no use; leave it out.")
    if shared.out and shared.names:
        raise ConfigError(
            f"--in reads a file of rows, so {shared.names[0]} has no use; leave it out."
        )
    if array and shared.out and not (shared.inp or shared.field or shared.resume):
        check_output("--out", shared.out, (".npy",), shared.force)
        return None
    given = shared.inp, shared.out, shared.field, shared.resume, shared.force
    return Files.checked(*given, vectors=array)


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
    """Return each line, its input, and its prediction or the error of a bad file."""
    for number, lines in _groups(predictor, shared):
        places = [f"{predictor.noun} {n}" for n in range(number, number + len(lines))]
        given = [
            predictor.from_values([line], where) for line, where in zip(lines, places, strict=True)
        ]
        inputs = list(zip(given, places, strict=True))
        yield from zip(lines, given, predictions(predictor, options, inputs, number), strict=True)


def _groups(predictor: "Predictor[Any]", shared: Shared) -> Iterator[tuple[int, Sequence[str]]]:
    """Inputs that are computed together, each group with the number of its first."""
    size = shared.batch_size or predictor.together
    if named := shared.names or shared.text:
        return numbered(named[at : at + size] for at in range(0, len(named), size))
    return numbered(chunks(size))
