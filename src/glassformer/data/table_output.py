"""Rows of a file with their predictions, as lines, JSONL, CSV, TSV, CoNLL-U, Parquet or an array.

.tmp-NAME    a line of JSON: what the predictions depend on; then a line for each predicted row
NAME         the rows with their predictions, written when the last prediction is there
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.formats.parquet import arrow, batches, opened_table
from glassformer.data.sources import FORMATS
from glassformer.data.tables import (
    COLUMN_FILES,
    InputTable,
    Row,
    block_columns,
    chunks,
)
from glassformer.errors import ConfigError, DataError
from glassformer.files import finite, writing

ARRAY, LINES = ".npy", ".txt"
SUFFIXES = (LINES, *FORMATS)
"""Suffixes of files with rows."""
PREFIX = "predicted_"
"""Before the name of a column that the table has already."""
GROUP = 1024
"""Rows of a row group of Parquet."""
LINE, VECTOR = "line", "vector"
"""Columns of predictions: the line that a text file has, and numbers of single precision."""


@dataclass(frozen=True)
class Predicted:
    """Predictions of some rows: columns, the only one with a value for each word, and the lines
    that a text file has."""

    columns: Mapping[str, Sequence[Any]]
    per_word: str | None = None
    lines: Sequence[str] = ()

    def values(self, out: Path) -> Mapping[str, Sequence[Any]]:
        """Return what a file of this name holds: columns or lines."""
        return {LINE: self.lines} if out.suffix.lower() == LINES else self.columns


class PredictionLog:
    """Predictions of the first rows of a table, in a file that a later process continues.

    `about`: what they depend on. ConfigError: an unfinished file is there and neither `resume` nor
    `force` is set, or it depends on another `about`.
    """

    def __init__(self, out: Path, about: Mapping[str, Any], resume: bool, force: bool):
        self.out, self.path = out, out.with_name(f".tmp-{out.name}")
        self.rows = 0
        if self.path.exists() and not (resume or force):
            raise ConfigError(
                f"--out {out} was begun and not finished; add --resume to continue it, or --force "
                "to begin again."
            )
        if resume and self.path.exists():
            self._compare(about)
        else:
            with writing(out):
                self.path.write_bytes(json_bytes(dict(about), str(out)))

    def add(self, predicted: Predicted) -> None:
        """Append the predictions of the next rows."""
        rows = zip(*predicted.values(self.out).values(), strict=True)
        text = b"".join(json_bytes(row, str(self.path)) for row in rows)
        with writing(self.path), self.path.open("ab") as file:
            file.write(text)
        self.rows += text.count(b"\n")

    def __iter__(self) -> Iterator[list[Any]]:
        """The values of each row, in the order of the columns."""
        with self.path.open(encoding="utf-8") as file:
            yield from map(json.loads, islice(file, 1, None))

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _compare(self, about: Mapping[str, Any]) -> None:
        """Count the rows, and cut off a line whose end was not written."""
        try:
            with self.path.open("r+b") as file:
                begun = json.loads(file.readline())
                end = file.tell()
                for line in file:
                    if line.endswith(b"\n"):
                        end += len(line)
                        self.rows += 1
                file.truncate(end)
        except ValueError:
            begun = {}
        for name, value in about.items():
            if begun.get(name) != value:
                raise ConfigError(
                    f"--out {self.out} was begun with another {name} ({begun.get(name)!r:.80}, now "
                    f"{value!r:.80}); leave out --resume and add --force to begin again."
                )


@dataclass(frozen=True)
class PredictedRows:
    """Rows of a table, each with the values of its predictions."""

    table: InputTable
    predictions: PredictionLog
    columns: Mapping[str, str]
    """The column of the file for each column of predictions."""
    per_word: str | None
    """The column with a value for each word, which replaces one of the table."""

    def __iter__(self) -> Iterator[tuple[Row, list[Any]]]:
        return zip(self.table.rows(), self.predictions, strict=True)

    def objects(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Each row with its predictions as an object, and its origin."""
        for row, values in zip(self.table.rows(whole=True), self.predictions, strict=True):
            own = dict(row.content)
            for (column, name), value in zip(self.columns.items(), values, strict=True):
                if name in own and column != self.per_word:
                    raise DataError(
                        f"{row.where} has the field {name!r} already, and the first row has not; "
                        "rename it"
                    )
                own[name] = value
            yield own, row.where


