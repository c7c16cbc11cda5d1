"""Scores of written text: exact match by hand, BLEU and chrF as sacreBLEU computes them when it is
called directly."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.metrics.writing import exact_match, translation_scores
from glassformer.tasks.evaluate import matches, translations

WORDS = ["der", "die", "Hund", "Katze", "schläft", ",", ".", "A", "3.5", "rot-blau", "don't"]
words = st.lists(st.sampled_from(WORDS), max_size=8)
texts = st.lists(st.tuples(words.map(" ".join), words.map(" ".join)), min_size=1, max_size=6)


@given(texts)
def test_exact_match_is_the_share_of_equal_texts(pairs):
    outputs, references = zip(*pairs, strict=True)
    assert exact_match(outputs, references) == sum(a == b for a, b in pairs) / len(pairs)


def test_exact_match_is_strict():
    assert exact_match(["a", "B", "c ", "é"], ["a", "b", "c", "e\u0301"]) == 0.25
    assert exact_match([], []) == 0.0


@given(texts)
@settings(max_examples=15)
def test_bleu_and_chrf_are_those_of_sacrebleu(pairs):
    sacrebleu = pytest.importorskip("sacrebleu")
    outputs, references = map(list, zip(*pairs, strict=True))
    scores = translation_scores(outputs, references)
    assert scores["bleu"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(outputs, [references]).score
    assert set(scores) == {"bleu", "bleu_signature", "chrf", "chrf_signature"}


def test_the_signatures_say_how_it_was_computed():
    sacrebleu = pytest.importorskip("sacrebleu")
    scores = translation_scores(["a cat sat on the mat"], ["a cat sat on the mat"])
    assert scores["bleu"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100)
    for part in ("nrefs:1", "case:mixed", "tok:13a", f"version:{sacrebleu.__version__}"):
        assert part in scores["bleu_signature"]
    for part in ("nrefs:1", "case:mixed", "nc:6", "nw:0", f"version:{sacrebleu.__version__}"):
        assert part in scores["chrf_signature"]


@pytest.fixture
def without_sacrebleu(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)


def test_without_sacrebleu_there_is_exact_match_alone(without_sacrebleu):
    assert matches(["a", "b"], ["a", "c"]) == {"exact_match": 0.5}
    assert translations(["a", "b"], ["a", "c"], best="exact_match") == {}
    for best in ("bleu", "chrf"):
        with pytest.raises(
            ConfigError, match=r"need sacreBLEU; run pip install 'glassformer\[eval\]'"
        ):
            translations(["a"], ["a"], best=best)


def test_groups_have_a_row_each(without_sacrebleu):
    outputs, references = list("abcde"), list("abxdy")
    scores = matches(outputs, references, ["fr", "de", "fr", None, "de"])
    assert scores["exact_match"] == 0.6
    assert scores["table"] == [
        {"group": "de", "n": 2, "exact_match": 0.5},
        {"group": "fr", "n": 2, "exact_match": 0.5},
    ]
    assert "table" not in matches(outputs, references, [None] * 5)
