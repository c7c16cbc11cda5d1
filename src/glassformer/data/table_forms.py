"""The forms of files with rows and their predictions: lines, JSONL, CSV, TSV, CoNLL-U, Parquet,
arrays.

A file is made of parts, each with the rows of some chunks, and the parts are joined in the end.
"""

import csv
import io
import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.formats.column_lines import Block
from glassformer.data.formats.parquet import arrow
from glassformer.data.tables import COLUMN_FILES, InputTable, Row, block_columns, content_of
from glassformer.errors import DataError
from glassformer.files import finite, replacing

PREFIX = "predicted_"
"""Before the name of a column that the table has already."""


@dataclass(frozen=True)
class Predicted:
    """Predictions of some rows: columns, the only one with a value for each word, and the lines
    that a text file has."""

    columns: Mapping[str, Sequence[Any]]
    per_word: str | None = None
    lines: Sequence[str] = ()


@dataclass
class Form(ABC):
    """The form of an output file; `pieces` are the rows of the part that is being made."""

    table: InputTable
    pieces: list[Any] = field(default_factory=list)
    size: int = 0
    """Bytes of the pieces, about."""

    @abstractmethod
    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """Take rows with their predictions; `first`: they begin the file."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write the pieces as a part."""

    @abstractmethod
    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Write all parts as one file."""

    def taken(self, path: Path) -> None:
        """Write the pieces as a part, and begin the next."""
        with replacing(path) as temporary:
            self.write(temporary)
        self.pieces, self.size = [], 0

    def names(self, predicted: Predicted) -> dict[str, str]:
        """The column of the file for each column of predictions: another name where the table has
        one, except for the values of words, which replace it."""
        there, found = {*self.table.columns}, {}
        for name in predicted.columns:
            found[name] = name
            if name in there and name != predicted.per_word:
                found[name] = f"{PREFIX}{name}"
            if found[name] in there and name != predicted.per_word:
                raise DataError(
                    f"{self.table.source.path} has the columns {name!r} and {found[name]!r} "
                    "already; rename one of them"
                )
        return found

    def objects(self, rows: Sequence[Row], predicted: Predicted) -> list[dict[str, Any]]:
        """Each row with its predictions as plain values."""
        names, made = self.names(predicted), []
        for i, row in enumerate(rows):
            own = dict(content_of(row))
            for name, values in predicted.columns.items():
                if names[name] in own and name != predicted.per_word:
                    raise DataError(
                        f"{row.where} has the field {names[name]!r} already, and the first row "
                        "has not; rename it"
                    )
                own[names[name]] = values[i]
            made.append(own)
        return made


class Bytes(Form):
    """A file that is its parts, one behind another."""

    def write(self, path: Path) -> None:
        """See `Form`."""
        path.write_bytes(b"".join(self.pieces))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """See `Form`."""
        with path.open("wb") as out:
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, out, 1 << 20)

    def keep(self, piece: bytes) -> None:
        """Take the bytes of some rows."""
        self.pieces.append(piece)
        self.size += len(piece)


class Lines(Bytes):
    """Lines as the command prints them."""

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        self.keep("".join(f"{line}\n" for line in predicted.lines).encode())


class JsonLines(Bytes):
    """An object a line."""

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        made = self.objects(rows, predicted)
        self.keep(b"".join(json_bytes(one, row.where) for one, row in zip(made, rows, strict=True)))


class Cells(Bytes):
    """CSV or TSV; a list or an object is JSON in its cell, and null an empty cell."""

    tabs = False

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        out = io.StringIO(newline="")
        columns = [*self.table.columns]
        if self.table.kind in COLUMN_FILES:
            columns = ["words" if "word_field" in self.table.settings else "text"]
        names = self.names(predicted).values()
        columns += [name for name in names if name not in columns]
        if first and self.table.headed:
            self._row(out, columns, str(self.table.source.path))
        for own, row in zip(self.objects(rows, predicted), rows, strict=True):
            if more := [name for name in own if name not in columns]:
                raise DataError(
                    f"{row.where} has the field {more[0]!r}, and the first row has not, so that a "
                    "table has no column for it; write .jsonl"
                )
            self._row(out, [cell(own.get(name), row.where) for name in columns], row.where)
        self.keep(out.getvalue().encode())

    def _row(self, out: io.StringIO, cells: Sequence[str], where: str) -> None:
        if not self.tabs:
            csv.writer(out, lineterminator="\n").writerow(cells)
            return
        if wrong := next((one for one in cells if re.search(r"[\t\n\r]", one)), None):
            raise DataError(
                f"{where} has a tab or a line break in {wrong!r:.40}, which TSV cannot hold; write "
                ".csv"
            )
        out.write("\t".join(cells) + "\n")


class TabbedCells(Cells):
    """TSV."""

    tabs = True


class ColumnFile(Bytes):
    """CoNLL-U or CoNLL as it is, with other tags, or with comments `# name = value`."""

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        source, config = self.table.source, self.table.config
        for i, row in enumerate(rows):
            assert isinstance(row.content, Block)
            _, place = block_columns(row.content, source, config)
            own = predicted.columns[predicted.per_word][i] if predicted.per_word else None
            others = {
                name: values[i]
                for name, values in predicted.columns.items()
                if name != predicted.per_word
            }
            comments = [f"{name} = {cell(value, row.where)}" for name, value in others.items()]
            self.keep(row.content.written(place, own, comments, config.encoding))


class Table(Form):
    """Parquet: the columns of a Parquet table keep their types."""

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        pyarrow = arrow()
        if self.table.kind != "parquet" or not rows:
            with _typed(self.table.source.path):
                made = pyarrow.Table.from_pylist(self.objects(rows, predicted))
        else:
            made = pyarrow.Table.from_batches([row.content for row in rows]).combine_chunks()
            for name, column in self.names(predicted).items():
                values = pyarrow.array(list(predicted.columns[name]))
                if column in made.column_names:
                    made = made.set_column(made.column_names.index(column), column, values)
                else:
                    made = made.append_column(column, values)
        self.pieces.append(made)
        self.size += made.nbytes

    def write(self, path: Path) -> None:
        """See `Form`."""
        from pyarrow.parquet import write_table

        made = [one for one in self.pieces if one.num_columns] or [arrow().table({})]
        with _typed(self.table.source.path):
            write_table(arrow().concat_tables(made, promote_options="permissive"), path)

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """See `Form`."""
        from pyarrow.parquet import ParquetFile, ParquetWriter, read_schema

        with _typed(self.table.source.path):
            schemas = [read_schema(part) for part in parts]
            schema = arrow().unify_schemas(schemas, promote_options="permissive")
            schema = schema.with_metadata(schemas[0].metadata)
            with ParquetWriter(path, schema) as out:
                for part in parts:
                    with ParquetFile(part) as file:
                        both = [schema.empty_table(), file.read()]
                    whole = arrow().concat_tables(both, promote_options="permissive")
                    out.write_table(whole.cast(schema))


class Vectors(Form):
    """A NumPy array, float32 [N, D], of a prediction's only column."""

    def add(self, rows: Sequence[Row], predicted: Predicted, first: bool) -> None:
        """See `Form`."""
        (values,) = predicted.columns.values()
        self.pieces.append(np.asarray(values, np.float32))
        self.size += self.pieces[-1].nbytes

    def write(self, path: Path) -> None:
        """See `Form`."""
        with path.open("wb") as out:
            np.save(out, np.concatenate(self.pieces))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """See `Form`."""
        arrays = [np.load(part, mmap_mode="r", allow_pickle=False) for part in parts]
        n, shape = sum(len(one) for one in arrays), arrays[0].shape[1:]
        with path.open("wb") as out:
            form = {"descr": "<f4", "fortran_order": False, "shape": (n, *shape)}
            np.lib.format.write_array_header_1_0(out, form)
            for one in arrays:
                out.write(np.ascontiguousarray(one).data)


FORMS: dict[str, type[Form]] = {
    "text": Lines,
    "jsonl": JsonLines,
    "csv": Cells,
    "tsv": TabbedCells,
    "conllu": ColumnFile,
    "conll": ColumnFile,
    "parquet": Table,
    "npy": Vectors,
}
"""The form of each kind of file."""


@contextmanager
def _typed(where: str) -> Iterator[None]:
    """Turn values of several types in one column into a DataError."""
    problems = arrow().lib
    try:
        yield
    except (problems.ArrowInvalid, problems.ArrowTypeError, problems.ArrowNotImplementedError) as e:
        raise DataError(
            f"{where} has values of several types in a column, which Parquet cannot hold "
            f"({' '.join(str(e).split())[:120]}); write .jsonl"
        ) from None


def cell(value: Any, where: str) -> str:
    """A value as the text of a cell or comment: JSON, but a text as it is and null as nothing."""
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
        raise DataError(
            f"{where} holds {type(one).__name__} that only Parquet can hold; write .parquet"
        )

    line = json.dumps(finite(value), ensure_ascii=False, allow_nan=False, default=other)
    try:
        return f"{line}\n".encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which only an escape can stand for
        return f"{json.dumps(finite(value), allow_nan=False, default=other)}\n".encode()
