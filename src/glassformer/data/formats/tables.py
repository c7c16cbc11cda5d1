"""Tables of comma- or tab-separated values: the wanted columns, by name or by number."""

import csv
from collections.abc import Iterator, Sequence

from glassformer.data.config import DataConfig
from glassformer.data.formats.lines import lines
from glassformer.data.sources import Source
from glassformer.errors import DataError, counted, suggest

LONGEST_CELL = (1 << 31) - 1
"""Longest cell that the csv module allows on every platform."""


def table_rows(source: Source, config: DataConfig) -> Iterator[tuple[list[str], str]]:
    """All cells of every row, including a header, and its origin; DataError: an open quote."""
    csv.field_size_limit(LONGEST_CELL)
    delimiter = "\t" if source.format(config) == "tsv" else ","
    # in TSV a quote is a character like any other; in CSV one that is never closed would swallow
    # the rest
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    texts = (f"{line}\n" for line, _ in lines(source, config))
    table = csv.reader(texts, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        for row in filter(None, table):  # an empty line is no row
            yield row, f"{source.path}, line {table.line_num}"
    except csv.Error as problem:
        raise DataError(
            f"{source.path}, line {table.line_num} is no {delimiter!r} table ({problem})"
        ) from None


def cells(
    source: Source, config: DataConfig, settings: Sequence[str], wanted: str
) -> Iterator[tuple[list[str | None], str]]:
    """The cell of each of `settings` (fields of DataConfig) in every row, None if it is not set,
    and the row's origin.

    A column is named by the first row, or by its number from 1; with numbers alone there is no
    header. If no setting was changed and the first row has none of their names, the first two
    columns are the first two settings; `wanted` describes them in errors. DataError: a missing
    column, a short row, an open quote.
    """
    columns: list[int | None] | None = None
    for row, where in table_rows(source, config):
        if columns is None:
            columns, headed = _columns(row, config, settings, wanted, where)
            if headed:
                continue
        needed = 1 + max(column for column in columns if column is not None)
        if len(row) < needed:
            raise DataError(
                f"{where} has {counted(len(row), 'column')}, and column {needed} is needed; mend it"
            )
        yield [None if column is None else row[column] for column in columns], where


def _columns(
    first: list[str], config: DataConfig, settings: Sequence[str], wanted: str, where: str
) -> tuple[list[int | None], bool]:
    """The index of each setting's column, and whether the first row is a header."""
    fields: dict[str, str | None] = {name: getattr(config, name) for name in settings}
    names = {name: field for name, field in fields.items() if field and not is_number(field)}
    missing = [name for name, field in names.items() if field not in first]
    default = all(field == DataConfig.model_fields[n].default for n, field in fields.items())
    if default and missing == list(names):
        if len(first) < 2:
            raise DataError(f"{where} has 1 column, not {wanted}; check data.format")
        return [0, 1, *[None] * (len(fields) - 2)][: len(fields)], False
    if missing:
        raise no_column(where.rpartition(", ")[0], names[missing[0]], first, missing[0])
    places = [
        None
        if field is None
        else first.index(field)
        if name in names
        else column_place(field, len(first), where, name)
        for name, field in fields.items()
    ]
    return places, bool(names)


def no_column(path: str, field: str, header: list[str], setting: str) -> DataError:
    """The error for a column that is not in the header."""
    known = suggest(field, (" ".join(cell.split())[:40] for cell in header))
    return DataError(
        f"{path} has no column {field!r} in its first row; {known} (set data.{setting} to a name, "
        f"or to a number from 1 to {len(header)})"
    )


def is_number(field: str) -> bool:
    """Whether a column is named by its number."""
    return field.isascii() and field.isdigit()


def column_place(field: str, n: int, where: str, setting: str) -> int:
    """The index of the column with a number from 1 to `n`; DataError: out of range."""
    if not is_number(field) or not 1 <= int(field[:9]) <= n:
        raise DataError(
            f"{where} has {n} columns and none is {field!r}; set data.{setting} to a number "
            f"from 1 to {n}"
        )
    return int(field) - 1
