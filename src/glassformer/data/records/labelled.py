"""Labelled texts of every split: one or two texts and their classes.

They are rows of tables or JSONL, lines that begin with a class or have it in a second file, or
files in a folder for each class.

Errors name the file and line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.lines import lines, lines_beside, texts
from glassformer.data.formats.records import RECORDS, check_used, classes_at, values
from glassformer.data.records.labelled_files import labelled_files
from glassformer.data.sources import Source, resolve
from glassformer.data.splits import in_splits

TEXTS = ("", ".txt", ".text")
"""Ends of the names of files with a text each."""
MARK = "__label__"
"""fastText's prefix of a class."""

COLUMNS = ("text_field", "label_field", "pair_field", "label_columns")
"""Settings that name columns."""

Row = tuple[str, str | None, tuple[str, ...], str]
"""Text, second text, classes, origin."""

_FIRST = re.compile(rf"\s*((?:{MARK}\S+\s+)*{MARK}\S+|\S+)\s*")


@dataclass(frozen=True)
class Labelled:
    """A text, a second text, their distinct classes, and their origin."""

    split: SplitName
    text: str
    pair: str | None
    labels: tuple[str, ...]
    where: str


def read_labelled(config: DataConfig) -> Iterator[Labelled]:
    """Every labelled text of every split; rows with neither text nor class are left out.

    An empty list, or with `label_separator` an empty cell, means that a text has no class.
    DataError: a text without a class or a class without a text, a number without a name, empty
    files, another format.
    """
    if _are_files(config):
        check_used(config, COLUMNS, used=False, path=config.train.path)
        for file in labelled_files(config, TEXTS, "text file"):
            text = "".join(texts(file.source)).strip()
            _check_filled(text, "text", file.where)
            yield Labelled(file.split, text, None, file.labels, file.where)
        return
    rows = in_splits(
        config, partial(_rows, config), "labelled texts", "give texts with a class each"
    )
    for split, (text, pair, labels, where) in rows:
        _check_filled(text, "text", where)
        _check_filled(pair, "second text", where)
        yield Labelled(split, text, pair, labels, where)


def _are_files(config: DataConfig) -> bool:
    """Return whether each text is a file: there are only files of text, and several of them."""
    if config.train.path is None or config.train.labels is not None:
        return False
    sources = resolve(config.train.path, config)
    return len(sources) > 1 and all(source.kind == "text" for source in sources)


def _check_filled(text: str | None, side: str, where: str) -> None:
    if text is not None and not text.strip():
        raise DataError(f"{where} has an empty {side} beside its class; fill it or remove the line")


def _rows(config: DataConfig, split: SplitName) -> Iterator[Row]:
    of = config.splits[split]
    sources = resolve(of.path, config)
    fields = of.labels is None and any(one.kind in RECORDS for one in sources)
    check_used(config, COLUMNS, fields, of.path)
    check_used(config, ["label_pattern"], used=False, path=of.path)
    if of.labels is None:
        for source in sources:
            yield from _rows_of(source)
        return
    labels = resolve(of.labels, config)
    if len(sources) != 1 or len(labels) != 1:
        raise DataError(
            f"there are {len(sources)} files of texts and {len(labels)} of their classes; give one "
            "of each"
        )
    for text, label, where in lines_beside(sources[0], labels[0]):
        if text.strip() or label.strip():
            yield text, None, classes_at(label, config, where), where


def _rows_of(source: Source) -> Iterator[Row]:
    kind, config = source.kind, source.config
    if kind in RECORDS:
        for row, where in values(source, COLUMNS[:3], "a text and a label"):
            text, label, pair = row
            if any(not isinstance(cell, str) or cell.strip() for cell in row if cell is not None):
                yield text, pair, classes_at(label, config, where), where
    elif kind == "label_first":
        for line, where in lines(source):
            if first := _FIRST.match(line):
                named = (classes_at(w.removeprefix(MARK), config, where) for w in first[1].split())
                labels = dict.fromkeys(chain.from_iterable(named))
                yield line[first.end() :].rstrip(), None, tuple(labels), where
    else:
        raise DataError(
            f"{source.path} is read as {kind}, where texts have no classes; set data.format to "
            "csv, tsv, jsonl, parquet or label_first, data.train.labels to a file with a class a "
            "line, or give a folder of texts for each class"
        )
