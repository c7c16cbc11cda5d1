"""Tagged sentences in files: CoNLL-U, other columns, word/tag tokens, JSON, Parquet.

Errors name the file and the line.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import cells_of, column_sentences, columns_of
from glassformer.data.formats.lines import checked_text, found, lines
from glassformer.data.formats.records import check_used, named_class, records
from glassformer.data.formats.span_records import span_sentence
from glassformer.data.sources import Source
from glassformer.errors import DataError, counted

Sentence = tuple[tuple[str, ...], tuple[str, ...], str]
"""Words, their tags, and the origin of the sentence."""


def words_text(words: Iterable[str]) -> str:
    """Words as running text: a space before each, one line for all."""
    return "".join(f" {word}" for word in words) + "\n"


def sentences(source: Source, config: DataConfig) -> Iterator[Sentence]:
    """The sentences of a file in order, without empty ones.

    DataError: another format, ragged columns, a word without a tag, lists of different lengths.
    """
    match source.format(config):
        case "conllu" | "conll":
            return _columns(source, config)
        case "slash":
            check_used(config, ["word_field", "tag_field"], used=False, path=source.path)
            return _slash(source, config)
        case "jsonl" | "parquet":
            return _lists(source, config)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, where words have no tags; set data.format to "
                f"conllu, conll, slash, jsonl or parquet"
            )


def _columns(source: Source, config: DataConfig) -> Iterator[Sentence]:
    """The words and tags of a column file."""
    places = None
    for sentence in column_sentences(source, config):
        lines = [line for line in sentence if line.cells]
        if lines:
            places = places or columns_of(lines[0], source, config)
            words, tags = (tuple(line.cells[place] for line in lines) for place in places)
            for line, word, tag in zip(lines, words, tags, strict=True):
                if not (word and tag):
                    kind = "tag" if word else "word"
                    raise DataError(f"{line.where} has an empty {kind}; fill it or remove it")
            yield words, tags, lines[0].where


def _slash(source: Source, config: DataConfig) -> Iterator[Sentence]:
    for line, where in lines(source, config):
        tokens = [token.rpartition("/") for token in cells_of(line.replace("\t", " "))]
        for word, slash, tag in tokens:
            if not (word and tag):
                problem = f"an empty {'tag' if word else 'word'} in" if slash else "no tag after"
                token = word + slash + tag
                raise DataError(
                    f"{where} has {problem} {token!r:.60}; write every word as word/tag"
                )
        if tokens:
            yield tuple(word for word, _, _ in tokens), tuple(tag for _, _, tag in tokens), where


def _lists(source: Source, config: DataConfig) -> Iterator[Sentence]:
    tag_field = config.tag_field or "tags"
    wanted = {config.word_field: "word_field", tag_field: "tag_field"}
    for record, where in records(source, config, wanted, "words and tags"):
        if isinstance(record, dict) and config.word_field not in record:
            spans = span_sentence(record, where)
            if spans is not None:
                check_used(config, ["word_field", "tag_field"], used=False, path=where)
                if spans[0]:
                    yield *spans, where
                continue
        words = _strings(record, config.word_field, where, "word_field")
        tags = _strings(record, tag_field, where, "tag_field", config)
        if len(words) != len(tags):
            counts = f"{counted(len(words), 'word')} and {counted(len(tags), 'tag')}"
            raise DataError(f"{where} has {counts}; give one for each")
        if words:
            yield words, tags, where


def _strings(
    record: Any, field: str, where: str, setting: str, classes: DataConfig | None = None
) -> tuple[str, ...]:
    """The strings of a list; with `classes`, whole numbers stand for its `class_names`."""
    value = found(record, field, where, setting)
    if not isinstance(value, list):
        raise DataError(
            f"{where} has {field!r} that is not a list but {value!r:.40}; give a list of strings"
        )
    if classes is not None:
        value = [
            named_class(str(one), classes, where) if type(one) is int else one for one in value
        ]
    texts = tuple(checked_text(text, field, where, "give a list of strings") for text in value)
    if not all(texts):
        raise DataError(f"{where} has an empty string in {field!r}; fill it or remove it")
    return texts
