"""Rows of a file with their predictions, as lines, JSONL, CSV, TSV, CoNLL-U, Parquet or an array.

Lines, JSONL, CSV and TSV grow row by row, and a later process continues them after the rows that
they have. Column files, Parquet and arrays are complete or absent.
"""

import csv
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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
class Output:
    """A file of the rows of `table` with predictions.

    `own`: the names of the table's columns. `new`: the names of the columns of predictions.
    """

    path: Path
    table: InputTable
    own: Iterable[str]
    new: tuple[str, ...]

    @property
    def form(self) -> str:
        """The form of the file, by its suffix."""
        return FORMS[self.path.suffix.lower()]

    @property
    def columns(self) -> list[str]:
        """The names of all columns: a prediction replaces one of the same name."""
        return list(dict.fromkeys((*self.own, *self.new)))

    @property
    def headed(self) -> bool:
        """Whether its first line has the names of columns."""
        return self.form in DIALECTS and self.table.headed

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
                quotes += line.count(b'"') * (self.form == "csv")
                place += len(line)
                if line.endswith(b"\n") and quotes % 2 == 0:  # no open cell
                    lines, end = lines + 1, place
        named = lines and (self.headed or self.form == "jsonl")
        own = replace(self.table.source, path=str(self.path.absolute()), archive=None)
        there = columns_of(own) if named else self.new
        if lines - self.headed > total or not {*self.new} <= {*there}:
            raise ConfigError(
                f"--out {self.path} was begun with other columns or rows; leave out --resume and "
                "add --force to begin again."
            )
        with writing(self.path):
            os.truncate(self.path, end)
        return max(0, lines - self.headed)

    def write(self, rows: Iterator[Row], done: int = 0) -> None:
        """Write the rows, in a growing form after those that are `done`."""
        if self.form in GROWING:
            with writing(self.path), _text_file(self.path, "a" if done else "w") as file:
                self._append(file, rows, begins=done == 0)
            return
        with replacing(self.path) as temporary:
            if self.form == "npy":
                vectors = [row.content[name] for row in rows for name in self.new]
                with temporary.open("wb") as file:
                    np.save(file, np.array(vectors, np.float32))
            elif self.form == "parquet":
                self._write_parquet(temporary, [*rows])
            else:
                with _text_file(temporary, "w") as file:
                    for row in rows:
                        place = self.table.columns_of(row)[1]
                        file.write(with_tags(row.sentence, place, row.content[self.new[0]]))

    def _append(self, file: IO[str], rows: Iterator[Row], begins: bool) -> None:
        out = csv.writer(file, lineterminator="\n", **DIALECTS.get(self.form, {}))
        if begins and self.headed:
            out.writerow(self.columns)
        for row in rows:
            if self.form == "text":
                file.write(f"{row.line}\n")
                continue
            if self.form == "jsonl":
                file.write(json_text(row.content, row.where) + "\n")
                continue
            cells = [cell(row.content.get(name), row.where) for name in self.columns]
            try:
                out.writerow(cells)
            except csv.Error:
                raise DataError(
                    f"{row.where} has a tab or a line break in a cell, which TSV cannot hold; "
                    "write .csv"
                ) from None

    def _write_parquet(self, path: Path, rows: Sequence[Row]) -> None:
        """Write Parquet; the columns of a Parquet table keep their types."""
        from pyarrow import parquet

        tables, source = arrow(), self.table.source.path
        old = self.table.kind == "parquet"
        names = self.new if old else self.columns
        try:
            made = tables.table({n: [row.content.get(n) for row in rows] for n in names})
            if old:
                with decoding(source):
                    whole = parquet.read_table(source)
                for name in names:
                    whole = whole.drop_columns([name] if name in whole.column_names else [])
                    whole = whole.append_column(name, made[name])
                made = whole
            parquet.write_table(made, path)
        except (tables.ArrowInvalid, tables.ArrowTypeError, tables.ArrowNotImplementedError) as e:
            raise DataError(
                f"{source} has values of several types in a column, which Parquet cannot hold "
                f"({' '.join(str(e).split())[:120]}); write .jsonl"
            ) from None


def _text_file(path: Path, mode: str) -> IO[str]:
    # an unpaired surrogate is written as JSON escapes it
    return path.open(mode, encoding="utf-8", errors="backslashreplace", newline="")


def new_column(name: str, own: Collection[str]) -> str:
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
        return one.isoformat() if isinstance(one, datetime) else str(one)

    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False, default=other)
