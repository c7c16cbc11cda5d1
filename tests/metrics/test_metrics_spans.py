"""Spans, their scheme and their scores: those of seqeval, on tags that follow their scheme and on
any others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.metrics.spans import (
    SCHEMES,
    Span,
    SpanScore,
    invalid_count,
    scheme_of,
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


@given(lengths, st.sampled_from(list(SCHEMES)))
def test_what_a_scheme_writes_is_read_back_and_breaks_no_rule(chunks, name):
    tags = written(chunks, name)
    assert spans(tags) == meant(chunks)
    assert invalid_count([tags, tags], SCHEMES[name]) == 0
    if tags:
        assert invalid_count([tags], scheme_of([tags])) == 0, (
            "the scheme that is found explains the tags"
        )


@given(lengths, st.sampled_from(list(SCHEMES)), st.sampled_from(NOTATIONS), st.booleans())
def test_a_scheme_is_read_in_every_notation(chunks, name, notation, lower):
    chunks = [("LOC", 3, 0), ("_", 1, 1), *chunks]
    plain_tags = written(chunks, name)
    tags = [t if t == "O" else notation.format(t[0], t[2:]) for t in plain_tags]
    tags = [tag.lower() for tag in tags] if lower else tags
    expected = [Span(kind.lower() if lower else kind, *at) for kind, *at in meant(chunks)]
    assert spans(tags) == expected
    assert scheme_of([tags]) == scheme_of([plain_tags])
    assert invalid_count([tags], SCHEMES[name]) == 0


@pytest.mark.parametrize("strange", ["HB-ADR", "X_ADR", "ADR-X"])
def test_letters_of_no_scheme_among_span_tags_are_named(strange):
    assert unknown_letters({"ADR_B", "ADR_I", "O", strange}) == [strange]
    assert unknown_letters({"B-ADR", "I-ADR", "O", strange}) == [strange]
    assert unknown_letters({"B-ADR", "I-LOC", "O", "0", strange, "NOUN"}) == []


@given(lengths, st.sampled_from(list(SCHEMES)), st.integers(0, 3))
def test_the_scheme_is_found_although_some_tags_are_wrong(chunks, name, wrong):
    # enough of every letter that no other scheme explains it: longer and lone spans, and equal
    # neighbours
    clear = [("PER", 3, 0), ("PER", 2, 0), ("LOC", 1, 1), ("LOC", 1, 0)]
    bad = [["I-PER", "O", "B-PER"], ["E-PER"], ["0"], ["S-LOC", "I-PER"]][:wrong]
    sentences = [written(chunks, name)] + [written(clear, name)] * 9
    assert scheme_of(sentences) == scheme_of([*sentences, *bad]) == SCHEMES[name]


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["O", "B-X"], "IOB2"),
        (["B-X", "B-X"], "IOB2"),
        (["O", "I-X"], "IOB1"),
        (["I-X", "B-X"], "IOB1"),
        (["O", "E-X", "E-X"], "IOE2"),
        (["E-X", "I-X"], "IOE1"),
        (["S-X"], "BIOES"),
        (["U-X"], "BILOU"),
        (["B-X", "L-X"], "BILOU"),
        (["B", "I", "O"], "IOB2"),
        (["B", "I", "E", "S", "S"], "BIOES"),
        (["NOUN", "VERB", "PUNCT", "INTJ", "SYM", "X"], None),
        (["IN", "LS", "UH", "-LRB-", "PRP$", "BES", "SINV"], None),
        (["S", "V", "O"], None),
        (["b-x", "B_PER", "PER-B", "O"], "IOB2"),
        (["B", "M", "E", "S"], "BMES"),
        (["B", "M", "M", "E", "W"], "BMEWO"),
        (["B-X", "M-X", "E-X", "O", "S-X"], "BMES"),
        (["B-X", "M-X", "E-X", "W-X", "O"], "BMEWO"),
        (["START-X", "INSIDE-X", "END-X", "OUTSIDE"], "BIOES"),
        (["LAST_NAME-B", "LAST_NAME-I", "O"], "IOB2"),
        (["FIRST_NAME", "LAST_NAME", "O"], None),
        (["START_DATE", "END_DATE", "O"], None),
        (["N-S", "N-M", "V-S", "O"], None),
        (["NOUN_I", "VERB"], None),
        (["[PAD]", "B_X", "I_X", "O"], "IOB2"),
        (["B", "I", "N", "V", "A", "P", "D"], None),
        (["O", "O"], None),
        (["", "-"], None),
        ([], None),
    ],
)
def test_the_scheme_of_little(tags, name):
    found = scheme_of([tags])
    assert (found and found.name) == name


def test_no_sentence_has_no_scheme():
    assert scheme_of([]) is None


@st.composite
def nearly(draw):
    """Tags that follow a scheme, perhaps but for one, or any tags; and a scheme."""
    name = draw(st.sampled_from(list(SCHEMES)))
    tags = written(draw(lengths), name) or draw(anything)
    if tags and draw(st.booleans()):
        tags[draw(st.integers(0, len(tags) - 1))] = draw(
            st.sampled_from(["O", "B-PER", "I-PER", "E-PER", "I-LOC"])
        )
    return tags, name


@given(nearly() | st.tuples(anything, st.sampled_from(list(SCHEMES))))
@settings(max_examples=300)
def test_tags_without_a_violation_say_the_same_in_their_own_scheme(case):
    """A law that needs no table of transitions: writing what valid tags mark gives the tags
    back."""
    tags, name = case
    chunks, at = [], 0
    for kind, start, end in spans(tags):
        chunks.append((kind, end - start, start - at))
        at = end
    again = written(chunks, name) + ["O"] * (len(tags) - at)
    named = [tag[:1] + "-" + (tag[2:] or "_") if tag != "O" else tag for tag in tags]
    assert (invalid_count([tags], SCHEMES[name]) == 0) == (again == named)


@pytest.mark.parametrize(
    ("tags", "name", "count"),
    [
        (["O", "I-PER", "I-LOC"], "IOB2", 2),
        (["I-PER", "0", "S-PER"], "IOB2", 3),
        (["B-PER"], "BIOES", 1),
        (["B-X", "O"], "BIOES", 1),
        (["I-X"], "BIOES", 2),
        ([], "BIOES", 0),
    ],
)
def test_violations_are_counted_by_transition(tags, name, count):
    assert invalid_count([tags], SCHEMES[name]) == count
    assert invalid_count([tags, tags], SCHEMES[name]) == 2 * count


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
