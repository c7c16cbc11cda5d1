"""Texts with spans of characters, as doccano, Label Studio and Prodigy write them, as tagged words.

doccano writes `{"text": "Ann left.", "label": [[0, 3, "PER"]]}`, or objects in `entities`. Label
Studio has `value` objects in the `result` of `annotations`, or in `label` of its short form.

A text is cut at spaces, as where a model reads it, and also at the borders of its spans.
"""

from typing import Any, NamedTuple

from glassformer.data.formats.lines import checked_text
from glassformer.errors import DataError

NAMES = ("entities", "spans", "label", "labels")
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
        held = [record[name] for name in NAMES if isinstance(record.get(name), list)]
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
    kept = [one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")]
    if len(kept) != 1 or not isinstance(kept[0].get("result"), list):
        raise DataError(
            f"{where} has {len(kept)} annotations with a result; keep one for each text"
        )
    results = [one for one in kept[0]["result"] if isinstance(one, dict)]
    values = [one["value"] for one in results if "labels" in (one.get("value") or ())]
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