def columns_of(table: InputTable, predicted: Predicted, out: Path) -> dict[str, str]:
    """Return the column of the file for each column of predictions: another name where the table
    has one, except for the values of words, which replace it. DataError: both names are there."""
    there, found = {*table.columns}, dict[str, str]()
    for name in predicted.values(out):
        new = f"{PREFIX}{name}" if name in there and name != predicted.per_word else name
        if new != name and new in there:
            raise DataError(
                f"{table.source.path} has the columns {name!r} and {new!r} already; rename one of "
                "them"
            )
        found[name] = new
    return found


def writer_of(out: Path, table: InputTable) -> Callable[[PredictedRows, Path], None]:
    """The function that writes an output file of this name. ConfigError: it cannot hold the
    rows."""
    kind, suffix = table.kind, out.suffix.lower()
    form = "npy" if suffix == ARRAY else "text" if suffix == LINES else FORMATS[suffix]
    if form in ("text", *COLUMN_FILES) and form != kind:
        only = "lines" if form == "text" else form
        raise ConfigError(
            f"--out {out} would hold {only}, and --in has {kind}, whose columns would be lost; "
            "write .jsonl, .csv or .parquet"
        )
    return WRITERS[form]


def write_lines(rows: PredictedRows, path: Path) -> None:
    """Write lines as the command prints them."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(f"{line}\n" for _, (line,) in rows)


def write_objects(rows: PredictedRows, path: Path) -> None:
    """Write an object a line."""
    with path.open("wb") as out:
        out.writelines(json_bytes(one, where) for one, where in rows.objects())


def write_cells(rows: PredictedRows, path: Path, tabbed: bool = False) -> None:
    """Write CSV or TSV; a list or an object is JSON in its cell, and null an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        for cells, where in _cells(rows):
            if not tabbed:
                table.writerow(cells)
                continue
            if wrong := next((one for one in cells if re.search(r"[\t\n\r]", one)), None):
                raise DataError(
                    f"{where} has a tab or a line break in {wrong!r:.40}, which TSV cannot hold; "
                    "write .csv"
                )
            out.write("\t".join(cells) + "\n")


def _cells(rows: PredictedRows) -> Iterator[tuple[list[str], str]]:
    """The cells of the header and of each row, with their origin."""
    table = rows.table
    columns = [*table.columns]
    if table.kind in COLUMN_FILES:
        columns = ["words" if "word_field" in table.settings else "text"]
    columns += [name for name in rows.columns.values() if name not in columns]
    if table.headed:
        yield columns, str(table.source.path)
    for own, where in rows.objects():
        if more := [name for name in own if name not in columns]:
            raise DataError(
                f"{where} has the field {more[0]!r}, and the first row has not, so that a table "
                "has no column for it; write .jsonl"
            )
        yield [cell(own.get(name), where) for name in columns], where


def write_sentences(rows: PredictedRows, path: Path) -> None:
    """Write sentences of CoNLL-U or CoNLL with other tags, or with comments `# name = value`."""
    source, config = rows.table.source, rows.table.config
    with path.open("wb") as out:
        for row, values in rows:
            assert row.block is not None
            _, place = block_columns(row.block, source, config)
            own = dict(zip(rows.columns, values, strict=True))
            tags = own.pop(rows.per_word) if rows.per_word else None
            comments = [f"{name} = {cell(value, row.where)}" for name, value in own.items()]
            out.write(row.block.with_tags(place, tags, comments, config.encoding))


