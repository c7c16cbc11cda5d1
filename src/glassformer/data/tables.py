"""Files of rows as inputs of predictions, with all content, which is written again.

lines           {"text": ...} of each line
CSV, TSV        cells by the names of the first row, or by number
JSONL, Parquet  objects
CoNLL-U, CoNLL  sentences with their comments and every column
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from glassformer.core.errors import DataError, suggest
from glassformer.data.formats.column_lines import (
    ColumnLine,
    ColumnSentence,
    cells_in,
    column_sentences,
    columns_of,
)
from glassformer.data.formats.delimited import DELIMITED, is_number
from glassformer.data.formats.lines import found, lines
from glassformer.data.formats.records import RECORDS, records
from glassformer.data.sources import Source
from glassformer.data.usual_columns import columns_of as table_columns
from glassformer.data.usual_columns import input_fields

COLUMN_FILES = ("conllu", "conll")
WORD, WORDS = "word_field", "words"


@dataclass(frozen=True)
class Row:
    """A row: the values of its input columns, its origin, and its content as an object."""

    values: list[Any]
    where: str
    content: dict[str, Any]
    sentence: ColumnSentence = ()
    """Its lines in a column file."""
    line: str = ""
    """What a text file has of it."""

    @property
    def first(self) -> ColumnLine:
        """The first line of a word, or of the sentence."""
        return next((line for line in self.sentence if line.cells), self.sentence[0])


@dataclass(frozen=True)
class InputTable:
    """A file of rows, and the columns of the inputs: fields of records, the text of a line, or the
    words of a sentence."""

    source: Source
    fields: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The format of the file."""
        return self.source.kind

    @property
    def headed(self) -> bool:
        """Whether the first row of a CSV or TSV file has the names of columns."""
        return not all(map(is_number, self.fields))

    def columns(self) -> list[str]:
        """The names of the columns; of JSONL, those of the first row."""
        headed = self.kind in RECORDS and self.headed
        return list(table_columns(self.source)) if headed else []

    def rows(self, whole: bool = True) -> Iterator[Row]:
        """All rows in order; of Parquet only the columns of inputs, unless they are read `whole`.

        DataError: a format without rows, or one that does not fit it.
        """
        if self.kind == "text":
            for line, where in lines(self.source):
                yield Row([line], where, {"text": line})
        elif self.kind in COLUMN_FILES and self.fields == (WORDS,):
            for sentence in column_sentences(self.source):
                row = Row([], "", {}, sentence)
                words = [*cells_in(sentence, self.columns_of(row)[0])]
                yield replace(row, values=[words], where=row.first.where, content={WORDS: words})
        else:
            wanted = dict.fromkeys(self.fields, "text_field")
            for content, where in records(self.source, wanted, whole=whole):
                values = [found(content, field, where, "text_field") for field in self.fields]
                yield Row(values, where, content)

    def columns_of(self, row: Row) -> tuple[int, int]:
        """The columns of words and tags in a column file; of words only, the tags are one more."""
        if len(row.first.cells) < 2:
            return 0, 1
        return columns_of(row.first, self.source)


def input_table(
    source: Source, settings: tuple[str, ...], fields: tuple[str, ...] = ()
) -> InputTable:
    """A file with its input columns: `fields`, those that `settings` of the data name, or the usual
    ones.

    DataError: there are none of these, or columns that fit in two ways.
    """
    kind = source.kind
    if kind in RECORDS:
        named = fields or tuple(getattr(source.config, name) or name for name in settings)
        if not (kind in DELIMITED and all(map(is_number, named))):
            named = _there(source, named, () if fields else settings)
        return InputTable(source, named)
    words = kind in COLUMN_FILES and WORD in settings
    return InputTable(source, (WORDS if words else "text",))


def _there(source: Source, named: tuple[str, ...], settings: tuple[str, ...]) -> tuple[str, ...]:
    """The columns by these names, or else the usual ones of `settings`."""
    columns = table_columns(source)
    missing = next((f for f in named if not {f, f.partition(".")[0]} & columns.keys()), None)
    if missing is None or (not columns and source.kind == "jsonl"):  # it has no rows
        return named
    usual = settings and tuple(input_fields(columns, settings, source.path).values())
    if not usual:
        raise DataError(
            f"{source.path} has no column {missing!r}; {suggest(missing, columns)} (name the "
            "column of the inputs by --field)"
        )
    return usual
