"""Records divided into training, validation and test: by file, or held out of those to train on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from glassformer.core.errors import DataError
from glassformer.core.random_stream import epoch_key, permute
from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.data.formats.documents import Document, read
from glassformer.data.sources import Source, resolve

Row = TypeVar("Row")


@dataclass(frozen=True)
class Part:
    """A document of a split, or a piece of one."""

    split: SplitName
    text: str
    source: str
    ends: bool
    """Whether it reaches the document's end."""


def borders(n: int, validation: float, test: float) -> tuple[int, int]:
    """Beginnings of validation and test text in n characters: int(n (1 - validation - test)) and
    int(n (1 - test))."""
    # rounded, because 1 - 0.2 - 0.1 is 0.7000000000000001, which could move a border by one
    return int(n * round(1 - validation - test, 9)), int(n * round(1 - test, 9))


def parts(config: DataConfig) -> Iterator[Part]:
    """Every document of every split, in order; a document on a border is cut.

    With fractions the text is read twice, first to count its characters.
    """
    validation, test = config.held_out
    sources = resolve(config.train.path, config)
    if validation or test:
        n = sum(len(document.text) for document in read(sources))
        begins = (0, *borders(n, validation, test), n)
        yield from divided(read(sources), begins)
    else:
        yield from of_split("train", read(sources))
    for name in config.with_files[1:]:
        own = resolve(config.splits[name].path, config)
        yield from of_split(name, read(own))


def whole(found: Iterable[Part]) -> Iterator[Part]:
    """The same with all pieces of a document in one split as one."""
    held: list[Part] = []
    for part in found:
        if held and (held[-1].ends or part.split != held[0].split):
            yield _joined(held)
            held = []
        held.append(part)
    if held:
        yield _joined(held)


def _joined(held: list[Part]) -> Part:
    text = "".join(part.text for part in held)
    return replace(held[0], text=text, ends=held[-1].ends)


def texts_for_tokenizer(config: DataConfig) -> Iterator[str]:
    """The training text: what a tokenizer may be trained on."""
    for part in parts(config):
        if part.split != "train":
            return
        yield part.text


def of_split(split: SplitName, documents: Iterable[Document]) -> Iterator[Part]:
    """Documents that all belong to one split."""
    for document in documents:
        yield Part(split, document.text, document.source, document.ends)


def divided(
    documents: Iterable[Document], borders: Sequence[int], start: int = 0
) -> Iterator[Part]:
    """Documents cut at the borders of the splits: of each split begin and end, in characters of a
    text of which `start` come before."""
    for document in documents:
        end = start + len(document.text)
        for name, low, high in zip(NAMES, borders, borders[1:], strict=False):
            piece = document.text[max(low - start, 0) : max(high - start, 0)]
            if piece:
                yield Part(name, piece, document.source, document.ends and end <= high)
        start = end


def in_splits(
    config: DataConfig,
    rows: Callable[[SplitName], Iterator[Row]],
    noun: str | None = None,
    remedy: str = "",
) -> Iterator[tuple[SplitName, Row]]:
    """Every row with its split; `rows` reads a split's files (those of train twice, if rows are
    held out).

    Splits without files are held out from train by a fixed permutation, since files are often
    sorted. DataError: a split without rows; `noun` names these.
    """

    def read(split: SplitName) -> Iterator[Row]:
        row = None
        for row in rows(split):
            yield row
        if row is None and noun is not None:
            raise DataError(f"there are no {noun} in {config.splits[split].path}; {remedy}")

    validation, test = config.held_out
    named = config.with_files
    if validation or test:
        n = sum(1 for _ in read("train"))
        last = permute(np.arange(n), n, epoch_key(0, 0)) if n else np.zeros(0, int)
        for place, row in zip(last, read("train"), strict=True):
            held: SplitName = "validation" if place < round(n * validation) else "test"
            yield held if place < round(n * (validation + test)) else "train", row
        del named[0]
    for split in named:
        for row in read(split):
            yield split, row


def rows_of(
    config: DataConfig, read: Callable[[Source], Iterator[Row]]
) -> Callable[[SplitName], Iterator[Row]]:
    """Return the function that reads the rows of a split, by what reads those of a file."""
    return lambda split: (
        row for source in resolve(config.splits[split].path, config) for row in read(source)
    )
