"""Tagged sentences in files: CoNLL-U, other columns, word/tag tokens, JSONL.

Errors name the file and the line.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.lines import checked_text, found, lines, objects
from glassformer.data.formats.tables import column_place, is_number
from glassformer.data.sources import Source
from glassformer.errors import ConfigError, DataError, counted, suggest

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""CoNLL-U's columns (https://universaldependencies.org/format.html)."""

Sentence = tuple[tuple[str, ...], tuple[str, ...], str]
"""Words, their tags, and the origin of the sentence."""
Rows = Iterator[tuple[tuple[str, str] | None, str]]
"""A word and its tag, or None at the end of a sentence, and the origin of the line."""

_CELL = re.compile(r"[^ \t]+")
_SKIPPED = re.compile(r"\d+[-.]\d+")


def words_text(words: Iterable[str]) -> str:
    """Words as running text: a space before each, one line for all."""
    return "".join(f" {word}" for word in words) + "\n"


def sentences(source: Source, config: DataConfig) -> Iterator[Sentence]:
    """The sentences of a file in order, without empty ones.

    DataError: another format, ragged columns, a word without a tag, lists of different lengths.
    """
    kind = source.format(config)
    if kind not in READERS:
        raise DataError(
            f"{source.path} is read as {kind}, where words have no tags; "
            "set data.format to conllu, conll, slash or jsonl"
        )
    return READERS[kind](source, config)


def _conllu(source: Source, config: DataConfig) -> Iterator[Sentence]:
    form = (
        "form"
        if config.word_field == DataConfig.model_fields["word_field"].default
        else config.word_field
    )
    word, tag = _universal(form, "word_field"), _universal(config.tag_field or "upos", "tag_field")

    def rows() -> Rows:
        for line, where in lines(source, config):
            if not line.strip():
                yield None, where
            elif not line.startswith("#"):
                cells = line.split("\t")
                if len(cells) != len(COLUMNS):
                    raise DataError(
                        f"{where} has {counted(len(cells), 'column')}, not the {len(COLUMNS)} "
                        f"of CoNLL-U with a tab "
                        "between; mend this line, or set data.format=conll for other columns"
                    )
                if cells[0].isdecimal():
                    yield (cells[word], cells[tag]), where
                elif not _SKIPPED.fullmatch(
                    cells[0]
                ):  # words written as one (3-4) and words left out (8.1)
                    raise DataError(
                        f"{where} has the id {cells[0]!r}, not a number as in CoNLL-U; mend "
                        f"this line"
                    )

    return _between_blank_lines(rows())


def _universal(field: str, setting: str) -> int:
    if field in COLUMNS:
        return COLUMNS.index(field)
    if is_number(field) and 1 <= int(field[:9]) <= len(COLUMNS):
        return int(field) - 1
    raise ConfigError(
        f"CoNLL-U has no column {field!r}; {suggest(field, COLUMNS)} (set data.{setting})"
    )


def _conll(source: Source, config: DataConfig) -> Iterator[Sentence]:
    def rows() -> Rows:
        n = word = tag = 0
        first = ""
        for line, where in lines(source, config):
            cells = line.split("\t") if "\t" in line else _CELL.findall(line)
            if not line.strip() or cells[0] == "-DOCSTART-":
                yield None, where
                continue
            if not n:
                n, first = len(cells), where
                word, tag = _places(config, n, where)
            if len(cells) != n:
                raise DataError(
                    f"{where} has {counted(len(cells), 'column')} where "
                    f"{first.rpartition(', ')[2]} has {n}; mend it"
                )
            yield (cells[word], cells[tag]), where

    return _between_blank_lines(rows())


def _places(config: DataConfig, n: int, where: str) -> tuple[int, int]:
    if n < 2:
        raise DataError(
            f"{where} has 1 column, not a word and a tag; put a tab or a space between them"
        )
    numbered = config.word_field != DataConfig.model_fields["word_field"].default
    word = column_place(config.word_field, n, where, "word_field") if numbered else 0
    tag = (
        n - 1 if config.tag_field is None else column_place(config.tag_field, n, where, "tag_field")
    )
    return word, tag


def _slash(source: Source, config: DataConfig) -> Iterator[Sentence]:
    for line, where in lines(source, config):
        tokens = [token.rpartition("/") for token in _CELL.findall(line)]
        for word, slash, tag in tokens:
            if not (word and tag):
                problem = f"an empty {'tag' if word else 'word'} in" if slash else "no tag behind"
                raise DataError(
                    f"{where} has {problem} {word + slash + tag!r:.60}; write every word as "
                    f"word/tag"
                )
        if tokens:
            yield tuple(word for word, _, _ in tokens), tuple(tag for _, _, tag in tokens), where


def _between_blank_lines(rows: Rows) -> Iterator[Sentence]:
    words: list[str] = []
    tags: list[str] = []
    begin = ""
    for row, where in rows:
        if row is None:
            if words:
                yield tuple(words), tuple(tags), begin
            words, tags = [], []
            continue
        for kind, cell in zip(("word", "tag"), row, strict=True):
            if not cell:
                raise DataError(f"{where} has an empty {kind}; fill it or remove it")
        begin = begin if words else where
        words.append(row[0])
        tags.append(row[1])
    if words:
        yield tuple(words), tuple(tags), begin


def _json(source: Source, config: DataConfig) -> Iterator[Sentence]:
    for record, where in objects(source, config):
        words = _strings(record, config.word_field, where, "word_field")
        tags = _strings(record, config.tag_field or "tags", where, "tag_field")
        if len(words) != len(tags):
            raise DataError(
                f"{where} has {counted(len(words), 'word')} and {counted(len(tags), 'tag')}; "
                f"give one for each"
            )
        if words:
            yield words, tags, where


def _strings(record: Any, field: str, where: str, setting: str) -> tuple[str, ...]:
    value = found(record, field, where, setting)
    if not isinstance(value, list):
        raise DataError(
            f"{where} has {field!r} that is not a list but {value!r:.40}; give a list of strings"
        )
    texts = tuple(
        map(checked_text, value, repeat(field), repeat(where), repeat("give a list of strings"))
    )
    if not all(texts):
        raise DataError(f"{where} has an empty string in {field!r}; fill it or remove it")
    return texts


READERS: dict[str, Callable[[Source, DataConfig], Iterator[Sentence]]] = {
    "conllu": _conllu,
    "conll": _conll,
    "slash": _slash,
    "jsonl": _json,
}
