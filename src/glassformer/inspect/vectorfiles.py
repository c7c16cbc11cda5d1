"""Files of vectors: word vectors of others, and the output of `glassformer embed`.

    word2vec, GloVe, fastText   king 0.1 -0.2 ...        a first line of two counts is passed over
    .jsonl                      {"text": "king", "vector": [0.1, -0.2, ...]}
    .npy                        a table, a row for each text

Every error names the line.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from glassformer.errors import DataError, counted

Named = tuple[list[str], np.ndarray]
"""Texts, and a vector for each, float32 [N, D]."""
Entry = tuple[int, str, list[float]]
"""The number of a line, its text and its vector."""


def read_named(path: Path) -> Named:
    """Texts and vectors of JSON lines (.jsonl), without those of null, or of a text file.

    DataError: names the line.
    """
    return _gathered(path, (_of_json if path.suffix == ".jsonl" else _of_text)(path))


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


def _gathered(path: Path, entries: Iterable[Entry]) -> Named:
    """Entries in memory; DataError for vectors of several widths, NaN and infinity."""
    texts: list[str] = []
    vectors: list[np.ndarray] = []
    for number, text, values in entries:
        with np.errstate(over="ignore"):
            vector = np.array(values, np.float32)
        if not np.isfinite(vector).all():
            raise DataError(
                f"{path}, line {number}: the vector of {text!r} has NaN, infinity or a number "
                f"too large."
            )
        width = len(vectors[0]) if vectors else max(1, len(vector))
        if len(vector) != width:
            raise DataError(
                f"{path}, line {number}: {text[:40]!r} has {counted(len(vector), 'number')} "
                f"instead of {width}; give lines of one width."
            )
        texts.append(text)
        vectors.append(vector)
    return texts, np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)


def _of_text(path: Path) -> Iterator[Entry]:
    """word v1 v2 ...; a word may hold spaces, as some of GloVe do: numbers count from the end."""
    width = 0
    for number, line in lines_of(path):
        word, *numbers = re.split(r"[ \t]+", line)
        if number == 1 and len(numbers) == 1 and (word + numbers[0]).isdecimal():
            continue  # counts of words and of numbers
        width = width or len(numbers)
        try:
            values = [*map(float, numbers)]
        except ValueError:
            word, numbers = " ".join([word, *numbers[:-width]]), numbers[-width:]
            try:
                values = [*map(float, numbers)]
            except ValueError as problem:
                raise DataError(
                    f"{path}, line {number}: {problem}; give lines such as 'king 0.1 -0.2'."
                ) from None
        yield number, word, values


class _Row(BaseModel, strict=True):
    """A line of JSON."""

    text: str
    vector: Annotated[list[float], Field(min_length=1)] | None


def _of_json(path: Path) -> Iterator[Entry]:
    for number, line in lines_of(path):
        try:
            row = _Row.model_validate_json(line)
        except ValidationError:
            example = '{"text": "king", "vector": [0.1, -0.2]}'
            raise DataError(
                f"{path}, line {number}: it is not such as {example}; give lines that `embed` "
                f"wrote."
            ) from None
        if row.vector is not None:
            yield number, row.text, row.vector
