"""Records of JSON lines, JSON arrays, CSV and TSV, and the values of their fields.

    {"answer": "red"}    an object: fields by name, dotted if nested
    ["what?", "red", 7]  a list: fields by number

A row of a table is an object, with fields by name if its first row names them, and by number.
"""

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.contents import opened
from glassformer.data.formats.headers import looks_like_header
from glassformer.data.formats.lines import checked_text, decoded, found, lines, objects
from glassformer.data.sources import Source
from glassformer.errors import DataError, counted, suggest

FIELD = re.compile(r"\{([^{}]+)\}")
"""A field in a template."""
LONGEST_CELL = (1 << 31) - 1
"""Longest cell that the csv module allows on every platform."""


def records(
    source: Source, config: DataConfig, wanted: Mapping[str, str], columns: str | None = None
) -> Iterator[tuple[Any, str]]:
    """Every row as a JSON value, and its origin.

    `wanted`: the fields that are needed, each with the setting that names it; a table has a header
    if one of them is not a number. `columns` describes the first two columns in errors: if no
    setting was changed and the first row has none of their names, these are the first two fields.
    DataError: another format, invalid JSON, an open quote, a missing column, a short row.
    """
    match source.format(config):
        case "jsonl":
            return objects(source, config)
        case "csv" | "tsv":
            return _table(source, config, wanted, columns)
        case "text" if source.suffix == ".json" and config.format == "auto":
            return _array(source, config)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, which has no fields; give .jsonl, .json, .csv "
                f"or .tsv, or set data.format"
            )


def values(
    source: Source,
    config: DataConfig,
    settings: Sequence[str],
    columns: str,
    untyped: Collection[str] = ("label_field", "group_field"),
) -> Iterator[tuple[list[Any], str]]:
    """The value of each of `settings` (fields of DataConfig) in every row, None if it is not set,
    and the row's origin.

    DataError: see `records`; a missing field, or a value that is not text and not `untyped`.
    """
    fields = {name: field for name in settings if (field := getattr(config, name)) is not None}
    wanted = {field: name for name, field in fields.items()}
    for row, where in records(source, config, wanted, columns):
        cells = {name: found(row, field, where, name) for name, field in fields.items()}
        for name in fields.keys() - set(untyped):
            checked_text(cells[name], fields[name], where, f"set data.{name} to a text")
        yield [cells.get(name) for name in settings], where


def field_of(row: Any, field: str, where: str, setting: str) -> Any:
    """The value of a field; DataError: missing (`setting` names it)."""
    if isinstance(row, list):
        return row[column_place(field, len(row), where, setting)]
    return found(row, field, where, setting)


def written(value: Any, field: str, where: str) -> str:
    """A field's value as text; DataError: a list, an object or null."""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    text = str(value) if isinstance(value, int | float) else value
    return checked_text(text, field, where, "give a string, a number, true or false")


def classes_at(value: Any, config: DataConfig, where: str) -> tuple[str, ...]:
    """The classes in a value: one text or number, several with `label_separator`, or a list.

    DataError: another value, or an empty class.
    """
    listed = value if isinstance(value, list) else [value]
    cells = [written(one, config.label_field, where) for one in listed]
    if config.label_separator is not None and not isinstance(value, list):
        cells = cells[0].split(config.label_separator)
    labels = tuple(cell.strip() for cell in cells)
    if not all(labels):
        raise DataError(f"{where} has no class, or an empty one; fill it or remove the row")
    return labels


def named_class(written: str, config: DataConfig, where: str) -> str:
    """The name of a class: by number from `class_names`, cut at `label_delimiter`.

    DataError: a number without a name.
    """
    if config.class_names and written.isascii() and written.isdigit():
        if int(written[:9]) >= len(config.class_names):
            names = f"{len(config.class_names)} names, for 0 to {len(config.class_names) - 1}"
            raise DataError(
                f"{where} is of class {written}, but data.class_names has {names}; add what is "
                f"missing"
            )
        written = config.class_names[int(written)]
    return config.class_name(written)


def filled(template: str, row: Any, where: str, setting: str) -> str:
    """Fill each {field} of a template with the row's value; other braces stay."""
    return FIELD.sub(
        lambda match: written(field_of(row, match[1], where, setting), match[1], where), template
    )


def is_default(config: DataConfig, setting: str) -> bool:
    """Whether a setting has its default."""
    return getattr(config, setting) == DataConfig.model_fields[setting].default


def column_place(field: str, n: int, where: str, setting: str) -> int:
    """The index of the column with a number from 1 to `n`; DataError: out of range."""
    if not _is_number(field) or not 1 <= int(field[:9]) <= n:
        raise DataError(
            f"{where} has {n} columns and none is {field!r}; set data.{setting} to a number from 1 "
            f"to {n}"
        )
    return int(field) - 1


