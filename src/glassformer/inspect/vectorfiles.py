"""Files of vectors: word vectors of others, and the output of `glassformer embed`.

    word2vec, GloVe, fastText   king 0.1 -0.2 ...        a first line of two counts is passed over
    .jsonl                      {"text": "king", "vector": [0.1, -0.2, ...]}
    .npy                        a table, a row for each text

Every error names the line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from glassformer.errors import DataError, counted

Named = tuple[list[str], np.ndarray]
"""Texts, and a vector for each, float32 [N, D]."""


class _Row(BaseModel, strict=True):
    """A line of JSON."""

    text: str
    vector: list[float] | None


def read_named(path: Path) -> Named:
    """Texts and vectors of JSON lines (.jsonl), without those of null, or of a text file.

    DataError: names the line.
    """
    texts: list[str] = []
    vectors: list[np.ndarray] = []
    for number, line in lines_of(path):
        width = len(vectors[0]) if vectors else 0
        if number == 1 and re.fullmatch(r"\d+[ \t]+\d+", line):
            continue  # counts of words and of numbers
        try:
            text, values = _of_json(line) if path.suffix == ".jsonl" else _of_text(line, width)
        except ValueError:
            raise DataError(
                f"{path}, line {number}: {line[:40]!r} is not such as king 0.1 -0.2, or in .jsonl "
                f'{{"text": "king", "vector": [0.1, -0.2]}}; give such lines.'
            ) from None
        if values is None:
            continue
        with np.errstate(over="ignore"):
            vector = np.array(values, np.float32)
        if len(vector) != (width or max(1, len(vector))) or not np.isfinite(vector).all():
            raise DataError(
                f"{path}, line {number}: {text[:40]!r} has {counted(len(vector), 'number')}; give "
                f"{width or 'some'} that are finite in float32."
            )
        texts.append(text)
        vectors.append(vector)
    return texts, np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)


def _of_json(line: str) -> tuple[str, list[float] | None]:
    row = _Row.model_validate_json(line)
    return row.text, row.vector


def _of_text(line: str, width: int) -> tuple[str, list[float]]:
    """word v1 v2 ...; a word may hold spaces, as some of GloVe do: numbers count from the end."""
    word, *numbers = re.split(r"[ \t]+", line)
    try:
        return word, [*map(float, numbers)]
    except ValueError:
        return " ".join([word, *numbers[:-width]]), [*map(float, numbers[-width:])]


def read_array(path: Path) -> np.ndarray:
    """The vectors of a .npy file, float32 [N, D]; DataError: another content, or NaN."""
    try:
        with np.errstate(over="ignore"), path.open("rb") as file:
            array: Any = np.lib.format.read_array(file, allow_pickle=False)
            vectors = array.astype(np.float32, casting="same_kind")
    except (OSError, ValueError, TypeError, EOFError, MemoryError) as problem:
        reason = " ".join(str(problem).split())
        raise DataError(
            f"cannot read {path} as a .npy file ({reason}); give one that --out wrote."
        ) from None
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(
            f"{path} does not hold a table of finite numbers, a row for each text; give one that "
            f"--out wrote."
        )
    return vectors


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without blank ones."""
    number = 1
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if line := raw.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n"):
                    yield number, line
    except OSError as problem:
        raise DataError(
            f"cannot read {path}: {problem.strerror}; give a file that is there."
        ) from None
    except UnicodeDecodeError as problem:
        bad = f"byte 0x{problem.object[problem.start]:02x} at offset {problem.start}"
        raise DataError(
            f"{path}, line {number}: it is not UTF-8 ({bad}); convert it first, with iconv."
        ) from None
