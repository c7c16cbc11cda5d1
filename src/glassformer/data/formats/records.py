"""Records of JSON lines, JSON arrays, CSV and TSV, and the values of their fields.

    {"answer": "red"}    an object: fields by name, dotted if nested
    ["what?", "red", 7]  a list: fields by number

Rows of a table are lists, or objects if its first row names the fields.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.lines import checked_text, decoded, found, objects, opened
from glassformer.data.formats.tables import cells, column_place, is_number, no_column, table_rows
from glassformer.data.sources import Source
from glassformer.errors import DataError, counted

FIELD = re.compile(r"\{([^{}]+)\}")
"""A field in a template."""


def records(
    source: Source, config: DataConfig, wanted: Mapping[str, str]
) -> Iterator[tuple[Any, str]]:
    """Every row as a JSON value, and its origin.

    `wanted`: the fields that are needed, each with the setting that names it; a table has a header
    if one of them is not a number. DataError: another format, invalid JSON, a missing column, a
    short row.
    """
    match source.format(config):
        case "jsonl":
            return objects(source, config)
        case "csv" | "tsv":
            return _table(source, config, wanted)
        case "text" if source.suffix == ".json" and config.format == "auto":
            return _array(source, config)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, which has no fields; give .jsonl, .json, "
                f".csv or .tsv, or set "
                "data.format"
            )


def columns(
    source: Source,
    config: DataConfig,
    settings: Sequence[str],
    wanted: str,
    untyped: Collection[str] = ("label_field", "group_field"),
) -> Iterator[tuple[list[Any], str]]:
    """The value of each of `settings` (fields of DataConfig) in every row, None if it is not set,
    and the row's origin; see `cells` for tables.

    DataError: a missing field, or a value that is not text and not `untyped`.
    """
    if source.format(config) != "jsonl":
        yield from cells(source, config, settings, wanted)
        return
    fields = {name: field for name in settings if (field := getattr(config, name)) is not None}
    for record, where in objects(source, config):
        values = {name: found(record, field, where, name) for name, field in fields.items()}
        for name in fields.keys() - set(untyped):
            checked_text(values[name], fields[name], where, f"set data.{name} to a text")
        yield [values.get(name) for name in settings], where


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
    cells = [
        written(one, config.label_field, where)
        for one in (value if isinstance(value, list) else [value])
    ]
    if config.label_separator is not None and not isinstance(value, list):
        cells = cells[0].split(config.label_separator)
    labels = tuple(cell.strip() for cell in cells)
    if not all(labels):
        raise DataError(f"{where} has no class, or an empty one; fill it or remove the row")
    return labels


def filled(template: str, row: Any, where: str, setting: str) -> str:
    """Fill each {field} of a template with the row's value; other braces stay."""
    return FIELD.sub(
        lambda match: written(field_of(row, match[1], where, setting), match[1], where), template
    )


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
    source: Source, config: DataConfig, wanted: Mapping[str, str]
) -> Iterator[tuple[list[str] | dict[str, str], str]]:
    """Lists of cells; objects by name and by number if there is a header."""
    names = {field: setting for field, setting in wanted.items() if not is_number(field)}
    header: list[str] | None = None
    for row, where in table_rows(source, config):
        if not names:
            yield row, where
        elif header is None:
            header = row
            for field, setting in names.items():
                if field not in header:
                    raise no_column(source.path, field, header, setting)
        elif len(row) < len(header):
            raise DataError(
                f"{where} has {counted(len(row), 'column')}, and {len(header)} are needed; mend it"
            )
        else:
            by_number = {str(number): cell for number, cell in enumerate(row, 1)}
            by_name = dict(
                zip(reversed(header), reversed(row[: len(header)]), strict=True)
            )  # the first of two
            yield by_number | by_name, where
