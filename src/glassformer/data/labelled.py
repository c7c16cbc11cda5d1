"""Labelled texts of every split: one or two texts and their classes, from tables, JSONL, or lines
that begin with a class.

Errors name the file and line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.lines import lines
from glassformer.data.formats.records import classes_at, named_class, values
from glassformer.data.sources import Source, resolve
from glassformer.data.splits import in_splits
from glassformer.errors import DataError

MARK = "__label__"
"""fastText's prefix of a class."""

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


def labelled(config: DataConfig) -> Iterator[Labelled]:
    """Every labelled text of every split; rows with neither text nor class are left out.

    An empty list, or with `label_separator` an empty cell, means that a text has no class.
    DataError: a text without a class or a class without a text, a number without a name, empty
    files, another format.
    """
    rows = in_splits(config, lambda name: _rows(config, config.splits[name].path))
    for split, (text, pair, labels, where) in rows:
        classes = dict.fromkeys(named_class(one, config, where) for one in labels)
        yield Labelled(split, text, pair, tuple(classes), where)


def _rows(config: DataConfig, path: str | list[str] | None) -> Iterator[Row]:
    some = labels_seen = False
    for source in resolve(path, config.root):
        for text, pair, labels, where in _all_rows(source, config):
            some, labels_seen = True, labels_seen or bool(labels)
            for side, content in (("text", text), ("second text", pair)):
                if content is not None and not content.strip():
                    raise DataError(
                        f"{where} has an empty {side} beside its class; fill it or remove the line"
                    )
            yield text, pair, labels, where
    if not labels_seen:
        problem = "no text has a class in" if some else "there are no labelled texts in"
        raise DataError(f"{problem} {path}; give texts with a class each")


def _all_rows(source: Source, config: DataConfig) -> Iterator[Row]:
    kind = source.format(config)
    if kind == "label_first":
        return _lines(source, config)
    if kind in ("jsonl", "csv", "tsv", "parquet"):
        return _fields(source, config)
    raise DataError(
        f"{source.path} is read as {kind}, where texts have no classes; set data.format to csv, "
        f"tsv, jsonl, parquet or label_first"
    )


def _fields(source: Source, config: DataConfig) -> Iterator[Row]:
    settings = ("text_field", "label_field", "pair_field")
    for row, where in values(source, config, settings, "a text and a label"):
        if any(not isinstance(cell, str) or cell.strip() for cell in row if cell is not None):
            text, label, pair = row
            yield text, pair, classes_at(label, config, where), where


def _lines(source: Source, config: DataConfig) -> Iterator[Row]:
    for line, where in lines(source, config):
        first = _FIRST.match(line)
        if first is not None:
            named = [classes_at(w.removeprefix(MARK), config, where) for w in first[1].split()]
            yield line[first.end() :].rstrip(), None, tuple(chain.from_iterable(named)), where
