"""Tagged sentences in files: CoNLL-U, other columns, word/tag tokens, JSON, Parquet; also texts
with spans of characters, as doccano, Label Studio and Prodigy write them.

doccano writes `{"text": "Ann left.", "label": [[0, 3, "PER"]]}`, or objects in `entities`. Label
Studio has `value` objects in the `result` of `annotations`, or in `label` of its short form. Such a
text is cut at spaces, as where a model reads it, and also at the borders of its spans.

Errors name the file and the line.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from glassformer.core.errors import DataError, amount
from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import cells_in, cells_of, column_sentences, columns_of
from glassformer.data.formats.lines import checked_text, found, lines
from glassformer.data.formats.records import check_used, named_class, records
from glassformer.data.sources import Source

Sentence = tuple[tuple[str, ...], tuple[str, ...], str]
"""Words, their tags, and the origin of the sentence."""


def words_text(words: Iterable[str]) -> str:
    """Words as running text: a space before each, one line for all."""
    return "".join(f" {word}" for word in words) + "\n"


def sentences(source: Source) -> Iterator[Sentence]:
    """The sentences of a file in order, without empty ones.

    DataError: another format, ragged columns, a word without a tag, lists of different lengths.
    """
    match source.kind:
        case "conllu" | "conll":
            return _columns(source)
        case "slash":
            check_used(source.config, ["word_field", "tag_field"], used=False, path=source.path)
            return _slash(source)
        case "jsonl" | "parquet":
            return _lists(source)
        case kind:
            raise DataError(
                f"{source.path} is read as {kind}, where words have no tags; set data.format to "
                f"conllu, conll, slash, jsonl or parquet"
            )


def _columns(source: Source) -> Iterator[Sentence]:
    """The words and tags of a column file."""
    places = None
    for sentence in column_sentences(source):
        first = next((line for line in sentence if line.cells), None)
        if first is not None:
            word, tag = places = places or columns_of(first, source)
            yield cells_in(sentence, word), cells_in(sentence, tag, "tag"), first.where


def _slash(source: Source) -> Iterator[Sentence]:
    for line, where in lines(source):
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


def _lists(source: Source) -> Iterator[Sentence]:
    config = source.config
    tag_field = config.tag_field or "tags"
    wanted = {config.word_field: "word_field", tag_field: "tag_field"}
    for record, where in records(source, wanted, "words and tags"):
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
            counts = f"{amount(len(words), 'word')} and {amount(len(tags), 'tag')}"
            raise DataError(f"{where} has {counts}; give one for each")
        if words:
            yield words, tags, where


def _strings(
    record: Any, field: str, where: str, setting: str, classes: DataConfig | None = None
) -> tuple[str, ...]:
    """The strings of a list; with `classes`, whole numbers are replaced by its `class_names`."""
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


SPAN_FIELDS = ("entities", "spans", "label", "labels")
Tagged = tuple[tuple[str, ...], tuple[str, ...]]
"""Words, and a tag of the scheme IOB2 for each."""


class _Span(NamedTuple):
    start: int
    end: int
    kind: str
    text: str | None


def span_sentence(record: Any, where: str) -> Tagged | None:
    """The words and tags of a record of spans; None: it is another one.

    DataError: spans that overlap or lie beyond the text, or several annotations.
    """
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("annotations"), list) and isinstance(record.get("data"), dict):
        text, listed = _of_label_studio(record["data"], record["annotations"], where)
    else:
        text = record.get("text")
        held = [record[name] for name in SPAN_FIELDS if isinstance(record.get(name), list)]
        listed = next((of for of in held if of), [] if held else None)
    if not isinstance(text, str) or listed is None:
        return None
    checked_text(text, "text", where, "give a text")
    spans = [_span(one) for one in listed]
    if None in spans:
        return None
    return _words_and_tags(
        text, sorted(_in_characters(one, text, where) for one in spans if one), where
    )


def _of_label_studio(data: Any, annotations: list[Any], where: str) -> tuple[Any, list[Any]]:
    objects = lambda listed: [one for one in listed if isinstance(one, dict)]
    kept = [one for one in objects(annotations) if not one.get("was_cancelled")]
    results = kept[0].get("result") if len(kept) == 1 else None
    if not isinstance(results, list):
        raise DataError(
            f"{where} has {len(kept)} annotations with a result; keep one for each text"
        )
    values = [one["value"] for one in objects(results) if "labels" in (one.get("value") or ())]
    texts = [value for value in data.values() if isinstance(value, str)]
    text = data.get("text", texts[0] if len(texts) == 1 else None)
    if not isinstance(text, str) or None in map(_span, values):
        raise DataError(f"{where} has no text with spans of characters; export them from a text")
    return text, values


def _span(value: Any) -> _Span | None:
    """The span in a value; None: there is none."""
    match value:
        case [int(start), int(end), str(kind)]:
            return _Span(start, end, kind, None)
        case {"start": int(start), "end": int(end)} | {
            "start_offset": int(start),
            "end_offset": int(end),
        }:
            kind, text = value.get("label", value.get("labels")), value.get("text")
            kind = kind[0] if isinstance(kind, list) and len(kind) == 1 else kind
            shown = text if isinstance(text, str) else None
            return _Span(start, end, kind, shown) if isinstance(kind, str) else None
    return None


def _in_characters(span: _Span, text: str, where: str) -> _Span:
    """The span in characters; JavaScript counts those beyond 16 bits as two."""
    n = None if span.text is None else len(span.text)
    if n is not None and (text[span.start : span.end], span.end - span.start) != (span.text, n):
        units = text.encode("utf-16-le")
        start, end = (
            len(units[: 2 * at].decode("utf-16-le", "replace")) for at in (span.start, span.end)
        )
        span = span._replace(start=start, end=end)
        if text[start:end] != span.text:
            raise DataError(
                f"{where} has a span of {span.text!r:.40} where the text is "
                f"{text[start:end]!r:.40}; export it again"
            )
    if not 0 <= span.start < span.end <= len(text) or not span.kind:
        raise DataError(
            f"{where} has a span {span.kind!r} from {span.start} to {span.end} in a text of "
            f"{len(text)} characters; mend it"
        )
    return span._replace(text=None)


def _words_and_tags(text: str, spans: list[_Span], where: str) -> Tagged:
    words, tags, at = list[str](), list[str](), 0
    for span in [*spans, _Span(len(text), len(text), "", None)]:
        if span.start < at:
            raise DataError(
                f"{where} has spans that overlap at character {span.start}, and a word has one "
                f"tag; remove one of them"
            )
        outside = text[at : span.start].split()
        inside = text[span.start : span.end].split()
        if not inside and span.kind:
            raise DataError(f"{where} has a span {span.kind!r} of spaces; remove it")
        words += outside + inside
        tags += ["O"] * len(outside)
        tags += [f"{'I' if i else 'B'}-{span.kind}" for i in range(len(inside))]
        at = span.end
    return tuple(words), tuple(tags)