def write_parquet(rows: PredictedRows, path: Path) -> None:
    """Write Parquet; the columns of a Parquet table keep their types."""
    from pyarrow.parquet import ParquetWriter

    tables, problems = arrow(), arrow().lib
    try:
        schemas = [table.schema for table in _arrow_tables(rows)] or [tables.schema([])]
        schema = tables.unify_schemas(schemas, promote_options="permissive")
        schema = schema.with_metadata(schemas[0].metadata)
        with ParquetWriter(path, schema) as out:
            for table in _arrow_tables(rows):
                both = [schema.empty_table(), table]
                out.write_table(tables.concat_tables(both, promote_options="permissive"))
    except (problems.ArrowInvalid, problems.ArrowTypeError, problems.ArrowNotImplementedError) as e:
        raise DataError(
            f"{rows.table.source.path} has values of several types in a column, which Parquet "
            f"cannot hold ({' '.join(str(e).split())[:120]}); write .jsonl"
        ) from None


def _arrow_tables(rows: PredictedRows) -> Iterator[Any]:
    tables = arrow()
    if rows.table.kind != "parquet":
        for chunk in chunks(rows.objects(), GROUP):
            yield _with_vectors(tables.Table.from_pylist([own for own, _ in chunk]))
        return
    predictions = iter(rows.predictions)
    with opened_table(rows.table.source) as file:
        for batch in batches(file, rows=GROUP):
            made = tables.Table.from_batches([batch])
            own = zip(*islice(predictions, batch.num_rows), strict=True)
            for column, values in zip(rows.columns.values(), own, strict=True):
                at, new = made.schema.get_field_index(column), tables.array(values)
                made = (
                    made.append_column(column, new) if at < 0 else made.set_column(at, column, new)
                )
            yield _with_vectors(made)


def _with_vectors(table: Any) -> Any:
    """Give vectors the precision that they were computed in."""
    if VECTOR not in table.column_names:
        return table
    at, single = table.column_names.index(VECTOR), arrow().list_(arrow().float32())
    return table.set_column(at, VECTOR, table[VECTOR].cast(single))


def write_array(rows: PredictedRows, path: Path) -> None:
    """Write a NumPy array, float32 [N, D], of the only column of predictions; zeros for null."""
    first = next((row for _, (row,) in rows if row), [])
    shape = (rows.predictions.rows, len(first))
    if 0 in shape:
        with path.open("wb") as out:
            np.save(out, np.zeros(shape, np.float32))
        return
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for at, (_, (row,)) in enumerate(rows):
        array[at] = row or 0
    array.flush()


WRITERS: dict[str, Callable[[PredictedRows, Path], None]] = {
    "text": write_lines,
    "jsonl": write_objects,
    "csv": write_cells,
    "tsv": partial(write_cells, tabbed=True),
    "conllu": write_sentences,
    "conll": write_sentences,
    "parquet": write_parquet,
    "npy": write_array,
}
"""Writer of each kind of file."""


def cell(value: Any, where: str) -> str:
    """A value as the text of a cell or comment: a text itself, null as nothing, others as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json_bytes(value, where)[:-1].decode()


def json_bytes(value: Any, where: str) -> bytes:
    """A value as a line of JSON; DataError: bytes, which JSON cannot hold."""

    def other(one: Any) -> Any:
        if isinstance(one, date | time):
            return one.isoformat()
        if isinstance(one, Decimal | timedelta):
            return str(one)
        if isinstance(one, np.ndarray):
            # nine digits distinguish neighbouring float32
            return [float(f"{number:.9g}") for number in one.tolist()]
        raise DataError(f"{where} holds {one!r:.60}, which only Parquet can hold; write .parquet")

    line = json.dumps(finite(value), ensure_ascii=False, allow_nan=False, default=other)
    try:
        return f"{line}\n".encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which only an escape can express
        return f"{json.dumps(finite(value), allow_nan=False, default=other)}\n".encode()
