"""Files with a word a line and its columns: CoNLL-U and others.

All lines of a sentence are kept, comments and words written as one included, so that it can be
written again with one column changed. Errors name the file and the line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.core.errors import ConfigError, DataError, amount, suggest
from glassformer.data.formats.delimited import column_place, is_default
from glassformer.data.formats.lines import ended_lines, lines
from glassformer.data.sources import Source

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""CoNLL-U's columns (https://universaldependencies.org/format.html)."""

_COMMENT = re.compile(
    r"#\s+(?:newdoc|newpar|sent_id|text|id|doc|global\.columns)\b|#(?:begin|end) document\b"
    r"|#\s*\S+\s*="
)
"""Comments before a sentence: of CoNLL-U, CoNLL-U Plus, CoNLL-2012 and MultiCoNER. Another line
that begins with # is one if it has another number of columns."""
_SKIPPED = re.compile(r"\d+[-.]\d+")
"""Ids of words written as one (3-4) and of words left out (8.1)."""


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A line with its end: of a word, which has cells, or another; and its origin."""

    text: str
    where: str
    cells: tuple[str, ...] = ()
    ends: bool = False
    """Whether a sentence ends here."""

    def with_cell(self, place: int, value: str) -> str:
        """The line with another content of a cell, or with one more cell."""
        line = self.text.rstrip("\r\n")
        between = " " if len(self.cells) > 1 and "\t" not in line else "\t"
        cells = [*self.cells[:place], value, *self.cells[place + 1 :]]
        return between.join(cells) + self.text[len(line) :]


ColumnSentence = Sequence[ColumnLine]
"""The lines of a sentence and around it: those of all sentences are the file."""


def column_lines(source: Source) -> Iterator[ColumnLine]:
    """Every line of a file; DataError: ragged columns, an id that is none."""
    universal = source.kind == "conllu"
    n, first = (len(COLUMNS), "") if universal else _width(source)
    begins = True
    for own, end, where in ended_lines(source):
        line, text = own.rstrip("\r"), own + end
        cells = cells_of(line)
        comment = begins and (len(cells) != n or _COMMENT.match(line))
        if _ends(line, cells):
            begins = True
            yield ColumnLine(text, where, ends=True)
        elif line.startswith("#") and (universal or comment):
            yield ColumnLine(text, where)
        elif len(cells) != n:
            rest = f" where {first} has {n}; mend it"
            if universal:
                rest = (
                    f", not the {n} of CoNLL-U with a tab between; mend this line, or set "
                    "data.format=conll for other columns"
                )
            raise DataError(f"{where} has {amount(len(cells), 'column')}{rest}")
        else:
            begins = False
            yield ColumnLine(
                text, where, cells if not universal or _is_word(cells[0], where) else ()
            )


def _is_word(number: str, where: str) -> bool:
    """Whether a line of CoNLL-U with this id is a word; DataError: it is no id."""
    if not number.isdecimal() and not _SKIPPED.fullmatch(number):
        raise DataError(
            f"{where} has the id {number!r}, not a number as in CoNLL-U; mend this line"
        )
    return number.isdecimal()


def cells_of(line: str) -> tuple[str, ...]:
    """The cells of a line: between tabs if there is one, else between spaces."""
    return tuple(line.split("\t") if "\t" in line else filter(None, line.split(" ")))


def _ends(line: str, cells: Sequence[str]) -> bool:
    """Whether a line is empty, or begins a document."""
    return not line.strip() or cells[0] == "-DOCSTART-"


def _width(source: Source) -> tuple[int, str]:
    """Columns of the first row that is certainly no comment (0: there is none), and its line."""
    for line, where in lines(source):
        cells = cells_of(line)
        if not (_ends(line, cells) or line.startswith("#")):
            return len(cells), where.rpartition(", ")[2]
    return 0, ""


def column_sentences(source: Source) -> Iterator[ColumnSentence]:
    """Every sentence with all lines around it; errors as of `column_lines`."""
    held: list[ColumnLine] = []
    words = False
    for line in column_lines(source):
        if words and held[-1].ends and not line.ends:
            yield held
            held, words = [], False
        held.append(line)
        words = words or bool(line.cells)
    if held:
        yield held


def columns_of(line: ColumnLine, source: Source) -> tuple[int, int]:
    """The columns of words and of tags, for the first line of a word.

    ConfigError, DataError: there is no such column.
    """
    config = source.config
    if source.kind == "conllu":
        form = "form" if is_default(config, "word_field") else config.word_field
        tag = config.tag_field or "upos"
        return _universal(form, "word_field"), _universal(tag, "tag_field")
    n, where = len(line.cells), line.where
    if n < 2:
        raise DataError(
            f"{where} has 1 column, not a word and a tag; put a tab or a space between them"
        )
    word = "1" if is_default(config, "word_field") else config.word_field
    return (
        column_place(word, n, where, "word_field"),
        column_place(config.tag_field or str(n), n, where, "tag_field"),
    )


def _universal(field: str, setting: str) -> int:
    numbers = [str(number) for number in range(1, len(COLUMNS) + 1)]
    for names in (COLUMNS, numbers):
        if field in names:
            return names.index(field)
    raise ConfigError(
        f"CoNLL-U has no column {field!r}; {suggest(field, COLUMNS)} (set data.{setting})"
    )


def cells_in(sentence: ColumnSentence, place: int, kind: str = "word") -> tuple[str, ...]:
    """The cells of a column, one for each word. DataError: an empty one."""
    lines = [line for line in sentence if line.cells]
    if wrong := next((line for line in lines if not line.cells[place]), None):
        raise DataError(f"{wrong.where} has an empty {kind}; fill it or remove it")
    return tuple(line.cells[place] for line in lines)


def with_tags(sentence: ColumnSentence, place: int, tags: Sequence[str]) -> str:
    """The lines with other tags in a column."""
    given = iter(tags)
    return "".join(
        line.with_cell(place, next(given)) if line.cells else line.text for line in sentence
    )
