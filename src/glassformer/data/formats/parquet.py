"""Parquet files by pyarrow, which the extra `parquet` brings: rows as JSON values, in batches.

{"text": "good", "label": "positive"}    a class by its name, where the schema's metadata has it
{"translation": {"en": "a dog", ...}}    structs and lists as objects and lists
{"image": Source}                        the bytes of a cell, read when they are asked for
"""

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from typing import Any

from glassformer import headway
from glassformer.data.formats.archives import LARGEST_RATIO, LARGEST_UNASKED
from glassformer.data.sources import Source, reading
from glassformer.errors import ConfigError, DataError, suggest

BATCH = 256
"""Rows that are decoded at once."""
METADATA = b"huggingface"
"""Key of the schema's metadata with the features that the `datasets` library wrote."""
BYTES = "bytes"
"""Field of a struct with the content of a file, beside its `path`."""


def arrow() -> Any:
    """The module pyarrow; ConfigError: the extra is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(
            "Parquet files need pyarrow; run pip install 'glassformer[parquet]', or convert them "
            "to JSONL."
        ) from None
    return pyarrow


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn pyarrow's complaints about a file into a DataError.

    Nearly each class of Python's errors occurs: ArrowInvalid is a ValueError, a broken page an
    OSError, a name that is not UTF-8 a UnicodeDecodeError, a date out of range an OverflowError.
    """
    try:
        yield
    except (DataError, ConfigError, MemoryError):
        raise
    except Exception as problem:
        reason = " ".join(str(problem).split())[:120] or type(problem).__name__
        raise DataError(
            f"{name} is not a whole Parquet file ({reason}); copy or write it again"
        ) from problem


@contextmanager
def opened_table(source: Source) -> Iterator[Any]:
    """The open `ParquetFile`.

    DataError: damaged, in a zip archive, two columns of one name, or implausibly large.
    ConfigError: no pyarrow.
    """
    arrow()
    from pyarrow.parquet import ParquetFile

    if source.archive is not None:
        raise DataError(
            f"{source.path} lies in a zip archive, where Parquet cannot be read; unpack it"
        )
    with (
        reading(source.path),
        open(source.path, "rb") as raw,
        decoding(source.path),
        ParquetFile(raw) as file,
    ):
        _check(file, source, source.size)
        yield file


def check_names(names: Sequence[str], where: str) -> None:
    """Raise DataError for two columns of one name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{where} has two columns {twice!r}; rename one of them")


def _check(file: Any, source: Source, size: int) -> None:
    check_names(file.schema_arrow.names, source.path)
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    if largest > max(LARGEST_UNASKED, LARGEST_RATIO * size):
        raise DataError(
            f"{source.path} would grow from {size:,} to over {largest:,} bytes, an implausible "
            f"ratio; write it anew if you trust it"
        )


def table_columns(source: Source) -> dict[str, tuple[str, ...]]:
    """The names of the columns, each with the names of its fields if it is a struct."""
    with opened_table(source) as file:
        return {field.name: _fields(field.type) for field in file.schema_arrow}


def _fields(kind: Any) -> tuple[str, ...]:
    inside = (kind.field(i).name for i in range(kind.num_fields))
    return tuple(inside) if arrow().types.is_struct(kind) else ()


def batches(file: Any, columns: Sequence[str] | None = None, rows: int = BATCH) -> Iterator[Any]:
    """The rows of an open table, some at a time, one row group after another: an iterator over
    all groups keeps the pages of those before."""
    for group in range(file.metadata.num_row_groups):
        yield from file.iter_batches(rows, [group], columns, use_threads=False)


def parquet_rows(
    source: Source, wanted: Collection[str] | None = None
) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row as an object, and its origin. `wanted`: dotted fields that are read; None: all.

    DataError: see `opened_table`; a cell without bytes that only names a file.
    """
    with opened_table(source) as file:
        schema = file.schema_arrow
        names = schema.names
        if wanted is not None:
            tops = {field if field in names else field.partition(".")[0] for field in wanted}
            for top in tops - set(names):
                raise DataError(f"{source.path} has no column {top!r}; {suggest(top, names)}")
            names = [name for name in names if name in tops]
        classes = class_names(schema)
        held = {name for name in names if holds_files(schema.field(name).type)}
        number, total = 0, file.metadata.num_rows
        for batch in batches(file, names):
            columns = {
                name: _references(batch.column(name), source, name, number)
                if name in held
                else named(_plain(batch.column(name), source, name), classes.get(name), source.path)
                for name in names
            }
            for i in range(batch.num_rows):
                number += 1
                row = {name: values[i] for name, values in columns.items()}
                yield row, f"{source.path}, row {number}"
            headway.report(f"reading {source.path}: {number:,} of {total:,} rows")


