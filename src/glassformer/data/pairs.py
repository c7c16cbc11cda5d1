"""From sources to pairs of a text and what is to be made of it: two files line by line, TSV, CSV, JSONL, the demo's.

Every sentence about a bad pair names its file and line. Knows: encodings and formats. Does not know: tokens.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.order import epoch_key, permute
from glassformer.data.readers import checked_text, decoded, opened, parsed
from glassformer.data.sources import DATES, JSONL_SUFFIXES, Source, resolve
from glassformer.data.split import NAMES, SplitName
from glassformer.errors import ConfigError, DataError, suggest

DATE_COUNTS = (100_000, 1_500, 5_000)
"""Pairs of the demo's data for training, validation and testing."""

LONGEST_CELL = (1 << 31) - 1
"""Characters in a cell of a table: as many as the csv module can be allowed everywhere."""

Rows = Iterator[tuple[str, str, str | None, str]]
"""Source, target, group, and where they stand."""


@dataclass(frozen=True)
class Pair:
    """A source, its target, and where they come from, as a user would name it."""

    split: SplitName
    source: str
    target: str
    group: str | None
    where: str


def pairs(config: DataConfig) -> Iterator[Pair]:
    """Every pair of every split; pairs of two empty sides are left out, and one empty side is a DataError.

    Splits without a file of their own are drawn from `path` by a fixed permutation, since files are often sorted.
    """
    if config.path == DATES:
        yield from _dates()
        return
    validation, test = config.held_out_validation, config.held_out_test
    if validation or test:
        n = sum(1 for _ in _rows(config, config.path, config.target_path))
        last = permute(np.arange(n), n, epoch_key(0, 0)) if n else np.zeros(0, int)
        for place, row in zip(last, _rows(config, config.path, config.target_path), strict=True):
            held = place < round(n * (validation + test))
            split: SplitName = "train" if not held else "validation" if place < round(n * validation) else "test"
            yield Pair(split, *row)
    else:
        yield from (Pair("train", *row) for row in _rows(config, config.path, config.target_path))
    others: list[tuple[SplitName, str | list[str] | None, str | list[str] | None]] = [
        ("validation", config.validation_path, config.validation_target_path),
        ("test", config.test_path, config.test_target_path),
    ]
    for name, path, target_path in others:
        if path is not None:
            yield from (Pair(name, *row) for row in _rows(config, path, target_path))
        elif target_path is not None:
            raise ConfigError(f"data.{name}_target_path is set but data.{name}_path, its other side, is not; set both.")


def training_texts(config: DataConfig, sides: tuple[str, ...]) -> Iterator[str]:
    """The texts of the training pairs alone, of the given sides: what a tokenizer may be trained on."""
    for pair in pairs(config):
        if pair.split == "train":
            yield from ((config.prefix + pair.source) if side == "source" else pair.target for side in sides)


def pair_sources(config: DataConfig) -> dict[str, list[Source]]:
    """The files that the pairs are read from, by field of the configuration."""
    fields = ("path", "target_path", "validation_path", "validation_target_path", "test_path", "test_target_path")
    named = {field: getattr(config, field) for field in fields}
    return {field: resolve(path, config.root) for field, path in named.items() if path is not None}


def _rows(config: DataConfig, path: str | list[str] | None, target_path: str | list[str] | None) -> Rows:
    some = False
    for source, target, group, where in _all_rows(config, path, target_path):
        if not source.strip() and not target.strip():
            continue
        for side, text, other in (("source", source, "target"), ("target", target, "source")):
            if not text.strip():
                raise DataError(f"{where} has an empty {side} beside a {other}; fill it or remove both")
        some = True
        yield source, target, group, where
    if not some:
        raise DataError(f"there are no pairs in {path}; give files with a source and a target on every line")


def _all_rows(config: DataConfig, path: str | list[str] | None, target_path: str | list[str] | None) -> Rows:
    sources = resolve(path, config.root)
    if target_path is not None:
        targets = resolve(target_path, config.root)
        if len(sources) != len(targets):
            raise DataError(
                f"there are {len(sources)} files of sources and {len(targets)} of targets; give one for each"
            )
        for left, right in zip(sources, targets, strict=True):
            yield from _two_files(left, right, config)
        return
    for source in sources:
        kind = config.format if config.format != "auto" else _kind(source)
        match kind:
            case "jsonl":
                yield from _json_rows(source, config)
            case "csv" | "tsv":
                yield from _table_rows(source, config, "," if kind == "csv" else "\t")
            case _:
                raise DataError(
                    f"{source.path} is a text file with one side only; set data.target_path (of another split, "
                    "data.validation_target_path or data.test_target_path) to the file of targets, or data.format to "
                    "tsv, csv or jsonl if it holds both"
                )


def _kind(source: Source) -> str:
    if source.suffix in JSONL_SUFFIXES:
        return "jsonl"
    return source.suffix[1:] if source.suffix in (".csv", ".tsv") else "text"


