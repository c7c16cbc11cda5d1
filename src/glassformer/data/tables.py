"""Tables and column files with all that is in them, for predictions beside each row.

lines           {"text": ...} of each line
CSV, TSV        cells by the names of the first row, or by number
JSONL           objects
Parquet         objects
CoNLL-U, CoNLL  sentences with their comments and every column
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import Block, blocks, columns_of
from glassformer.data.formats.delimited import cells_of, column_place, is_number
from glassformer.data.formats.lines import found, lines, objects
from glassformer.data.formats.parquet import check_names, parquet_rows
from glassformer.data.sources import Source
from glassformer.data.usual_columns import columns_of as table_columns
from glassformer.data.usual_columns import input_fields
from glassformer.errors import DataError, counted, suggest

COLUMN_FILES = ("conllu", "conll")


@dataclass(frozen=True)
class Row:
    """A row: the values of its input columns, its origin, and its content as an object."""

    values: list[Any]
    where: str
    content: dict[str, Any]
    block: Block | None = None
    """Its sentence in a column file."""


@dataclass(frozen=True)
class InputTable:
    """A file of rows; `settings`: fields of DataConfig that name its input columns."""

    source: Source
    config: DataConfig
    settings: tuple[str, ...]
    fields: tuple[str, ...] = ()
    """Columns of the inputs, in place of the settings'."""

    @property
    def kind(self) -> str:
        """Its format."""
        return self.source.format(self.config)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns; of JSONL, those of the first row."""
        if self.kind in ("csv", "tsv") and not self.headed:
            first = next(cells_of(self.source, self.config), ([], 0))[0]
            return tuple(str(number) for number in range(1, len(first) + 1))
        if self.kind == "text":
            return ("text",)
        return tuple(table_columns(self.source, self.config))

    @property
    def headed(self) -> bool:
        """Whether the first row of a CSV or TSV file has the names of columns."""
        return not all(map(is_number, self.fields))

    def with_fields(self) -> "InputTable":
        """The same with its input columns: those asked for, of the settings, or the usual ones.

        DataError: there are none of these, columns fit in two ways, or two have the same name.
        """
        if self.kind in ("text", *COLUMN_FILES):
            return replace(self, fields=())
        own = self.fields or tuple(getattr(self.config, name) or name for name in self.settings)
        if self.kind in ("csv", "tsv") and all(map(is_number, own)):
            return replace(self, fields=own)
        columns, name = table_columns(self.source, self.config), self.source.path
        missing = next((f for f in own if not {f, f.partition(".")[0]} & columns.keys()), None)
        if missing is not None and (columns or self.kind != "jsonl"):  # which may have no rows
            usual = () if self.fields else input_fields(columns, self.settings, name).values()
            if not usual:
                raise DataError(
                    f"{name} has no column {missing!r}; {suggest(missing, columns)} (name the "
                    "column of the inputs by --field)"
                )
            own = tuple(usual)
        return replace(self, fields=own)

    def rows(self, whole: bool = False) -> Iterator[Row]:
        """All rows in order; of Parquet only the columns of inputs, unless they are read `whole`.

        DataError: a format without rows, or one that does not fit it.
        """
        match self.kind:
            case "csv" | "tsv":
                return self._cells()
            case "jsonl":
                return self._objects(objects(self.source, self.config, _unique))
            case "parquet":
                return self._objects(parquet_rows(self.source, None if whole else self.fields))
            case "conllu" | "conll":
                return self._sentences()
            case "text":
                read = lines(self.source, self.config)
                return (Row([line], where, {"text": line}) for line, where in read)
        raise DataError(
            f"{self.source.path} is read as {self.kind}, which has no rows; give lines, .jsonl, "
            ".csv, .tsv, .parquet, .conllu or .conll"
        )

    def _cells(self) -> Iterator[Row]:
        names: list[str] = []
        for cells, line in cells_of(self.source, self.config):
            where = f"{self.source.path}, line {line}"
            if not names:
                names = [cell.strip() for cell in cells] if self.headed else list(self.columns)
                check_names(names, where)
                for field in () if self.headed else self.fields:
                    column_place(field, len(names), where, "text_field")
                if self.headed:
                    continue
            if len(cells) != len(names):
                raise DataError(
                    f"{where} has {counted(len(cells), 'column')} where the first row has "
                    f"{len(names)}; mend it"
                )
            row = dict(zip(names, cells, strict=True))
            yield Row([row[field] for field in self.fields], where, row)

    def _objects(self, read: Iterator[tuple[Any, str]]) -> Iterator[Row]:
        for row, where in read:
            values = [found(row, field, where, "text_field") for field in self.fields]
            yield Row(values, where, row)

    def _sentences(self) -> Iterator[Row]:
        for block in blocks(self.source, self.config):
            words, _ = block_columns(block, self.source, self.config)
            value = block.words(words) if "word_field" in self.settings else block.text(words)
            name = "words" if "word_field" in self.settings else "text"
            yield Row([value], block.where, {name: value}, block)


def chunks(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Successive rows, `size` at a time."""
    rest = iter(rows)
    while chunk := list(islice(rest, size)):
        yield chunk


def block_columns(block: Block, source: Source, config: DataConfig) -> tuple[int, int]:
    """The columns of words and tags in a sentence; of words alone, the tags are one more."""
    first = next((line for line in block.lines if line.cells), None)
    if first is None:
        return 0, 0
    if len(first.cells) == 1:
        return 0, 1
    return columns_of(first, source, config)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; DataError: it has a name twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the field {twice!r} twice")
    return made
