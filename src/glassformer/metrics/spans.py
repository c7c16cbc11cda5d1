"""Spans (names, phrases) that tags mark token by token, and the scores of predicted ones.

Tags are `O` or a letter and a kind, `B-PER`; where all tags are, also `B_PER`, `PER-B`, `b-per`
and `START-PER`. Every scheme of `SCHEMES` is read alike: B and S begin a span, E and S end one, L
is E, M is I, U and W are S.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from glassformer.metrics.classes import Counts, PerClass, macro_f1, micro

TAG = re.compile(r"([BIESLU])(?:-(.*))?|[MW]-.*", re.DOTALL)
"""Tags that are certain; other notations are if all tags of a set can be read."""
_LETTER = "(?P<letter>[BIESLUMW])"
_WORD = "(?P<letter>START|BEGIN|INSIDE|MIDDLE|END|LAST|SINGLE|UNIT|WHOLE)"
FORMS = [
    re.compile(form, re.DOTALL | re.IGNORECASE)
    for form in (
        rf"{_LETTER}[-_:./|](?P<kind>.+)",
        rf"(?P<kind>.+)[-_:./|]{_LETTER}",
        rf"{_LETTER}(?P<kind>)-?",
        rf"{_WORD}-(?P<kind>.+)",
        rf"(?P<kind>.+)-{_WORD}",
    )
]
"""Other notations, in order."""
MEANS = {"L": "E", "U": "S", "M": "I", "W": "S"}
SCHEMES = "IOB1, IOB2, IOE1, IOE2, BIOES, BILOU, BMES, BMEWO"
OUTSIDE = frozenset({"O", "OUTSIDE"})
NOT_A_TAG = "?"


class Span(NamedTuple):
    """Tokens [start, end) of one kind."""

    kind: str
    start: int
    end: int


def mark_spans(tags: Iterable[str]) -> bool:
    """Whether most of these tags mark spans."""
    tags = {*tags} - {"O"}
    certain = [tag for tag in tags if TAG.fullmatch(tag)]
    if any(tag[1:] or tag in "BI" for tag in certain) and 2 * len(certain) > len(tags) - 1:
        return True
    read = sum(map(_understood, tags))
    if read == len(tags) and any(_read(tag).written in "BI" for tag in tags):
        return True
    return 2 * read > len(tags) and bool(_marked_kinds(tags))


def unknown_letters(tags: Iterable[str]) -> list[str]:
    """Tags of another scheme among span tags: their kind is marked, but not by a known letter."""
    tags = [*tags]
    marked, cut = _marked_kinds(tags), re.compile("[-_:./|]")
    return sorted(
        tag
        for tag in tags
        if not _understood(tag)
        and any({tag[: one.start()], tag[one.end() :]} & marked for one in cut.finditer(tag))
    )


def _marked_kinds(tags: Iterable[str]) -> set[str]:
    """Kinds with B or I and another letter."""
    letters = defaultdict[str, set[str]](set)
    for tag in tags:
        if (read := _read(tag)).kind is not None:
            letters[read.kind].add(read.written)
    return {kind for kind, own in letters.items() if len(own) > 1 and own & {"B", "I"}}


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence's tags, read leniently and alike in every scheme: a tag that cannot
    continue a span begins one.

    As conlleval and seqeval read them (Tjong Kim Sang and De Meulder 2003); anything that is no tag
    is outside, as `O` is.
    """
    found: list[Span] = []
    kind, start = None, 0  # of the span that is open
    for i, tag in enumerate(tags):
        _, letter, new = _read(tag)
        if kind is not None and (new != kind or letter in "BS"):
            found.append(Span(kind, start, i))
            kind = None
        if new is None:
            continue
        if kind is None:
            kind, start = new, i
        if letter in "ES":
            found.append(Span(kind, start, i + 1))
            kind = None
    if kind is not None:
        found.append(Span(kind, start, len(tags)))
    return found


class SpanScore(PerClass):
    """Precision, recall and F1 of spans: one is right if its kind, its beginning and its end
    are."""

    def __init__(self) -> None:
        self._counts = Counter[str](), Counter[str](), Counter[str]()
        """Those of right, predicted and gold spans."""

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count a sentence: its tags, and the predicted ones."""
        assert len(gold) == len(predicted), f"{len(gold)} tags and {len(predicted)} predictions"
        wanted, own = {*spans(gold)}, {*spans(predicted)}
        for counts, found in zip(self._counts, (wanted & own, own, wanted), strict=True):
            counts.update(span.kind for span in found)

    def result(self) -> dict[str, float]:
        """`precision`, `recall`, `f1` of all spans, `macro_f1` = mean over kinds, in [0, 1], and
        the gold `spans`."""
        kinds = self.classes().values()
        every = micro(kinds)
        return {**every.ratios(), "macro_f1": macro_f1(kinds), "spans": every.gold}

    def classes(self) -> dict[str, Counts]:
        """The counts of each kind, in alphabetical order."""
        names = sorted({*self._counts[1], *self._counts[2]})
        return {name: Counts(*(own[name] for own in self._counts)) for name in names}


class _Tag(NamedTuple):
    """The written letter, the letter of BIOES with its meaning, and the kind."""

    written: str
    letter: str
    kind: str | None


@lru_cache(4096)
def _read(tag: str) -> _Tag:
    """The parts of a tag; one without a kind is of the kind `_`."""
    if TAG.fullmatch(tag):
        written, kind = tag[0], tag[2:]
    elif tag.upper() in OUTSIDE:
        return _Tag("O", "O", None)
    elif match := next(filter(None, (form.fullmatch(tag) for form in FORMS)), None):
        word, kind = match["letter"].upper(), match["kind"]
        written = "B" if word == "START" else word[0]
    else:
        return _Tag(NOT_A_TAG, NOT_A_TAG, None)
    return _Tag(written, MEANS.get(written, written), kind or "_")


def _understood(tag: str) -> bool:
    return _read(tag).written != NOT_A_TAG
