"""Records divide into training, validation and test: by file, or held out of those to train on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np

from glassformer.core.errors import DataError
from glassformer.core.random_stream import epoch_key, permute
from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.data.formats.documents import Document, read
from glassformer.data.sources import Source, resolve

Row = TypeVar("Row")


def borders(n: int, validation: float, test: float) -> tuple[int, int]:
    """Beginnings of validation and test text in n characters: int(n (1 - validation - test)) and
    int(n (1 - test))."""
    # rounded, because 1 - 0.2 - 0.1 is 0.7000000000000001, which could move a border by one
    return int(n * round(1 - validation - test, 9)), int(n * round(1 - test, 9))


def parts(config: DataConfig) -> Iterator[Document]:
    """Every document of every split, in order; a document on a border is cut.

    With fractions the text is read twice, first to count its characters.
    """
    sources, held_out = resolve(config.train.path, config), config.held_out
    if any(held_out):
        n = sum(len(document.text) for document in read(sources))
        yield from divide(read(sources), (0, *borders(n, *held_out), n))
    else:
        yield from read(sources)
    for name in config.with_files[1:]:
        for document in read(resolve(config.splits[name].path, config)):
            yield replace(document, split=name)


def whole(found: Iterable[Document]) -> Iterator[Document]:
    """Join the pieces of each document that are in one split."""
    held: list[Document] = []
    for part in chain(found, [None]):
        if held and (part is None or held[-1].ends or part.split != held[0].split):
            text = "".join(one.text for one in held)
            yield replace(held[-1], text=text)
            held = []
        held += [part] if part else []


def texts_for_tokenizer(config: DataConfig) -> Iterator[str]:
    """The training text: what a tokenizer may be trained on."""
    for part in parts(config):
        if part.split != "train":
            return
        yield part.text


def divide(documents: Iterable[Document], borders: Sequence[int]) -> Iterator[Document]:
    """Documents cut at the borders of the splits: of each split begin and end, in characters."""
    start = 0
    for document in documents:
        end = start + len(document.text)
        for name, (low, high) in zip(NAMES, pairwise(borders), strict=False):
            piece = document.text[max(low - start, 0) : max(high - start, 0)]
            if piece:
                yield Document(piece, document.source, document.ends and end <= high, name)
        start = end


def in_splits(
    config: DataConfig,
    rows: Callable[[SplitName], Iterable[Row]],
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
    """Return a function that reads the rows of a split by the reader of one file."""
    return lambda split: (
        row for source in resolve(config.splits[split].path, config) for row in read(source)
    )
