"""Python code tagged by meaning, from the sources of the standard library.

    def area ( r )  ->  keyword function operator parameter operator

Each file belongs to one split, by a hash of its module's name. Its words come in chunks of a few
definitions or statements of the top level; all chunks of a file in order are the words of
`split_code`.
"""

import hashlib
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.codetags import tag_code
from glassformer.demos.codewords import Word
from glassformer.demos.python_text import python_sources
from glassformer.demos.writers import write_lines
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


Chunk = tuple[list[str], list[str]]
"""Words and a tag of `TAGS` for each."""


def write_code(folder: Path) -> None:
    """Write the chunks of each split as words with their tags, one on a line, and a short file of
    the test as it is, to be shown."""
    chunks: dict[SplitName, list[Chunk]] = {split: [] for split in NAMES}
    texts: list[tuple[int, str, str]] = []
    for split, name, source, found in code_files():
        chunks[split] += found
        if split == "test":
            texts.append((len(source), name, source))
    for split in NAMES:
        rows = (
            ["\n".join(map("\t".join, zip(*chunk, strict=True))), ""] for chunk in chunks[split]
        )
        write_lines(folder / f"{split}.conll", chain.from_iterable(rows))
    texts.sort()
    legible = [text for text in texts if text[0] >= LEGIBLE] or texts[-1:]
    for _, name, source in legible[:1]:
        (folder / f"{name}.py").write_text(source, encoding="utf-8", newline="")


def code_files() -> Iterator[tuple[SplitName, str, str, list[Chunk]]]:
    """The split, name, source and chunks of each file, in the order of a hash of its name.

    DataError: this Python has no sources.
    """
    n, some = 0, False
    files = sorted((_digest(name), name, file) for file, name in python_sources())
    for digest, name, file in files:
        split = _split(digest)
        if _TABLES.match(name) or (split == "train" and n >= TRAINING_WORDS):
            continue
        try:
            with tokenize.open(file) as opened:
                source = opened.read()
            words, tags, ends = tag_code(source)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue  # some installations have templates of code
        n, some = n + (len(tags) if split == "train" else 0), True
        texts, borders = [word.text for word in words], pairwise(_borders(words, ends))
        yield split, name, source, [(texts[i:j], tags[i:j]) for i, j in borders]
    if not some:
        raise DataError(
            "this Python has no sources of its standard library, so this demo has no code; use "
            "another Python"
        )


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _split(digest: bytes) -> SplitName:
    """5 of 100 files are for validation, 5 for the test; other bytes than those that order them."""
    share = int.from_bytes(digest[8:16]) % 100
    return "validation" if share < 5 else "test" if share < 10 else "train"


def _borders(words: list[Word], ends: list[int]) -> list[int]:
    """The words at which the chunks of a file begin, and the number of its words.

    A chunk begins at the first line after a statement of the top level, so that comments stand with
    what follows them.
    """
    starts = [word.start for word in words]
    lines = [i for i, word in enumerate(words) if word.kind == "layout" and word.text != "\\"]
    after = [bisect_left(lines, bisect_left(starts, end)) for end in ends]
    places = sorted({0, *(lines[i] for i in after if i < len(lines)), len(starts)})
    borders = [0]
    for place, following in pairwise(places[1:]):
        if following - borders[-1] > CHUNK and place - borders[-1] >= SHORTEST:
            borders.append(place)
    if len(borders) > 1 and len(starts) - borders[-1] < SHORTEST:
        borders.pop()
    return [*borders, len(starts)] if starts else [0]
