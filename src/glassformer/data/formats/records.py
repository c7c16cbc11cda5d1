"""Records of JSON lines, JSON arrays, CSV, TSV and Parquet, and the values of their fields.

    {"answer": "red"}    an object: fields by name, dotted if nested
    ["what?", "red", 7]  a list: fields by number

A row of a table is an object, with fields by name if its first row names them, and by number.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.config import DataConfig
from glassformer.data.formats.delimited import column_place, default_of, is_default, table
from glassformer.data.formats.lines import checked_text, found, objects
from glassformer.data.formats.parquet import parquet_rows
from glassformer.data.sources import Source

RECORDS = ("jsonl", "csv", "tsv", "parquet")
"""Formats with fields."""
FIELD = re.compile(r"\{([^{}]+)\}")
"""A field in a template."""
WHOLE = re.compile(r"([+-]?\d+)\.0+")
"""A whole number as tables with missing cells write it: 1.0 is the class 1."""
MARKS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
UNTYPED = {"label_field", "group_field", "file_field"}
"""Settings of columns with any values."""
MISSING = ("", "nan", "null", "<na>")
"""Labels of texts without a class."""


def check_used(config: DataConfig, settings: Sequence[str], used: bool, path: object) -> None:
    """Raise ConfigError for a setting that is set and names a column where there are none."""
    for name in () if used else settings:
        if not is_default(config, name):
            raise ConfigError(
                f"data.{name}={getattr(config, name)!r} is not used by {path}, which has no such "
                f"columns; set it to {default_of(name)!r}, or give a table or data.format."
            )


def records(
    source: Source,
    wanted: Mapping[str, str],
    columns: str | None = None,
    whole: bool = True,
) -> Iterator[tuple[Any, str]]:
    """Every row as a JSON value, and its origin.

    `wanted`: the fields that are needed, each with the setting that names it; a table has a header
    if one of them is not a number. `columns` describes the first two columns in errors: if no
    setting was changed and the first row has none of their names, these are the first two fields.
    Of Parquet only the wanted fields are read, unless rows are read `whole`.
    DataError: another format, invalid JSON, an open quote, a missing column, a short row.
    """
    match source.kind:
        case "jsonl":
            return objects(source)
        case "csv" | "tsv":
            return table(source, wanted, columns)
        case "parquet":
            return parquet_rows(source, None if whole else wanted)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, which has no fields; give .jsonl, .json, "
                f".csv, .tsv or .parquet, or set data.format"
            )


def values(
    source: Source, settings: Sequence[str], columns: str
) -> Iterator[tuple[list[Any], str]]:
    """The value of each of `settings` (fields of DataConfig) in every row, None if it is not set,
    and the row's origin.

    DataError: see `records`; a missing field, or a value that is not text and not one of UNTYPED.
    """
    config = source.config
    fields = {name: field for name in settings if (field := getattr(config, name)) is not None}
    marks = config.label_columns if "label_field" in fields else ()
    if marks:
        del fields["label_field"]
    wanted = {field: name for name, field in fields.items()} | dict.fromkeys(marks, "label_columns")
    for row, where in records(source, wanted, columns, whole=False):
        cells = {name: found(row, field, where, name) for name, field in fields.items()}
        if marks:
            cells["label_field"] = [one for one in marks if _is_marked(row, one, where)]
        for name in fields.keys() - UNTYPED:
            checked_text(cells[name], fields[name], where, f"set data.{name} to a text")
        yield [cells.get(name) for name in settings], where


def _is_marked(row: Any, column: str, where: str) -> bool:
    """Return whether a row has 1 in a column of 0 and 1."""
    value = found(row, column, where, "label_columns")
    mark = MARKS.get(str(value).strip().casefold())
    if mark is None:
        raise DataError(f"{where} has {value!r:.50} in the column {column!r}; give 0 or 1")
    return mark


def field_of(row: Any, field: str, where: str, setting: str) -> Any:
    """The value of a field; DataError: missing (`setting` names it)."""
    if isinstance(row, list):
        return row[column_place(field, len(row), where, setting)]
    return found(row, field, where, setting)


def text_of(value: Any, field: str, where: str) -> str:
    """A field's value as text; DataError: a list, an object or null."""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    text = str(value) if isinstance(value, int | float) else value
    return checked_text(text, field, where, "give a string, a number, true or false")


def classes_at(value: Any, config: DataConfig, where: str) -> tuple[str, ...]:
    """The distinct classes in a value: one text or number, several with `label_separator`, or a
    list.

    DataError: another value, an empty class, or one as of `named_class`.
    """
    listed = value if isinstance(value, list) else [value]
    cells = ["" if one is None else text_of(one, config.label_field, where) for one in listed]
    if config.label_separator is not None and not isinstance(value, list):
        cells = cells[0].split(config.label_separator) if cells[0].strip() else []
    labels = tuple(
        WHOLE.sub(r"\1", one) if WHOLE.fullmatch(one := cell.strip()) else one for cell in cells
    )
    if any(label.casefold() in MISSING for label in labels):
        raise DataError(f"{where} has no class, or an empty one; fill it or remove the row")
    return tuple(dict.fromkeys(named_class(label, config, where) for label in labels))


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


def fill_template(template: str, row: Any, where: str, setting: str) -> str:
    """Fill each {field} of a template with the row's value; other braces stay."""
    return FIELD.sub(
        lambda match: text_of(field_of(row, match[1], where, setting), match[1], where), template
    )
