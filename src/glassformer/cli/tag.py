"""`glassformer tag`: lines of words, or of parts, in; a tag for each word out, in order.

The/DET cats/NOUN          by default; the tag stands behind the last slash
The <TAB> DET              with --columns: a line for each word, an empty one behind each sentence
{"words": ..., "tags": ...}  with --json: probabilities too, and what span tags mark
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError
from glassformer.processors.word_tokenizer import split_punctuation
from glassformer.run import load

TOGETHER = 1 << 10
"""Lines that are tagged together, if they are there already."""


def tag(
    folder: Path, columns: bool, top: int, punctuation: bool, device: str, as_json: bool
) -> None:
    """Tag the words of standard input; with `punctuation`, marks are words of their own."""
    if columns and as_json:
        raise ConfigError("--columns and --json are two forms of the same; leave one of them out.")
    if top > 1 and not as_json:
        raise ConfigError(
            f"--top-k={top} lists several tags of each word, which only --json can hold; add "
            f"--json."
        )
    run = load(folder, device)
    if punctuation and "parts" in run.processor.capabilities:
        raise ConfigError(
            "--punctuation cuts lines of words, and this model reads lists of parts; leave it out."
        )
    run.tagged([])  # a model that does not tag is refused before a line is waited for
    names = [one_line(name) for name in run.classes]
    number, progress = 0, Lines()
    for chunk in chunks(TOGETHER):
        inputs = [
            split_punctuation(line) if punctuation else run.processor.from_line(line, n) or []
            for n, line in enumerate(chunk, number + 1)
        ]
        for given, tags in zip(inputs, run.tagged(inputs, top), strict=True):
            words = run.processor.words(given)
            if as_json:
                print_json(_values(words, tags.as_json(names)))
            else:
                _print(zip(words, tags.cells(names), strict=True), columns)
        number += len(chunk)
        sys.stdout.flush()
        progress.tell(number)
    progress.tell(number, last=True)


def _print(rows: Iterable[tuple[str, tuple[str, ...]]], columns: bool) -> None:
    if columns:
        print("".join("\t".join((word, *own)) + "\n" for word, own in rows))
    else:
        print(" ".join(f"{word}/{','.join(own)}" for word, own in rows))


def _values(words: list[str], values: dict[str, Any]) -> dict[str, Any]:
    for span in values.get("spans", ()):
        span["text"] = " ".join(words[span["start"] : span["end"]])
    return {"words": words, **values}