def _two_files(left: Source, right: Source, config: DataConfig) -> Rows:
    with opened(left) as sources, opened(right) as targets:
        both = zip_longest(_lines(sources, config, left.path), _lines(targets, config, right.path))
        for number, (source, target) in enumerate(both, 1):
            if source is None or target is None:
                longer, shorter = (right, left) if source is None else (left, right)
                raise DataError(
                    f"{longer.path} goes on at line {number} where {shorter.path} has ended after {number - 1} lines; "
                    "line n of one file must belong to line n of the other"
                )
            yield source, target, None, f"{left.path}, line {number}"


def _lines(file: io.BufferedIOBase, config: DataConfig, name: str) -> Iterator[str]:
    """The lines of a file without their ends, decoded one by one; only \\n ends a line."""
    wide = len("\n".encode(config.encoding)) != 1  # whose newline is not one byte
    if wide:
        text = io.StringIO(decoded(file.read(), config.encoding, name), newline="\n")
        yield from (line.rstrip("\r\n") for line in text)
        return
    offset = 0
    for raw in file:
        yield decoded(raw, config.encoding, name, offset).rstrip("\r\n")
        offset += len(raw)


def _json_rows(source: Source, config: DataConfig) -> Rows:
    with opened(source) as file:
        for number, line in enumerate(_lines(file, config, source.path), 1):
            where = f"{source.path}, line {number}"
            if not line.strip():
                continue
            record = parsed(line, where)
            group = None if config.group_field is None else str(_found(record, config.group_field, where, "group"))
            source_text = _text(record, config.source_field, where, "source")
            yield source_text, _text(record, config.target_field, where, "target"), group, where


def _text(record: Any, field: str, where: str, side: str) -> str:
    return checked_text(_found(record, field, where, side), field, where, f"data.{side}_field")


def _found(record: Any, field: str, where: str, side: str) -> Any:
    """The value at a dotted path of a JSON object; a name that holds dots itself comes first."""
    value = record
    for name in [field] if isinstance(record, dict) and field in record else field.split("."):
        if not isinstance(value, dict) or name not in value:
            known = suggest(name, value) if isinstance(value, dict) and value else f"there is {value!r:.40}"
            raise DataError(f"{where} has no field {field!r}; {known} (set data.{side}_field)")
        value = value[name]
    return value


def _table_rows(source: Source, config: DataConfig, delimiter: str) -> Rows:
    """Rows of a table by their columns' names, or the first two columns where no header names them."""
    csv.field_size_limit(LONGEST_CELL)
    with opened(source) as file:
        lines = (line + "\n" for line in _lines(file, config, source.path))
        # in TSV a quote is a character like any other; in CSV one that is never closed would swallow the rest
        quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
        table = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            first = next(filter(None, table), None)  # an empty line is no row
            if first is None:
                return
            where = f"{source.path}, line {table.line_num}"
            columns, headed = _columns(first, config, source.path, where)
            if not headed:
                yield _cells(first, columns, where)
            for row in filter(None, table):
                yield _cells(row, columns, f"{source.path}, line {table.line_num}")
        except csv.Error as problem:
            raise DataError(f"{source.path}, line {table.line_num} is no {delimiter!r} table ({problem})") from None


def _columns(first: list[str], config: DataConfig, name: str, where: str) -> tuple[list[int], bool]:
    """Which columns hold source, target and (if asked) group, and whether the first row is their header."""
    wanted = [config.source_field, config.target_field, *([config.group_field] if config.group_field else [])]
    if all(field in first for field in wanted):
        return [first.index(field) for field in wanted], True
    if {"source_field", "target_field", "group_field"} & config.model_fields_set and wanted != ["source", "target"]:
        missing = next(field for field in wanted if field not in first)
        raise DataError(f"{name} has no column {missing!r} in its first row; {suggest(missing, first)}")
    if len(first) < 2:
        raise DataError(f"{where} has {len(first)} column, not a source and a target; check data.format")
    return [0, 1], False


def _cells(row: list[str], columns: list[int], where: str) -> tuple[str, str, str | None, str]:
    if len(row) <= max(columns):
        raise DataError(f"{where} has {len(row)} columns, and column {max(columns) + 1} is needed; mend this line")
    cells = [row[column] for column in columns]
    return cells[0], cells[1], cells[2] if len(cells) > 2 else None, where


def _dates() -> Iterator[Pair]:
    from glassformer.data.dates import date_splits, language_names

    names = language_names()
    splits = date_splits(*DATE_COUNTS)
    for name in NAMES:
        part = {"train": splits.train, "validation": splits.validation, "test": splits.test}[name]
        for number, date in enumerate(part, 1):
            yield Pair(name, date.source, date.target, names[date.language], f"{DATES}/{name}, pair {number}")
