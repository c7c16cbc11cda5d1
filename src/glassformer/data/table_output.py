"""Rows of a file with their predictions, as lines, JSONL, CSV, TSV, CoNLL-U, Parquet or an array.

Lines, JSONL, CSV and TSV grow row by row, and a later process continues them after the rows that
they have. Column files, Parquet and arrays are complete or absent.
"""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import finite, replacing, writing
from glassformer.data.formats.column_lines import with_tags
from glassformer.data.formats.parquet import arrow, decoding
from glassformer.data.sources import FORMATS, Source
from glassformer.data.tables import COLUMN_FILES, InputTable, Row
from glassformer.data.usual_columns import columns_of

FORMS = {".npy": "npy", ".txt": "text", **FORMATS}
"""Forms of files with rows, by suffix."""
DIALECTS: dict[str, dict[str, Any]] = {
    "csv": {},
    "tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None},
}
GROWING = ("text", "jsonl", *DIALECTS)
"""Forms that a later process continues."""
PREFIX = "predicted_"
"""Before the name of a column that the table has already."""


@dataclass(frozen=True)
class PredictedRow:
    """A row, the values of its new columns, and the line that a text file has."""

    row: Row
    values: dict[str, Any]
    line: str

    def content(self, columns: Sequence[str]) -> list[Any]:
        """The values of these columns, None for a missing one."""
        own = self.row.content | self.values
        return [own.get(name) for name in columns]


@dataclass(frozen=True)
class Output:
    """A file of the rows of `table` with predictions.

    `own`: the names of the table's columns. `new`: the names of the columns of predictions.
    """

    path: Path
    table: InputTable
    own: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def form(self) -> str:
        """The form of the file, by its suffix."""
        return FORMS[self.path.suffix.lower()]

    @property
    def columns(self) -> list[str]:
        """The names of all columns: a prediction replaces one of the same name."""
        return list(dict.fromkeys((*self.own, *self.new)))

    def check(self, resume: bool) -> None:
        """Raise ConfigError if the file cannot hold the rows, or cannot be continued."""
        form, kind = self.form, self.table.kind
        if form in ("text", *COLUMN_FILES) and form != kind:
            only = "lines" if form == "text" else form
            raise ConfigError(
                f"--out {self.path} would hold {only}, and --in has {kind}, whose columns would be "
                "lost; write .jsonl, .csv or .parquet"
            )
        if form == "parquet":
            arrow()
        if resume and form not in GROWING:
            raise ConfigError(
                f"--resume continues .jsonl, .csv, .tsv and .txt, and --out {self.path} is written "
                "whole in the end; leave it out."
            )

    def whole_rows(self, total: int) -> int:
        """The number of rows that the file has. A row whose end was not written is cut off.

        ConfigError: its columns are others, or it has more rows than the `total`.
        """
        if not self.path.exists():
            return 0
        lines = quotes = place = end = 0
        with writing(self.path), self.path.open("rb") as file:
            for line in file:
                quotes += line.count(b'"') if self.form == "csv" else 0
                place += len(line)
                if line.endswith(b"\n") and quotes % 2 == 0:  # no open cell
                    lines, end = lines + 1, place
        source = Source(str(self.path.absolute()))
        there = columns_of(source, self.table.config) if lines and self.form != "text" else {}
        headed = self.form in DIALECTS and self.table.headed
        named = headed or self.form == "jsonl"
        if lines - headed > total or (lines and named and not {*self.new} <= there.keys()):
            raise ConfigError(
                f"--out {self.path} was begun with other columns or rows; leave out --resume and "
                "add --force to begin again."
            )
        with writing(self.path):
            os.truncate(self.path, end)
        return max(0, lines - headed)

    def write(self, rows: Iterator[PredictedRow], done: int = 0) -> None:
        """Write the rows, in a growing form after those that are `done`."""
        if self.form in GROWING:
            mode = "a" if done else "w"
            with writing(self.path), _text_file(self.path, mode) as file:
                self._append(file, rows, done == 0)
            return
        with replacing(self.path) as temporary:
            if self.form == "npy":
                vectors = [vector for one in rows for vector in one.values.values()]
                with temporary.open("wb") as file:
                    np.save(file, np.array(vectors, np.float32))
            elif self.form == "parquet":
                self._write_parquet(temporary, [*rows])
            else:
                with _text_file(temporary, "w") as file:
                    file.writelines(map(self._sentence, rows))

    def _append(self, file: IO[str], rows: Iterator[PredictedRow], begins: bool) -> None:
        if self.form == "text":
            file.writelines(f"{one.line}\n" for one in rows)
            return
        if self.form == "jsonl":
            for one in rows:
                file.write(json_text(one.row.content | one.values, one.row.where) + "\n")
            return
        columns = self.columns
        out = csv.writer(file, lineterminator="\n", **DIALECTS[self.form])
        if begins and self.table.headed:
            out.writerow(columns)
        for one in rows:
            where = one.row.where
            try:
                out.writerow([cell(value, where) for value in one.content(columns)])
            except csv.Error:
                raise DataError(
                    f"{where} has a tab or a line break in a cell, which TSV cannot hold; write "
                    ".csv"
                ) from None

    def _sentence(self, one: PredictedRow) -> str:
        """A sentence with other tags."""
        first = next((line for line in one.row.sentence if line.cells), one.row.sentence[0])
        return with_tags(one.row.sentence, self.table.tag_column(first)[1], one.values[self.new[0]])

    def _write_parquet(self, path: Path, rows: Sequence[PredictedRow]) -> None:
        """Write Parquet; the columns of a Parquet table keep their types."""
        from pyarrow import parquet

        tables, source = arrow(), self.table.source.path
        try:
            if self.table.kind == "parquet":
                with decoding(source):
                    made = parquet.read_table(source)
                for name in self.new:
                    made = made.drop_columns([name] if name in made.column_names else [])
                    made = made.append_column(name, tables.array([r.values[name] for r in rows]))
            else:
                names = self.columns
                cells = [one.content(names) for one in rows]
                made = tables.table({n: [row[i] for row in cells] for i, n in enumerate(names)})
            parquet.write_table(made, path)
        except (tables.ArrowInvalid, tables.ArrowTypeError, tables.ArrowNotImplementedError) as e:
            raise DataError(
                f"{source} has values of several types in a column, which Parquet cannot hold "
                f"({' '.join(str(e).split())[:120]}); write .jsonl"
            ) from None


def _text_file(path: Path, mode: str) -> IO[str]:
    # an unpaired surrogate is written as JSON escapes it
    return path.open(mode, encoding="utf-8", errors="backslashreplace", newline="")


def new_column(name: str, own: Mapping[str, Any]) -> str:
    """The name of a column of predictions: another one where the table has it."""
    return f"{PREFIX}{name}" if name in own else name


def cell(value: Any, where: str) -> str:
    """A value as the text of a cell: a text itself, null as nothing, others as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value, where)


def json_text(value: Any, where: str) -> str:
    """A value as JSON; DataError: bytes, which JSON cannot hold."""

    def other(one: Any) -> Any:
        if isinstance(one, np.ndarray):
            # nine digits distinguish neighbouring float32
            return [float(f"{number:.9g}") for number in one.tolist()]
        if isinstance(one, bytes | Source):
            raise DataError(
                f"{where} holds {one!r:.60}, which only Parquet can hold; write .parquet"
            )
        return one.isoformat() if hasattr(one, "isoformat") else str(one)

    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False, default=other)
