"""Files with a word a line and its columns: CoNLL-U and others.

A line is kept as it is written, comments and words written as one included, so that a file can be
written again with one column changed. Errors name the file and the line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from glassformer.data.config import DataConfig
from glassformer.data.formats.delimited import column_place, is_default
from glassformer.data.formats.lines import ended_lines, lines
from glassformer.data.sources import Source
from glassformer.errors import ConfigError, DataError, counted, suggest

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""CoNLL-U's columns (https://universaldependencies.org/format.html)."""
_NUMBERS = [str(number) for number in range(1, len(COLUMNS) + 1)]

CELL = re.compile(r"[^ \t]+")
_COMMENT = re.compile(
    r"#\s+(?:newdoc|newpar|sent_id|text|id|doc|global\.columns)\b|#(?:begin|end) document\b"
    r"|#\s*\S+\s*="
)
"""Comments before a sentence: of CoNLL-U, CoNLL-U Plus, CoNLL-2012 and MultiCoNER. Another line
that begins with # is one if it has another number of columns."""
_SKIPPED = re.compile(r"\d+[-.]\d+")
"""Ids of words written as one (3-4) and of words left out (8.1)."""
_TEXT = re.compile(r"#\s*text\s*=\s*(.*)")

Cells = tuple[tuple[int, int], ...]
"""Begin and end of each cell in a line."""


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A line with its end: of a word, which has cells, or another; and its origin."""

    text: str
    where: str
    raw: bytes
    cells: Cells = ()
    ends: bool = False
    """Whether a sentence ends here."""

    def cell(self, place: int) -> str:
        """The content of a cell."""
        begin, end = self.cells[place]
        return self.text[begin:end]

    def with_cell(self, place: int, value: str, encoding: str) -> bytes:
        """The bytes of the line with another content of a cell, or with one more cell."""
        if place < len(self.cells):
            begin, end = self.cells[place]
            text = self.text[:begin] + value + self.text[end:]
        else:
            end = self.cells[-1][1]
            text = f"{self.text[:end]}\t{value}{self.text[end:]}"
        mark = len(self.raw) - len(self.text.encode(encoding))  # of the byte order
        return self.raw[: max(0, mark)] + text.encode(encoding)


def column_lines(source: Source, config: DataConfig) -> Iterator[ColumnLine]:
    """Every line of a file; DataError: ragged columns, an id that is none."""
    universal = source.format(config) == "conllu"
    n, first = (len(COLUMNS), "") if universal else _width(source, config)
    begins = True
    for text, where, raw in ended_lines(source, config):
        line = text.rstrip("\r\n")
        cells = _cells(line)
        comment = begins and (len(cells) != n or _COMMENT.match(line))
        if _ends(line, cells):
            begins = True
            yield ColumnLine(text, where, raw, ends=True)
        elif line.startswith("#") and (universal or comment):
            yield ColumnLine(text, where, raw)
        elif len(cells) != n:
            rest = f" where {first} has {n}; mend it"
            if universal:
                rest = (
                    f", not the {n} of CoNLL-U with a tab between; mend this line, or set "
                    "data.format=conll for other columns"
                )
            raise DataError(f"{where} has {counted(len(cells), 'column')}{rest}")
        else:
            begins = False
            word = not universal or _is_word(line[: cells[0][1]], where)
            yield ColumnLine(text, where, raw, cells if word else ())


def _is_word(number: str, where: str) -> bool:
    """Whether a line of CoNLL-U with this id is a word; DataError: it is no id."""
    if not number.isdecimal() and not _SKIPPED.fullmatch(number):
        raise DataError(
            f"{where} has the id {number!r}, not a number as in CoNLL-U; mend this line"
        )
    return number.isdecimal()


def columns_of(line: ColumnLine, source: Source, config: DataConfig) -> tuple[int, int]:
    """The columns of words and of tags, for the first line of a word.

    ConfigError, DataError: there is no such column.
    """
    if source.format(config) == "conllu":
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


def is_column(field: str | None, kind: str) -> bool:
    """Whether a setting may name a column in this format: any, unless it is a column file."""
    match kind:
        case "conllu":
            return field in (None, *COLUMNS, *_NUMBERS)
        case "conll":
            return field is None or field.isdecimal()
    return True


def _universal(field: str, setting: str) -> int:
    if field in COLUMNS:
        return COLUMNS.index(field)
    if field in _NUMBERS:
        return _NUMBERS.index(field)
    raise ConfigError(
        f"CoNLL-U has no column {field!r}; {suggest(field, COLUMNS)} (set data.{setting})"
    )


def _cells(line: str) -> Cells:
    """The cells of a line: between tabs if there is one, else between spaces."""
    if "\t" not in line:
        return tuple(found.span() for found in CELL.finditer(line))
    spans, begin = [], 0
    for cell in line.split("\t"):
        spans.append((begin, begin + len(cell)))
        begin += len(cell) + 1
    return tuple(spans)


def _ends(line: str, cells: Cells) -> bool:
    """Whether a line is empty, or begins a document."""
    return not line.strip() or line[slice(*cells[0])] == "-DOCSTART-"


def _width(source: Source, config: DataConfig) -> tuple[int, str]:
    """Columns of the first row that is certainly no comment (0: there is none), and its line."""
    for line, where in lines(source, config):
        cells = _cells(line)
        if not (_ends(line, cells) or line.startswith("#")):
            return len(cells), where.rpartition(", ")[2]
    return 0, ""


@dataclass(frozen=True)
class Block:
    """A sentence of a file with everything around it: the lines of all blocks are the file."""

    lines: tuple[ColumnLine, ...]

    @property
    def where(self) -> str:
        """The origin of its first word, or of its first line."""
        return next((line.where for line in self.lines if line.cells), self.lines[0].where)

    def words(self, place: int) -> list[str]:
        """The words, in this column. DataError: an empty one."""
        words = [line.cell(place) for line in self.lines if line.cells]
        if not all(words):
            raise DataError(f"{self.where} begins a sentence with an empty word; fill it")
        return words

    def text(self, place: int) -> str:
        """The text of the comment `# text = ...`, or the words with spaces between."""
        comments = (_TEXT.match(line.text.rstrip("\r\n")) for line in self.lines if not line.cells)
        return next((found[1] for found in comments if found), "") or " ".join(self.words(place))

    def with_tags(
        self, place: int, values: Sequence[str] | None, comments: Iterable[str], encoding: str
    ) -> bytes:
        """Return the bytes of the sentence with other values in a column (None: these), and
        with more comments before its first word."""
        found, given, new = list[bytes](), iter(values or ()), list(comments)
        for line in self.lines:
            if line.cells and new:
                end = line.text[len(line.text.rstrip("\r\n")) :] or "\n"
                found += [f"# {one}{end}".encode(encoding) for one in new]
                new = []
            if line.cells and values is not None:
                found.append(line.with_cell(place, next(given), encoding))
            else:
                found.append(line.raw)
        return b"".join(found)


def blocks(source: Source, config: DataConfig) -> Iterator[Block]:
    """The sentences of a column file with all that is around them; errors as of `column_lines`.

    DataError also: an encoding whose newline has several bytes.
    """
    held: list[ColumnLine] = []
    words = ended = False
    for line in column_lines(source, config):
        if not line.raw:
            raise DataError(
                f"{source.path} is {config.encoding}, of which single lines cannot be written "
                f"again; convert it to UTF-8"
            )
        if words and ended and not line.ends:
            yield Block(tuple(held))
            held, words = [], False
        held.append(line)
        words, ended = words or bool(line.cells), line.ends
    if held:
        yield Block(tuple(held))
