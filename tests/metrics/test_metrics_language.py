"""Scores of tokens: sums over batches, whatever the batches are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.metrics.writing import LanguageModelScore


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 9)), max_size=6))
def test_scores_of_tokens_are_sums_over_batches(batches):
    score = LanguageModelScore()
    for nats, tokens in batches:
        score.add(nats, tokens, tokens // 2)
    result, tokens = score.result(10), sum(n for _, n in batches)
    assert result["tokens"] == tokens
    if not tokens:
        assert math.isnan(result["loss"])
        assert math.isnan(result["accuracy"])
        return
    assert result["loss"] == pytest.approx(sum(nats for nats, _ in batches) / tokens)
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    assert result["accuracy"] == sum(n // 2 for _, n in batches) / tokens
    assert result["bits_per_byte"] == pytest.approx(
        sum(nats for nats, _ in batches) / math.log(2) / 10
    )
    assert "bits_per_byte" not in score.result()
