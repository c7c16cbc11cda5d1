"""Spans and their scores: those of seqeval, on tags that follow their scheme and on any others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.metrics.spans import (
    SCHEMES,
    Span,
    SpanScore,
    mark_spans,
    spans,
    unknown_letters,
)

NOTATIONS = ("{0}-{1}", "{0}_{1}", "{1}-{0}", "{1}_{0}", "{0}:{1}", "{1}.{0}")
KINDS = ("PER", "LOC", "new-york", "_")
MEANS = {"L": "E", "U": "S", "M": "I", "W": "S"}
OTHERS = {"BILOU": {"E": "L", "S": "U"}, "BMES": {"I": "M"}, "BMEWO": {"I": "M", "S": "W"}}
anything = st.lists(
    st.sampled_from(
        ["O", *"BIESLU", "B-", *(f"{letter}-{kind}" for letter in "BIESLU" for kind in KINDS)]
    ),
    max_size=12,
)
lengths = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 4), st.integers(0, 2)), max_size=6
)


def plain(tags):
    return [MEANS.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def written(chunks, scheme):
    """The tags of chunks (kind, length, tokens outside before it), written as the scheme's
    definition says."""
    tags, last = [], None
    for i, (kind, length, gap) in enumerate(chunks):
        follows = last == kind and gap == 0
        followed = i + 1 < len(chunks) and chunks[i + 1][0] == kind and chunks[i + 1][2] == 0
        letters = ["I"] * length
        if scheme == "IOB2" or (scheme == "IOB1" and follows):
            letters[0] = "B"
        if scheme == "IOE2" or (scheme == "IOE1" and followed):
            letters[-1] = "E"
        if scheme in ("BIOES", "BILOU", "BMES", "BMEWO"):
            letters = ["S"] if length == 1 else ["B", *"I" * (length - 2), "E"]
        letters = [OTHERS.get(scheme, {}).get(letter, letter) for letter in letters]
        tags += ["O"] * gap + [f"{letter}-{kind}" for letter in letters]
        last = kind
    return tags


def meant(chunks):
    found, at = [], 0
    for kind, length, gap in chunks:
        found.append(Span(kind, at + gap, at + gap + length))
        at += gap + length
    return found


@given(anything)
def test_spans_are_those_of_seqeval_whatever_the_tags(tags):
    entities = pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities(plain(tags))
    assert spans(tags) == [(kind, start, end + 1) for kind, start, end in entities]


@given(lengths, st.sampled_from(SCHEMES.split(", ")))
def test_what_a_scheme_writes_is_read_back(chunks, name):
    tags = written(chunks, name)
    assert spans(tags) == meant(chunks)


@given(lengths, st.sampled_from(SCHEMES.split(", ")), st.sampled_from(NOTATIONS), st.booleans())
def test_a_scheme_is_read_in_every_notation(chunks, name, notation, lower):
    chunks = [("LOC", 3, 0), ("_", 1, 1), *chunks]
    plain_tags = written(chunks, name)
    tags = [t if t == "O" else notation.format(t[0], t[2:]) for t in plain_tags]
    tags = [tag.lower() for tag in tags] if lower else tags
    expected = [Span(kind.lower() if lower else kind, *at) for kind, *at in meant(chunks)]
    assert spans(tags) == expected
    assert mark_spans(tags)


@pytest.mark.parametrize("strange", ["HB-ADR", "X_ADR", "ADR-X"])
def test_letters_of_no_scheme_among_span_tags_are_named(strange):
    assert unknown_letters({"ADR_B", "ADR_I", "O", strange}) == [strange]
    assert unknown_letters({"B-ADR", "I-ADR", "O", strange}) == [strange]
    assert unknown_letters({"B-ADR", "I-LOC", "O", "0", strange, "NOUN"}) == []


@pytest.mark.parametrize(
    ("tags", "marked"),
    [
        (["O", "B-X"], True),
        (["B-X", "B-X"], True),
        (["O", "I-X"], True),
        (["I-X", "B-X"], True),
        (["O", "E-X", "E-X"], True),
        (["E-X", "I-X"], True),
        (["S-X"], True),
        (["U-X"], True),
        (["B-X", "L-X"], True),
        (["B", "I", "O"], True),
        (["B", "I", "E", "S", "S"], True),
        (["NOUN", "VERB", "PUNCT", "INTJ", "SYM", "X"], False),
        (["IN", "LS", "UH", "-LRB-", "PRP$", "BES", "SINV"], False),
        (["S", "V", "O"], False),
        (["b-x", "B_PER", "PER-B", "O"], True),
        (["B", "M", "E", "S"], True),
        (["B", "M", "M", "E", "W"], True),
        (["B-X", "M-X", "E-X", "O", "S-X"], True),
        (["B-X", "M-X", "E-X", "W-X", "O"], True),
        (["START-X", "INSIDE-X", "END-X", "OUTSIDE"], True),
        (["LAST_NAME-B", "LAST_NAME-I", "O"], True),
        (["FIRST_NAME", "LAST_NAME", "O"], False),
        (["START_DATE", "END_DATE", "O"], False),
        (["N-S", "N-M", "V-S", "O"], False),
        (["NOUN_I", "VERB"], False),
        (["[PAD]", "B_X", "I_X", "O"], True),
        (["B", "I", "N", "V", "A", "P", "D"], False),
        (["O", "O"], False),
        (["", "-"], False),
        ([], False),
    ],
)
def test_few_tags_tell_whether_they_mark_spans(tags, marked):
    assert mark_spans(tags) == marked


pairs = st.lists(anything.flatmap(lambda gold: st.tuples(st.just(gold), near(gold))), max_size=5)


def near(gold):
    """Predictions that are right here and there."""
    other = st.sampled_from(["O", "B-PER", "I-PER", "I-LOC", "S-LOC", "E-PER"])
    return st.tuples(*(st.one_of(st.just(tag), other) for tag in gold)).map(list)


@given(pairs)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_scores_are_those_of_seqeval(sentences):
    oracle = pytest.importorskip("seqeval.metrics")
    score = SpanScore()
    for gold, predicted in sentences:
        score.add(gold, predicted)
    result, rows = score.result(), score.table()
    gold, predicted = (
        ([plain(tags) for tags in side] for side in zip(*sentences, strict=True))
        if sentences
        else ([], [])
    )
    assert (
        result["spans"] == sum(row["n"] for row in rows) == sum(len(spans(tags)) for tags in gold)
    )
    if not rows:
        assert result == {"precision": 0, "recall": 0, "f1": 0, "macro_f1": 0, "spans": 0}
        return
    average = {"average": "micro", "zero_division": 0}
    assert result["precision"] == pytest.approx(oracle.precision_score(gold, predicted, **average))
    assert result["recall"] == pytest.approx(oracle.recall_score(gold, predicted, **average))
    assert result["f1"] == pytest.approx(oracle.f1_score(gold, predicted, **average))
    assert result["macro_f1"] == pytest.approx(
        oracle.f1_score(gold, predicted, average="macro", zero_division=0)
    )
    report = oracle.classification_report(gold, predicted, output_dict=True, zero_division=0)
    assert [row["class"] for row in rows] == [name for name in report if " avg" not in name]
    for row in rows:
        theirs = report[row["class"]]
        assert row["n"] == theirs["support"]
        assert [row["precision"], row["recall"], row["f1"]] == pytest.approx(
            [theirs["precision"], theirs["recall"], theirs["f1-score"]]
        )


def test_a_span_is_right_only_as_a_whole():
    score = SpanScore()
    score.add(["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "O", "O", "B-LOC"])
    score.add(["B-LOC", "O"], ["B-ORG", "O"])
    assert score.result() == {
        "precision": 1 / 3,
        "recall": 1 / 3,
        "f1": 1 / 3,
        "macro_f1": 2 / 9,
        "spans": 3,
    }
    assert score.table() == [
        {"class": "LOC", "precision": 1.0, "recall": 0.5, "f1": 2 / 3, "n": 2},
        {"class": "ORG", "precision": 0.0, "recall": 0.0, "f1": 0.0, "n": 0},
        {"class": "PER", "precision": 0.0, "recall": 0.0, "f1": 0.0, "n": 1},
    ]
    with pytest.raises(AssertionError, match="2 tags and 1 predictions"):
        score.add(["O", "O"], ["O"])
