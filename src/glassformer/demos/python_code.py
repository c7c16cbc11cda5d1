"""Python code tagged by meaning: the demo data of tagging, from the sources of the standard
library.

    def area ( r )  ->  keyword function operator parameter operator

Every file belongs whole to training, validation or the test, by a hash of its module's name. Its
words come in chunks of a few definitions or statements of the top level; all chunks of a file in
order are the words of `split_code`.
"""

import hashlib
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from glassformer.data.split import SplitName
from glassformer.demos.codetags import tag_code
from glassformer.demos.codewords import Code
from glassformer.demos.python_text import python_sources
from glassformer.errors import DataError

TRAINING_WORDS = 600_000
"""Files are read for training until they have that many words; all those of the other splits are
read."""
CHUNK = 256
"""Neighbouring statements are put together up to so many words; one that is longer stands alone."""
SHORTEST = 20
"""A chunk of fewer words is joined to the one before it."""

LEGIBLE = 2500
"""Characters of a file that is shown, at least."""

_TABLES = re.compile(r"encodings\.|_sysconfigdata|html\.entities$")
"""Modules that hold data rather than code."""


@dataclass(frozen=True)
class CodeChunk:
    """Words of a file from its top level, a tag for each, and where they stand: a module and a
    line."""

    split: SplitName
    words: list[str]
    tags: list[str]
    where: str


def python_code() -> Iterator[tuple[SplitName, list[str], list[str], str]]:
    """Every chunk of code: its split, its words, a tag of `TAGS` for each, and where it stands.

    The order is by a hash of the module's name: fixed, and mixed. DataError: this Python has no
    sources.
    """
    for chunk in code_chunks():
        yield chunk.split, chunk.words, chunk.tags, chunk.where


def describe_code() -> str:
    """One sentence on what the code consists of here."""
    chunks = code_chunks()
    modules = len({chunk.where.split(",")[0] for chunk in chunks})
    train = sum(len(chunk.words) for chunk in chunks if chunk.split == "train")
    held = sum(len(chunk.words) for chunk in chunks) - train
    return (
        f"builtin:python-code is {modules} files of this Python's standard library, {train:,} "
        f"words for training and "
        f"{held:,} of other files held out"
    )


@cache
def code_chunks() -> tuple[CodeChunk, ...]:
    """What `python_code` gives, made once in a process (some seconds)."""
    found, words = list[CodeChunk](), 0
    for digest, name, file in sorted(
        (_digest(name), name, file) for file, name in python_sources()
    ):
        split = _split(digest)
        if _TABLES.match(name) or (split == "train" and words >= TRAINING_WORDS):
            continue
        try:
            source = _source(file)
            code, tags, ends = tag_code(source)
        except (
            OSError,
            SyntaxError,
            ValueError,
            RecursionError,
        ):  # some installations bring templates of code
            continue
        for start, end in pairwise(_borders(code, ends)):
            line = source.count("\n", 0, code.spans[start][1]) + 1
            found.append(
                CodeChunk(split, code.words[start:end], tags[start:end], f"{name}, line {line}")
            )
        words += len(tags) if split == "train" else 0
    if not found:
        raise DataError(
            "this Python has no sources of its standard library, so there is no "
            "builtin:python-code; set data.path to "
            "a file"
        )
    return tuple(found)


def held_out_file() -> tuple[str, str]:
    """The name and the text of a short file of the test, to be looked at."""
    modules = {chunk.where.split(",")[0] for chunk in code_chunks() if chunk.split == "test"}
    texts = sorted(
        (len(text := _source(file)), name, text)
        for file, name in python_sources()
        if name in modules
    )
    return next(((name, text) for size, name, text in texts if size >= LEGIBLE), texts[-1][1:])


def _source(file: Path) -> str:
    with tokenize.open(file) as opened:
        return opened.read()


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _split(digest: bytes) -> SplitName:
    """5 of 100 files are for validation, 5 for the test; other bytes than those that order them."""
    share = int.from_bytes(digest[8:16]) % 100
    return "validation" if share < 5 else "test" if share < 10 else "train"


def _borders(code: Code, ends: list[int]) -> list[int]:
    """The words at which the chunks of a file begin, and the number of its words.

    A chunk begins at the first line after a statement of the top level, so that comments stand with
    what follows them.
    """
    starts = [start for start, _ in code.spans]
    lines = [i for i, (kind, word) in enumerate(zip(code.kinds, code.words, strict=True))
             if kind == "layout" and word != "\\"]  # fmt: skip
    after = [bisect_left(lines, bisect_left(starts, end)) for end in ends]
    places = sorted({0, *(lines[i] for i in after if i < len(lines)), len(starts)})
    borders = [0]
    for place, following in pairwise(places[1:]):
        if following - borders[-1] > CHUNK and place - borders[-1] >= SHORTEST:
            borders.append(place)
    if len(borders) > 1 and len(starts) - borders[-1] < SHORTEST:
        borders.pop()
    return [*borders, len(starts)] if starts else [0]
