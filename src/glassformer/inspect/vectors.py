"""Cosine similarity of vectors, the nearest of many, and files of vectors.

    cos(u, v) = u · v / (‖u‖ ‖v‖)

    word2vec, GloVe, fastText   king 0.1 -0.2 ...        a first line of two counts is passed over
    .jsonl                      {"text": "king", "vector": [0.1, -0.2, ...]}
    .npy                        a table, a row for each text

The similarity of a zero vector to any is 0. Every error of a file names the line.

Source: Note A (similar words have similar vectors), Note E (directions); Mikolov et al., Linguistic
Regularities in Continuous Space Word Representations, 2013.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel

from glassformer.core.errors import DataError, counted
from glassformer.data.formats.idx import read_npy
from glassformer.data.sources import reading

Named = tuple[list[str], np.ndarray]
"""Texts, and a vector for each, float32 [N, D]."""
NUMBERS = 1 << 23
"""Similarities in memory at the same time."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., D] at length 1; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The similarity of every vector of `one` [N, D] to every one of `other` [M, D], in [-1, 1],
    [N, M]."""
    return np.clip(unit(one) @ unit(other).T, -1, 1)


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each query [Q, D] the `k` most similar of vectors [N, D], best first: indices and
    similarities [Q, K].

    Where there are fewer than k vectors, K = N.
    """
    known, k = torch.from_numpy(unit(vectors)).T, min(k, len(vectors))
    portions = torch.from_numpy(unit(queries)).to(known).split(NUMBERS // (len(vectors) + 1) + 1)
    found = ((portion @ known).clamp(-1, 1).topk(k) for portion in portions)
    similarities, indices = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
    return indices, similarities


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
    array = read_npy(str(path.absolute()))
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32) if array.dtype.kind in "fiu" else np.zeros(0)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(
            f"{path} does not hold a table of finite numbers, a row for each text; give one that "
            f"--out wrote."
        )
    return vectors


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without blank ones."""
    with reading(str(path)), path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
            except UnicodeDecodeError as problem:
                bad = f"byte 0x{raw[problem.start]:02x} at offset {problem.start}"
                raise DataError(
                    f"{path}, line {number}: it is not UTF-8 ({bad}); convert it first, with iconv."
                ) from None
            if line:
                yield number, line
