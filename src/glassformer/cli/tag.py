"""`glassformer tag`: lines of words in, a tag for each word out, in order.

The/DET cats/NOUN          by default; the tag stands behind the last slash
The <TAB> DET              with --columns: a line for each word, an empty one behind each sentence
{"words": ..., "tags": ...}  with --json: probabilities too, and what span tags mark
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError
from glassformer.generate.tag import Tags
from glassformer.metrics.spans import scheme_of, spans
from glassformer.processors.words import split_punctuation
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
    run.tagged([])  # a model that does not tag is refused before a line is waited for
    names = np.array([one_line(name) for name in run.classes], object)
    marks_spans = scheme_of([name] for name in run.classes) is not None
    number, progress = 0, Lines()
    for chunk in chunks(TOGETHER):
        sentences = [split_punctuation(line) if punctuation else line.split() for line in chunk]
        for words, tags in zip(sentences, run.tagged(sentences, top), strict=True):
            best = names[tags.classes[:, 0]].tolist()
            if as_json:
                print_json(_values(words, best, tags, names, marks_spans))
            elif columns:
                print("".join(f"{word}\t{tag}\n" for word, tag in zip(words, best, strict=True)))
            else:
                print(" ".join(f"{word}/{tag}" for word, tag in zip(words, best, strict=True)))
        number += len(chunk)
        sys.stdout.flush()
        progress.tell(number)
    progress.tell(number, last=True)


def _values(
    words: list[str], best: list[str], tags: Tags, names: np.ndarray, marks_spans: bool
) -> dict[str, Any]:
    probabilities = tags.probabilities.astype(np.float64).round(6).tolist()
    values: dict[str, Any] = {
        "words": words,
        "tags": best,
        "probabilities": [row[0] for row in probabilities],
    }
    if tags.classes.shape[1] > 1:
        rows = zip(names[tags.classes].tolist(), probabilities, strict=True)
        values["top"] = [
            [{"tag": n, "probability": p} for n, p in zip(*row, strict=True)] for row in rows
        ]
    if marks_spans:
        values["spans"] = [
            {"kind": kind, "start": start, "end": end, "text": " ".join(words[start:end])}
            for kind, start, end in spans(best)
        ]
    return values
