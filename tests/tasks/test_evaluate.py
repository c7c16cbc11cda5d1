"""Scores of a whole split: streaming equals all at once, and simple guesses are what NumPy says."""

import math

import numpy as np
import pytest
import torch

from glassformer.core.batch import IGNORE
from glassformer.data.collate import evaluation_windows
from glassformer.data.tokens import TokenSplit
from glassformer.demos.lm import bits_per_byte
from glassformer.models import ModelConfig, Transformer
from glassformer.tasks.evaluate import evaluate


def split(n: int, seed: int = 0, vocabulary: int = 11) -> TokenSplit:
    tokens = np.random.default_rng(seed).integers(0, vocabulary, n).astype(np.uint16)
    return TokenSplit("validation", tokens, 3 * n, np.array([n]))


def model(**changes) -> Transformer:
    sizes = {
        "vocab_size": 11,
        "d_model": 8,
        "n_layers": 1,
        "n_heads": 2,
        "max_length": 8,
        "dropout": 0.5,
    }
    return Transformer(ModelConfig.parse(sizes | changes), seed=1).double()


@pytest.mark.parametrize("n", [2, 8, 9, 50, 65])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_batch_by_batch_is_all_at_once(n, size):
    made, part = model(), split(n)
    result = evaluate(made, evaluation_windows(part, size, 8)).result(part.n_bytes)
    made.eval()
    total, count, seen = 0.0, 0, []
    for batch in evaluation_windows(part, 1000, 8):
        logits = made(batch).logits.log_softmax(-1)
        for row, targets in zip(logits, batch.targets, strict=True):
            for i, target in enumerate(targets.tolist()):
                if target != IGNORE:
                    total, count = total - row[i, target].item(), count + 1
                    seen.append(target)
    assert seen == part.tokens[1:].tolist(), "every token but the first is predicted once"
    assert result["tokens"] == count == n - 1
    assert result["loss"] == pytest.approx(total / count, rel=1e-12)
    assert result["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-12)
    assert result["bits_per_byte"] == pytest.approx(total / math.log(2) / (3 * n), rel=1e-12)


def test_the_model_is_left_in_its_mode_and_nothing_is_dropped_out():
    made, part = model().train(), split(30)
    losses = {evaluate(made, evaluation_windows(part, 4, 8)).nats for _ in range(3)}
    assert len(losses) == 1
    assert made.training
    assert all(p.grad is None for p in made.parameters())


def test_a_model_that_knows_nothing_scores_as_the_uniform_guess():
    made, part = model(), split(60)
    with torch.no_grad():
        for p in made.parameters():
            p.zero_()
    bits = evaluate(made, evaluation_windows(part, 4, 8)).result(part.n_bytes)["bits_per_byte"]
    uniform = bits_per_byte(part.tokens, part.tokens, part.n_bytes, 11)["a uniform guess"]
    assert bits == pytest.approx(uniform, rel=1e-12)