def _plain(column: Any, source: Source, name: str) -> list[Any]:
    try:
        return column.to_pylist()
    except (ValueError, OverflowError) as problem:  # nanoseconds, years beyond 9999
        raise DataError(
            f"{source.path} has values in {name!r} that only Parquet can hold "
            f"({str(problem)[:80]}); write .parquet, or cast the column"
        ) from None


def holds_files(kind: Any) -> bool:
    """Whether a column holds the content of files: bytes, or a struct with a field `bytes`."""
    types = arrow().types
    if types.is_struct(kind):
        return BYTES in _fields(kind) and holds_files(kind.field(BYTES).type)
    return types.is_binary(kind) or types.is_large_binary(kind)


def _references(column: Any, source: Source, name: str, before: int) -> list[Source | None]:
    """A source for each cell with bytes, None for a null."""
    found: list[Source | None] = []
    content = column.field(BYTES) if arrow().types.is_struct(column.type) else column
    for i, (there, held) in enumerate(
        zip(column.is_valid().to_pylist(), content.is_valid().to_pylist(), strict=True)
    ):
        if there and not held:
            raise DataError(
                f"{source.path}, row {before + i + 1} has no bytes in {name!r}, only the name of a "
                f"file; write the files into the table, or list them in a CSV file"
            )
        at = before + i
        cell = Source(f"{source.path}/{name}/{at}", source.path, at)
        found.append(cell if there else None)
    return found


def cell_bytes(source: Source) -> bytes:
    """The content of a cell that `parquet_rows` refers to; DataError: the file changed since."""
    name, at = source.member.rpartition("/")[0], source.row or 0
    stamp = str(Source(source.file).stamp())
    begins = _begins(source.file, stamp)
    group = bisect_right(begins, at) - 1
    if group < len(begins) - 1:
        values = _group_cells(source.file, stamp, name, group)
        if (value := values[at - begins[group]]) is not None:
            return value
    raise DataError(f"{source.path} is not there any more; the file changed while it was read")


@lru_cache(maxsize=64)
def _begins(path: str, stamp: str) -> list[int]:
    """The first row of each row group, and the number of rows."""
    with opened_table(Source(path)) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        return [*accumulate((group.num_rows for group in groups), initial=0)]


@lru_cache(maxsize=1)
def _group_cells(path: str, stamp: str, name: str, group: int) -> list[bytes | None]:
    """The bytes of a column in one row group: cells are asked for in their order."""
    with opened_table(Source(path)) as file:
        column = file.read_row_group(group, columns=[name], use_threads=False).column(0)
        values = column.to_pylist()
        return [value.get(BYTES) if isinstance(value, dict) else value for value in values]


def class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """The names of the classes that a column of whole numbers, or of lists of them, stands for."""
    try:
        written = json.loads((schema.metadata or {})[METADATA])
        features = written["info"]["features"]
        return {name: tuple(of) for name, f in features.items() if (of := _names_in(f))}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _names_in(feature: Any) -> list[str]:
    """The names in a feature: ClassLabel, a list or sequence of it, or [ClassLabel]."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names_in(feature[0])
    if not isinstance(feature, dict):
        return []
    if feature.get("_type") == "ClassLabel":
        names = feature.get("names")
        listed = names if isinstance(names, list) else []
        return listed if all(isinstance(one, str) for one in listed) else []
    return _names_in(feature.get("feature"))


def named(values: list[Any], names: tuple[str, ...] | None, file: str) -> list[Any]:
    """Cells with names in place of the numbers of classes; -1, which means none, is null."""
    if names is None:
        return values
    return [_named(value, names, file) for value in values]


def _named(value: Any, names: tuple[str, ...], file: str) -> Any:
    if isinstance(value, list):
        return [_named(one, names, file) for one in value]
    if isinstance(value, int) and not isinstance(value, bool):
        if value == -1:
            return None
        if 0 <= value < len(names):
            return names[value]
        raise DataError(
            f"{file} has the class {value}, and its metadata name {len(names)} classes, from 0; "
            f"mend the table"
        )
    return value
