"""Parquet files by pyarrow, which the extra `parquet` brings: rows as JSON values, in batches.

{"text": "good", "label": "positive"}    a class by its name, where the schema's metadata has it
{"translation": {"en": "a dog", ...}}    structs and lists as objects and lists
{"image": Source}                        the bytes of a cell, read at the first use
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from glassformer.core import progress
from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.formats.archives import LARGEST_RATIO, LARGEST_UNASKED
from glassformer.data.sources import Source, reading

BATCH = 256
"""Rows of one batch that is decoded."""
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
            f"{name} cannot be read as Parquet ({reason}); copy or write it again"
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


def _check(file: Any, source: Source, size: int) -> None:
    names = file.schema_arrow.names
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{source.path} has two columns {twice!r}; rename one of them")
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    if largest > max(LARGEST_UNASKED, LARGEST_RATIO * size):
        raise DataError(
            f"{source.path} would grow from {size:,} to over {largest:,} bytes, an implausible "
            "ratio; write it again if you trust it"
        )


def table_columns(source: Source) -> dict[str, tuple[str, ...]]:
    """The names of the columns, each with the names of its fields if it is a struct."""
    with opened_table(source) as file:
        return {field.name: _fields(field.type) for field in file.schema_arrow}


def _fields(kind: Any) -> tuple[str, ...]:
    inside = (kind.field(i).name for i in range(kind.num_fields))
    return tuple(inside) if arrow().types.is_struct(kind) else ()


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
        classes, number = class_names(schema), 0
        for group in range(file.metadata.num_row_groups):
            first = number  # an iterator over all groups would keep the pages of those before
            for batch in file.iter_batches(BATCH, [group], names, use_threads=False):
                columns = {
                    name: _file_cells(column, source, name, number, group, first)
                    if holds_files(column.type)
                    else _name_classes(column.to_pylist(), classes.get(name), source.path)
                    for name, column in zip(names, batch.columns, strict=True)
                }
                for i in range(batch.num_rows):
                    number += 1
                    row = {name: values[i] for name, values in columns.items()}
                    yield row, f"{source.path}, row {number}"
                total = file.metadata.num_rows
                progress.report(f"reading {source.path}: {number:,} of {total:,} rows")


def holds_files(kind: Any) -> bool:
    """Whether a column holds the content of files: bytes, or a struct with a field `bytes`."""
    types = arrow().types
    if types.is_struct(kind):
        return BYTES in _fields(kind) and holds_files(kind.field(BYTES).type)
    return types.is_binary(kind) or types.is_large_binary(kind)


def _file_cells(
    column: Any, source: Source, name: str, number: int, group: int, first: int
) -> list[Source | None]:
    """A source for each cell with bytes, None for a null. `first`: the number of the first row of
    the row group; `number`: that of the column."""
    found: list[Source | None] = []
    content = column.field(BYTES) if arrow().types.is_struct(column.type) else column
    valid = zip(column.is_valid().to_pylist(), content.is_valid().to_pylist(), strict=True)
    for at, (cell, held) in enumerate(valid, number):
        if cell and not held:
            raise DataError(
                f"{source.path}, row {at + 1} has no bytes in {name!r}, only the name of a file; "
                "write the files into the table, or list them in a CSV file"
            )
        place = Source(f"{source.path}/{name}/{at}", source.path, (group, at - first))
        found.append(place if cell else None)
    return found


def cell_bytes(source: Source) -> bytes:
    """The content of a cell that `parquet_rows` refers to; DataError: the file changed since."""
    name, (group, at) = source.member.rpartition("/")[0], source.row or (0, 0)
    values = _group_cells(source.file, str(Source(source.file).stamp()), name, group)
    if at < len(values) and (value := values[at]) is not None:
        return value
    raise DataError(f"{source.path} is not there any more; the file changed while it was read")


@lru_cache(maxsize=1)
def _group_cells(path: str, stamp: str, name: str, group: int) -> list[bytes | None]:
    """The bytes of a column in one row group, none of one that is not there: cells are read in
    their order."""
    with opened_table(Source(path)) as file:
        if group >= file.metadata.num_row_groups:
            return []
        column = file.read_row_group(group, columns=[name], use_threads=False).column(0)
        values = column.to_pylist()
        return [value.get(BYTES) if isinstance(value, dict) else value for value in values]


def class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """The names of the classes of columns of whole numbers, or of lists of them."""
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


def _name_classes(value: Any, names: tuple[str, ...] | None, file: str) -> Any:
    """A cell with names instead of the numbers of classes; -1, which means none, is null."""
    if names is None:
        return value
    if isinstance(value, list):
        return [_name_classes(one, names, file) for one in value]
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