def _array(source: Source, config: DataConfig) -> Iterator[tuple[Any, str]]:
    with opened(source) as file:
        text = decoded(file.read(), config.encoding, source.path)
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DataError(
            f"{source.path} is not JSON ({problem}); set data.format=jsonl if each line is"
        ) from None
    if not isinstance(rows, list):
        raise DataError(
            f"{source.path} is not a JSON array but {text.strip()!r:.40}; give an array of rows"
        )
    yield from ((row, f"{source.path}, row {number}") for number, row in enumerate(rows, 1))


def _table(
    source: Source, config: DataConfig, wanted: Mapping[str, str], columns: str | None
) -> Iterator[tuple[dict[str, str], str]]:
    places, needed = None, 0
    for row, line in _rows(source, config):
        where = f"{source.path}, line {line}"
        if places is None:
            places, headed = _places(row, config, wanted, columns, where)
            needed = 1 + max((places[field] for field in wanted), default=-1)
            if headed:
                needed = needed if columns else len(row)
                continue
        if len(row) < needed:
            raise DataError(
                f"{where} has {counted(len(row), 'column')}, and column {needed} is needed; mend it"
            )
        yield {field: row[place] for field, place in places.items() if place < len(row)}, where


def _rows(source: Source, config: DataConfig) -> Iterator[tuple[list[str], int]]:
    """The rows of a table that are not empty, and the number of the line where each begins.

    If a space follows every comma of the first row, it is dropped after the commas of all rows.
    """
    csv.field_size_limit(LONGEST_CELL)
    delimiter = "\t" if source.format(config) == "tsv" else ","
    # in TSV a quote is a character like any other; in CSV one that is never closed would swallow
    # the rest
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    texts = (f"{line}\n" for line, _ in lines(source, config))
    head = list(islice(texts, 1))
    cells = head[0].split(delimiter) if head else []
    spaced = delimiter == "," and len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])
    table = csv.reader(
        chain(head, texts),
        delimiter=delimiter,
        quoting=quoting,
        strict=True,
        skipinitialspace=spaced,
    )
    begin = 1
    try:
        for row in table:
            if row:  # an empty line is no row
                yield row, begin
            begin = table.line_num + 1
    except csv.Error as problem:
        unclosed = "unexpected end of data" in str(problem)
        lone = "new-line character" in str(problem)
        reason = (
            "a quote that opens there is never closed"
            if unclosed
            else "its lines end with CR alone; save it with LF"
            if lone
            else problem
        )
        raise DataError(
            f"{source.path}, line {begin} is no {delimiter!r} table ({reason})"
        ) from None


def _places(
    first: list[str], config: DataConfig, wanted: Mapping[str, str], columns: str | None, where: str
) -> tuple[dict[str, int], bool]:
    """The index of each field's column, and whether the first row is a header."""
    first = [cell.strip() for cell in first]
    names = [field for field in wanted if not _is_number(field)]
    missing = [field for field in names if field not in first]
    default = columns is not None and all(is_default(config, name) for name in wanted.values())
    if default and missing == names:
        if len(first) < 2:
            raise DataError(f"{where} has 1 column, not {columns}; check data.format")
        _refuse_header(first, wanted, where)
        return dict(zip(wanted, (0, 1), strict=False)), False
    if missing:
        known = suggest(missing[0], (" ".join(cell.split())[:40] for cell in first))
        raise DataError(
            f"{where.rpartition(', ')[0]} has no column {missing[0]!r} in its first row; {known} "
            f"(set data.{wanted[missing[0]]} to a name, or to a number from 1 to {len(first)})"
        )
    for field in wanted.keys() - set(names):
        column_place(field, len(first), where, wanted[field])
    indices = range(len(first))
    places = {str(place + 1): place for place in indices}
    if names:  # the first of two of the same name
        places |= dict(zip(first[::-1], indices[::-1], strict=True))
    return places, bool(names)


def _refuse_header(first: list[str], wanted: Mapping[str, str], where: str) -> None:
    """Raise DataError for a first row that names columns, none of them a wanted one."""
    if looks_like_header(first):
        named = ", ".join(repr(" ".join(cell.split())[:40]) for cell in first)
        fields = " and ".join(f"data.{wanted[field]}" for field in wanted)
        raise DataError(
            f"{where} looks like a header ({named}), but has no column "
            f"{' or '.join(map(repr, wanted))}; set {fields} to its names, or to the numbers "
            f"of columns (from 1) if it is an ordinary row"
        )


def _is_number(field: str) -> bool:
    """Whether a column is named by its number."""
    return field.isascii() and field.isdigit()
