"""Tagged sentences in files: CoNLL-U, other columns, word/tag tokens, JSONL.

Errors name the file and the line.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.lines import checked_text, found, lines, objects
from glassformer.data.formats.records import column_place, is_default
from glassformer.data.sources import Source
from glassformer.errors import ConfigError, DataError, counted, suggest

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""CoNLL-U's columns (https://universaldependencies.org/format.html)."""
_NUMBERS = [str(number) for number in range(1, len(COLUMNS) + 1)]

Sentence = tuple[tuple[str, ...], tuple[str, ...], str]
"""Words, their tags, and the origin of the sentence."""
Rows = Iterator[tuple[tuple[str, str] | None, str]]
"""A word and its tag, or None at the end of a sentence, and the origin of the line."""

_CELL = re.compile(r"[^ \t]+")
_COMMENT = re.compile(
    r"#\s+(?:newdoc|newpar|sent_id|text|id|doc|global\.columns)\b|#(?:begin|end) document\b"
    r"|#\s*\S+\s*="
)
"""Comments before a sentence: of CoNLL-U, CoNLL-U Plus, CoNLL-2012 and MultiCoNER. Another line
that begins with # is one if it has another number of columns."""
_SKIPPED = re.compile(r"\d+[-.]\d+")
"""Ids of words written as one (3-4) and of words left out (8.1)."""


def words_text(words: Iterable[str]) -> str:
    """Words as running text: a space before each, one line for all."""
    return "".join(f" {word}" for word in words) + "\n"


def sentences(source: Source, config: DataConfig) -> Iterator[Sentence]:
    """The sentences of a file in order, without empty ones.

    DataError: another format, ragged columns, a word without a tag, lists of different lengths.
    """
    match source.format(config):
        case "conllu":
            return _between_blank_lines(_conllu(source, config))
        case "conll":
            return _between_blank_lines(_conll(source, config))
        case "slash":
            return _slash(source, config)
        case "jsonl":
            return _json(source, config)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, where words have no tags; set data.format to "
                f"conllu, conll, slash or jsonl"
            )


def _conllu(source: Source, config: DataConfig) -> Rows:
    form = "form" if is_default(config, "word_field") else config.word_field
    word, tag = _universal(form, "word_field"), _universal(config.tag_field or "upos", "tag_field")
    for line, where in lines(source, config):
        if not line.strip():
            yield None, where
        elif not line.startswith("#"):
            cells = line.split("\t")
            if len(cells) != len(COLUMNS):
                raise DataError(
                    f"{where} has {counted(len(cells), 'column')}, not the {len(COLUMNS)} of "
                    f"CoNLL-U with a tab between; mend this line, or set data.format=conll for "
                    f"other columns"
                )
            if cells[0].isdecimal():
                yield (cells[word], cells[tag]), where
            elif not _SKIPPED.fullmatch(cells[0]):
                raise DataError(
                    f"{where} has the id {cells[0]!r}, not a number as in CoNLL-U; mend this line"
                )


def _universal(field: str, setting: str) -> int:
    if field in COLUMNS:
        return COLUMNS.index(field)
    if field in _NUMBERS:
        return _NUMBERS.index(field)
    raise ConfigError(
        f"CoNLL-U has no column {field!r}; {suggest(field, COLUMNS)} (set data.{setting})"
    )


def _conll(source: Source, config: DataConfig) -> Rows:
    n, first = _width(source, config)
    word = tag = 0
    begins, placed = True, False
    for line, where in lines(source, config):
        cells = _cells(line)
        if not line.strip() or cells[0] == "-DOCSTART-":
            begins = True
            yield None, where
            continue
        if begins and line.startswith("#") and (len(cells) != n or _COMMENT.match(line)):
            continue
        if not placed:
            word, tag = _places(config, n, where)
        begins, placed = False, True
        if len(cells) != n:
            raise DataError(
                f"{where} has {counted(len(cells), 'column')} where {first} has {n}; mend it"
            )
        yield (cells[word], cells[tag]), where


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else _CELL.findall(line)


def _width(source: Source, config: DataConfig) -> tuple[int, str]:
    """Columns of the first row that is certainly no comment (0: there is none), and its line."""
    for line, where in lines(source, config):
        cells = _cells(line)
        if line.strip() and cells[0] != "-DOCSTART-" and not line.startswith("#"):
            return len(cells), where.rpartition(", ")[2]
    return 0, ""


def _places(config: DataConfig, n: int, where: str) -> tuple[int, int]:
    if n < 2:
        raise DataError(
            f"{where} has 1 column, not a word and a tag; put a tab or a space between them"
        )
    word = "1" if is_default(config, "word_field") else config.word_field
    return (
        column_place(word, n, where, "word_field"),
        column_place(config.tag_field or str(n), n, where, "tag_field"),
    )


def _slash(source: Source, config: DataConfig) -> Iterator[Sentence]:
    for line, where in lines(source, config):
        tokens = [token.rpartition("/") for token in _CELL.findall(line)]
        for word, slash, tag in tokens:
            if not (word and tag):
                problem = f"an empty {'tag' if word else 'word'} in" if slash else "no tag behind"
                token = word + slash + tag
                raise DataError(
                    f"{where} has {problem} {token!r:.60}; write every word as word/tag"
                )
        if tokens:
            yield tuple(word for word, _, _ in tokens), tuple(tag for _, _, tag in tokens), where


def _between_blank_lines(rows: Rows) -> Iterator[Sentence]:
    found: list[tuple[str, str]] = []
    begin = ""
    for row, where in chain(rows, [(None, "")]):
        if row is None:
            if found:
                words, tags = zip(*found, strict=True)
                yield words, tags, begin
            found = []
            continue
        if "" in row:
            kind = "tag" if row[0] else "word"
            raise DataError(f"{where} has an empty {kind}; fill it or remove it")
        begin = begin if found else where
        found.append(row)


def _json(source: Source, config: DataConfig) -> Iterator[Sentence]:
    for record, where in objects(source, config):
        words = _strings(record, config.word_field, where, "word_field")
        tags = _strings(record, config.tag_field or "tags", where, "tag_field")
        if len(words) != len(tags):
            counts = f"{counted(len(words), 'word')} and {counted(len(tags), 'tag')}"
            raise DataError(f"{where} has {counts}; give one for each")
        if words:
            yield words, tags, where


def _strings(record: Any, field: str, where: str, setting: str) -> tuple[str, ...]:
    value = found(record, field, where, setting)
    if not isinstance(value, list):
        raise DataError(
            f"{where} has {field!r} that is not a list but {value!r:.40}; give a list of strings"
        )
    texts = tuple(checked_text(text, field, where, "give a list of strings") for text in value)
    if not all(texts):
        raise DataError(f"{where} has an empty string in {field!r}; fill it or remove it")
    return texts
