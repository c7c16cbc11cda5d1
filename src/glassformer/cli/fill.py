"""`glassformer fill`: texts with blanks in, the likeliest words for each blank out.

1 <TAB> 0.4312 <TAB> cat     by default: blank, probability, word; an empty line behind each text
The ... sat   1  cat 0.4312  on a terminal: a table
{"text": ..., "blanks": ...} with --json
--in FILE --out FILE         rows of a file, with columns `filled` and `blanks`
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from glassformer.cli.files import Field, Files, In, Out, Resume
from glassformer.cli.lines import chunks, numbered
from glassformer.cli.options import Count, Device, Json, RunFolder, refuse
from glassformer.cli.outputs import Force
from glassformer.cli.predictions import predict_file
from glassformer.cli.terminal import on_terminal, print_json
from glassformer.core.errors import one_line, printable

if TYPE_CHECKING:
    from glassformer.data.table_output import Predicted
    from glassformer.run import Run
    from glassformer.tasks.predict.fill import Filled, Word

TOGETHER = 256
"""Lines that are filled together, if they are there already."""


def fill(
    run: RunFolder,
    text: list[str] | None = None,
    top: Count = 5,
    inp: In = None,
    out: Out = None,
    field: Field = None,
    resume: Resume = False,
    force: Force = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Print the likeliest words for each blank of --text, of lines of standard input, or of the
    rows of --in. A blank is ___, [MASK], <mask>, or the model's own mask symbol; several blanks of
    a text are filled independently.

    text: Text with blanks; may be repeated.
    top: Words for each blank.
    """
    from glassformer.run import load

    if files := Files.checked(inp, out, field, resume, force):
        refuse({"text": text, "json": json}, "--out has a form of its own")
    opened = load(run, device)
    opened.filled([])  # another task is refused before a line is waited for
    if files:
        table = files.table(opened.task, opened.processor.input_columns)
        predict = partial(_predicted, opened, top)
        predict_file(table, files, partial(_read, opened), predict)
        return
    for number, lines in [(1, text)] if text else numbered(chunks(TOGETHER)):
        found = iter(opened.filled([line for line in lines if line.strip()], top, number))
        for line in lines:
            _print(line, next(found) if line.strip() else None, json)


def _print(line: str, found: "Filled | None", as_json: bool) -> None:
    """Print the words of a text; none for an empty line."""
    blanks = found.blanks if found else []
    if as_json:
        words = [[asdict(word) for word in blank] for blank in blanks]
        print_json({"text": line, "filled": found and found.text, "blanks": words})
        return
    if on_terminal():
        print(printable(line))
    for number, blank in enumerate(blanks, 1):
        for rank, one in enumerate(blank):
            if on_terminal():
                own = str(number) if rank == 0 else ""
                print(f"{own:>4}  {printable(one_line(one.word)):16} {one.probability:.4f}")
            else:
                print(f"{number}\t{one.probability:.4f}\t{one_line(one.word)}")
    print()


def _read(run: "Run", values: Sequence[Any], where: str) -> str:
    """The text of a row, in which a blank must be."""
    from glassformer.processors.processor import cell_text
    from glassformer.tasks.predict.fill import parts_of

    text = "" if values[0] is None else cell_text(values[0], where)
    if text.strip():
        parts_of(run.tokenizer, text, where)
    return text


def _predicted(run: "Run", top: int, texts: Sequence[str]) -> "Predicted":
    """The filled text of rows, and the words of their blanks; null for an empty text."""
    from glassformer.data.table_output import Predicted

    made = iter(run.filled([text for text in texts if text.strip()], top))
    found = [next(made) if text.strip() else None for text in texts]
    filled = [one and one.text for one in found]
    blanks = [one and [[_values(word) for word in blank] for blank in one.blanks] for one in found]
    lines = [one_line(text or "") for text in filled]
    return Predicted({"filled": filled, "blanks": blanks}, lines=lines)


def _values(word: "Word") -> dict[str, Any]:
    return {"word": word.word, "probability": round(word.probability, 6)}
