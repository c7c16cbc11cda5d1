"""`glassformer tag`: lines of words, or of parts, in; a tag for each word out, in order.

The/DET cats/NOUN          by default; the tag stands behind the last slash
The <TAB> DET              with --columns: a line for each word, an empty one behind each sentence
{"words": ..., "tags": ...}  with --json: probabilities too, and the spans that tags mark
--in FILE --out FILE         rows of a file: CoNLL-U with other tags, tables with a column of tags
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from glassformer.cli.lines import chunks, numbered, one_line
from glassformer.cli.options import Count, Device, Json, RunFolder, refuse
from glassformer.cli.outputs import Force
from glassformer.cli.predictions import Field, Files, In, Out, Resume, predict_file
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.data.table_output import Predicted
    from glassformer.run import Run
    from glassformer.tasks.predict.tag import Tags

TOGETHER = 1 << 10
"""Lines that are tagged together, if they are there already."""
TAGS = "tags"
"""Column of the tags, where the run names none."""


def tag(
    run: RunFolder,
    inp: In = None,
    out: Out = None,
    field: Field = None,
    resume: Resume = False,
    force: Force = False,
    columns: bool = False,
    top_k: Count = 1,
    punctuation: bool = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Tag the words of each line of standard input, or of each row of --in. Words are separated by
    spaces; a line may have any length.

    columns: Print a line for each word: word, TAB, tag (CoNLL).
    top_k: With --json: print the K likeliest tags, or all.
    punctuation: Split punctuation marks off as words (for raw text).
    """
    from glassformer.processors.tokens.word_spans import split_punctuation
    from glassformer.run import load

    if files := Files.checked(inp, out, field, resume, force):
        options = {"columns": columns, "json": json, "punctuation": punctuation}
        refuse({**options, "top_k": top_k > 1}, "--out has a form of its own")
    _check(columns, top_k, json)
    opened = load(run, device)
    processor, names = opened.processor, [one_line(name) for name in opened.classes]
    if punctuation and "parts" in processor.capabilities:
        raise ConfigError(
            "--punctuation cuts lines of words, and this model reads lists of parts; leave it out."
        )
    opened.tagged([])  # a model that does not tag is refused before a line is waited for
    if files:
        _tag_file(opened, files)
        return
    for number, lines in numbered(chunks(TOGETHER)):
        inputs = [
            split_punctuation(line)
            if punctuation
            else processor.from_values([line], f"Line {n}") or []
            for n, line in enumerate(lines, number)
        ]
        for given, tags in zip(inputs, opened.tagged(inputs, top_k), strict=True):
            _print(processor.words(given), tags, names, columns, json)


def _check(columns: bool, top_k: int, as_json: bool) -> None:
    """ConfigError: options that do not fit each other."""
    if columns and as_json:
        raise ConfigError("--columns and --json are two forms of the same; leave one of them out.")
    if top_k > 1 and not as_json:
        raise ConfigError(
            f"--top-k={top_k} lists several tags of each word, which only --json can hold; add "
            "--json."
        )


def _tag_file(run: "Run", files: Files) -> None:
    """Write the rows of a file with the tags of their words, in the column of the training data."""
    table = files.table(run, run.processor.input_columns)
    own = run.task.recipe.data.tag_field
    name = TAGS if own is None or own.isdecimal() else own
    predict = partial(_predicted, run, name, run.classes)
    predict_file(table, files, run.processor.from_values, predict)


def _predicted(run: "Run", name: str, classes: Sequence[str], inputs: Sequence[Any]) -> "Predicted":
    """The tags of rows: a list for each."""
    from glassformer.data.table_output import Predicted

    given = [[] if one is None else one for one in inputs]
    tags = [found.labels(classes) for found in run.tagged(given)]
    words = (run.processor.words(one) for one in given)
    lines = [_line(own, found) for own, found in zip(words, tags, strict=True)]
    return Predicted({name: tags}, lines=lines)


def _line(words: Sequence[str], tags: Sequence[str]) -> str:
    return " ".join(f"{word}/{one_line(tag)}" for word, tag in zip(words, tags, strict=True))


def _print(words: list[str], tags: "Tags", names: list[str], columns: bool, as_json: bool) -> None:
    if as_json:
        found = tags.as_json(names)
        for span in found.get("spans", ()):
            span["text"] = " ".join(words[span["start"] : span["end"]])
        print_json({"words": words, **found})
        return
    rows = zip(words, tags.labels(names), strict=True)
    if columns:
        print("".join(f"{word}\t{name}\n" for word, name in rows))
    else:
        print(_line(words, [name for _, name in rows]))
