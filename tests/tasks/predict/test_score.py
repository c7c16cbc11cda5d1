"""Scoring: the model's own log-softmax, each token once, long texts in windows."""

import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.tasks.predictors.likelihood import score

CONTEXT = 32


def own(model, ids: list[int]) -> list[float]:
    with torch.no_grad():
        table = model(torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
    return [float(table[i, token]) for i, token in enumerate(ids[1:])]


@pytest.mark.parametrize("position", tiny.usual(*tiny.POSITIONS))
@pytest.mark.parametrize("n", [2, 3, 32, 33])
def test_a_text_that_fits_has_the_log_softmax_of_one_pass(position, n):
    """n - 1 inputs: a text may be one longer than the context."""
    model, ids = tiny.model(position=position), tiny.tokens(1, n)[0].tolist()
    assert score(model, ids) == pytest.approx(own(model, ids), abs=1e-10)


@pytest.mark.parametrize("n", [34, 48, 49, 50, 65, 100])
def test_a_longer_text_is_scored_in_windows_that_overlap_by_half(n):
    model, ids = tiny.model(), tiny.tokens(1, n)[0].tolist()
    expected = own(model, ids[: CONTEXT + 1])
    while len(expected) < n - 1:
        begin = len(expected) + 1 - CONTEXT // 2
        window = own(model, ids[begin : begin + CONTEXT + 1])
        expected += window[CONTEXT // 2 - 1 :]
    assert score(model, ids) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("context", [1, 2, 3])
@pytest.mark.parametrize("n", range(2, 9))
def test_each_token_is_counted_once_in_the_smallest_contexts(context, n):
    assert len(score(tiny.model(max_length=context), tiny.tokens(1, n)[0].tolist())) == n - 1


@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 40])
def test_a_prefix_is_read_and_not_scored(n):
    model, ids = tiny.model(), tiny.tokens(1, n + 20)[0].tolist()
    assert len(score(model, ids[n:], prefix=ids[:n])) == 20
    if n <= CONTEXT:  # the first window is then the same
        assert score(model, ids[n:], prefix=ids[:n]) == pytest.approx(
            score(model, ids)[n - 1 :], abs=1e-10
        )


@pytest.mark.parametrize("n", [1, 4, 32])
def test_a_target_has_the_log_softmax_of_one_pass_given_its_source(n):
    model = tiny.model(architecture="encoder_decoder", position="buckets")
    ids, source = tiny.tokens(1, n)[0].tolist(), Batch(tiny.tokens(1, 6, seed=1))
    with torch.no_grad():
        table = (
            model(Batch(torch.tensor([[1, *ids[:-1]]]), source=source)).logits[0].log_softmax(-1)
        )
    expected = [float(table[i, token]) for i, token in enumerate(ids)]
    assert score(model, ids, source, [1]) == pytest.approx(expected, abs=1e-10)


def test_what_cannot_be_scored_is_said():
    with pytest.raises(
        ConfigError, match=r"text of 0 token\(s\) cannot be scored; at least 1 are needed"
    ):
        score(tiny.model(), [], prefix=[1])
    with pytest.raises(ConfigError, match="An encoder-decoder reads a source"):
        score(tiny.model(architecture="encoder_decoder"), [1, 2])
    with pytest.raises(ConfigError, match="architecture='decoder' reads none"):
        score(tiny.model(), [1, 2], Batch(torch.tensor([[1]])))
    with pytest.raises(ConfigError, match=r"text of 1 token\(s\) cannot be scored"):
        score(tiny.model(), [1])
    with pytest.raises(
        ConfigError, match="The text holds token id 13; this model's ids run from 0 to 12"
    ):
        score(tiny.model(), [1, 13])
    with pytest.raises(ConfigError, match="Only a decoder"):
        score(tiny.model(architecture="encoder", head="masked_lm"), [1, 2])
