"""Files of rows as inputs of predictions, with all content, which is written again.

lines           {"text": ...} of each line
CSV, TSV        cells by the names of the first row, or by number
JSONL, Parquet  objects
CoNLL-U, CoNLL  sentences with their comments and every column
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.core.errors import DataError, suggest
from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import (
    ColumnLine,
    ColumnSentence,
    column_sentences,
    columns_of,
    words_in,
)
from glassformer.data.formats.delimited import is_number
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


@dataclass(frozen=True)
class InputTable:
    """A file of rows, and the columns of the inputs: fields of records, the text of a line, or the
    words of a sentence."""

    source: Source
    config: DataConfig
    fields: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Its format."""
        return self.source.format(self.config)

    @property
    def headed(self) -> bool:
        """Whether the first row of a CSV or TSV file has the names of columns."""
        return not all(map(is_number, self.fields))

    def columns(self) -> list[str]:
        """The names of the columns; of JSONL, those of the first row."""
        headed = self.kind in RECORDS and self.headed
        return list(table_columns(self.source, self.config)) if headed else []

    def rows(self, whole: bool = True) -> Iterator[Row]:
        """All rows in order; of Parquet only the columns of inputs, unless they are read `whole`.

        DataError: a format without rows, or one that does not fit it.
        """
        if self.kind == "text":
            for line, where in lines(self.source, self.config):
                yield Row([line], where, {"text": line})
        elif self.kind in COLUMN_FILES and self.fields == (WORDS,):
            for sentence in column_sentences(self.source, self.config):
                first = next((line for line in sentence if line.cells), sentence[0])
                words = words_in(sentence, self.tag_column(first)[0])
                yield Row([words], first.where, {WORDS: words}, sentence)
        else:
            wanted = dict.fromkeys(self.fields, "text_field")
            read = records(self.source, self.config, wanted, whole=whole)
            for content, where in read:
                values = [found(content, field, where, "text_field") for field in self.fields]
                yield Row(values, where, content)

    def tag_column(self, first: ColumnLine) -> tuple[int, int]:
        """The columns of words and tags, by the first line of a word; of words only, the tags are
        one more."""
        return columns_of(first, self.source, self.config) if len(first.cells) > 1 else (0, 1)


def input_table(
    source: Source, config: DataConfig, settings: tuple[str, ...], fields: tuple[str, ...] = ()
) -> InputTable:
    """A file with its input columns: `fields`, those that `settings` of the data name, or the usual
    ones.

    DataError: there are none of these, or columns that fit in two ways.
    """
    kind, name = source.format(config), source.path
    if kind not in RECORDS:
        return InputTable(
            source, config, (WORDS if kind in COLUMN_FILES and WORD in settings else "text",)
        )
    own = fields or tuple(getattr(config, name) or name for name in settings)
    if kind in ("csv", "tsv") and all(map(is_number, own)):
        return InputTable(source, config, own)
    columns = table_columns(source, config)
    missing = next((f for f in own if not {f, f.partition(".")[0]} & columns.keys()), None)
    if missing is not None and (columns or kind != "jsonl"):  # which may have no rows
        usual = () if fields else input_fields(columns, settings, name).values()
        if not usual:
            raise DataError(
                f"{name} has no column {missing!r}; {suggest(missing, columns)} (name the column "
                "of the inputs by --field)"
            )
        own = tuple(usual)
    return InputTable(source, config, own)
