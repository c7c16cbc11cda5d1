"""Losses and scores against float64 NumPy and against another implementation."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.core.batch import IGNORE
from glassformer.layers.losses import EXCLUSIVE, INDEPENDENT, binary_cross_entropy, cross_entropy
from glassformer.metrics.writing import LanguageModelScore


def numpy_loss(
    logits: np.ndarray, targets: np.ndarray, smoothing: float = 0.0
) -> tuple[float, int]:
    """-Σ_i Σ_j y_ij log f_ij by the definition, with y a smoothed one-hot row."""
    total, count, v = 0.0, 0, logits.shape[-1]
    for row, target in zip(logits.reshape(-1, v), targets.ravel(), strict=True):
        if target == IGNORE:
            continue
        log_f = row - row.max() - np.log(np.exp(row - row.max()).sum())
        y = np.full(v, smoothing / v)
        y[target] += 1 - smoothing
        total, count = total - float(y @ log_f), count + 1
    return total, count


def example(seed: int, rows: int = 5, v: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(2, rows, v, dtype=torch.float64, generator=generator)
    targets = torch.randint(0, v, (2, rows), generator=generator)
    return logits, targets.where(torch.rand(2, rows, generator=generator) < 0.7, IGNORE)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5]))
def test_cross_entropy_is_its_definition(seed, smoothing):
    logits, targets = example(seed)
    total, count = numpy_loss(logits.numpy(), targets.numpy(), smoothing)
    loss = cross_entropy(logits, targets, smoothing)
    assert loss.count == count
    assert loss.total.item() == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("independent", [False, True], ids=["softmax", "sigmoids"])
def test_the_divergence_is_the_mean_of_both_of_kullback_and_leibler(independent):
    logits, targets = example(2)
    again = logits + torch.randn_like(logits)
    if independent:
        targets = (targets[..., None] + torch.zeros(7)).long()
    outcomes = INDEPENDENT if independent else EXCLUSIVE
    found = outcomes.divergence(logits, again, targets)
    assert outcomes.divergence(logits, logits, targets) == 0
    total = 0.0
    for u, v, target in zip(
        *(x.flatten(0, 1).numpy() for x in (logits, again, targets)), strict=True
    ):
        if np.all(target == IGNORE):
            continue
        if independent:
            p, q = ([x, 1 - x] for x in (1 / (1 + np.exp(-u)), 1 / (1 + np.exp(-v))))
        else:
            p, q = ([np.exp(x) / np.exp(x).sum()] for x in (u, v))
        for a, b in zip(p, q, strict=True):
            total += (np.sum(a * np.log(a / b)) + np.sum(b * np.log(b / a))) / 2
    assert found.item() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_mean_equals_torchs_own(smoothing):
    logits, targets = example(1)
    loss = cross_entropy(logits, targets, smoothing)
    own = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, label_smoothing=smoothing
    )
    torch.testing.assert_close(loss.total / loss.count, own)


@given(st.integers(0, 1000), st.integers(1, 4))
def test_parts_of_a_batch_add_up(seed, cut):
    logits, targets = example(seed)
    whole = cross_entropy(logits, targets)
    parts = [cross_entropy(logits[:, p], targets[:, p]) for p in (slice(cut), slice(cut, None))]
    assert sum(part.count for part in parts) == whole.count
    assert sum(part.total.item() for part in parts) == pytest.approx(whole.total.item(), abs=1e-12)


def test_nothing_but_ignored_targets_is_a_loss_of_zero_with_zero_gradient():
    logits = torch.randn(1, 3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.full((1, 3), IGNORE))
    loss.total.backward()
    assert (loss.total.item(), loss.count) == (0.0, 0)
    assert logits.grad is not None
    assert logits.grad.abs().sum() == 0


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5]))
def test_weights_multiply_the_terms_of_their_classes(seed, smoothing):
    """-Σ_i Σ_j w_j y_ij log f_ij, by loops; the count stays that of the targets."""
    logits, targets = example(seed)
    weights = torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    total = 0.0
    for row, target in zip(logits.view(-1, 7), targets.flatten().tolist(), strict=True):
        log_f = row.log_softmax(-1)
        for j in range(7):
            y = smoothing / 7 + (1 - smoothing) * (j == target)
            total -= 0.0 if target == IGNORE else float(weights[j] * y * log_f[j])
    loss = cross_entropy(logits, targets, smoothing, weights)
    assert loss.total.item() == pytest.approx(total, abs=1e-10)
    assert loss.count == int((targets != IGNORE).sum())
    assert cross_entropy(
        logits, targets, smoothing, torch.ones(7, dtype=torch.float64)
    ).total.item() == pytest.approx(
        cross_entropy(logits, targets, smoothing).total.item(), abs=1e-12
    )


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.9]), st.booleans())
def test_binary_cross_entropy_is_its_definition(seed, smoothing, weighted):
    """-Σ w_c (y log σ(u) + (1 - y) log(1 - σ(u))), by loops, with y moved to ε/2 and 1 - ε/2."""
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(5, 3, dtype=torch.float64, generator=generator)
    targets = torch.randint(0, 2, (5, 3), generator=generator)
    targets = targets.where(torch.rand(5, 3, generator=generator) < 0.8, IGNORE)
    weights = torch.rand(3, dtype=torch.float64, generator=generator) if weighted else None
    total = 0.0
    for i, row in enumerate(targets.tolist()):
        for c, target in enumerate(row):
            p = 1 / (1 + math.exp(-float(logits[i, c])))
            y = {0: smoothing / 2, 1: 1 - smoothing / 2}.get(target)
            w = 1.0 if weights is None else float(weights[c])
            total -= 0.0 if y is None else w * (y * math.log(p) + (1 - y) * math.log(1 - p))
    loss = binary_cross_entropy(logits, targets, smoothing, weights)
    assert loss.total.item() == pytest.approx(total, abs=1e-10)
    assert loss.count == int((targets != IGNORE).sum())


def test_ignored_classes_have_no_gradient_and_large_logits_no_infinite_loss():
    logits = torch.tensor([[200.0, -200.0, 3.0]], requires_grad=True)
    loss = binary_cross_entropy(logits, torch.tensor([[0, 1, IGNORE]]))
    loss.total.backward()
    assert loss.total.item() == 400.0
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_classes_are_summed_in_float32(dtype):
    logits = torch.randn(400, 5).to(dtype)
    loss = binary_cross_entropy(logits, torch.randint(0, 2, (400, 5)))
    assert loss.total.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype):
    """Equal to the float64 loss of the very same (rounded) logits, to float32's 7 digits."""
    logits, targets = example(3, rows=400, v=50)
    rounded = logits.to(dtype)
    loss = cross_entropy(rounded, targets)
    assert loss.total.dtype == torch.float32
    assert loss.total.item() == pytest.approx(
        numpy_loss(rounded.double().numpy(), targets.numpy())[0], rel=1e-6
    )


def test_a_score_counts_batches_of_any_size():
    score = LanguageModelScore()
    for nats, tokens, correct in ((6.0, 3, 2), (2.0, 1, 1), (0.0, 0, 0)):
        score.add(nats, tokens, correct)
    result = score.result(n_bytes=8)
    assert result == {
        "loss": 2.0,
        "perplexity": math.exp(2.0),
        "accuracy": 0.75,
        "tokens": 4,
        "bits_per_byte": 8 / math.log(2) / 8,
    }
    assert "bits_per_byte" not in score.result()


def test_a_loss_too_large_for_a_perplexity_gives_a_finite_one():
    score = LanguageModelScore()
    score.add(1e6, 1, 0)
    json.dumps(score.result(), allow_nan=False)


def test_a_score_of_nothing_is_not_a_number():
    assert math.isnan(LanguageModelScore().result()["loss"])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_shares_of_classes_are_the_mean_over_classes(smoothing):
    """The loss of a mixture is the mixture of the losses, and a share of 1 is a class."""
    logits, one, two = (
        torch.randn(5, 4, dtype=torch.float64),
        torch.randint(4, (5,)),
        torch.randint(4, (5,)),
    )
    share, hot = torch.rand(5, 1, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    mixed = cross_entropy(logits, share * hot[one] + (1 - share) * hot[two], smoothing)
    expected = sum(
        float(share[i]) * cross_entropy(logits[i : i + 1], one[i : i + 1], smoothing).total
        + float(1 - share[i]) * cross_entropy(logits[i : i + 1], two[i : i + 1], smoothing).total
        for i in range(5)
    )
    torch.testing.assert_close(mixed.total, expected)
    assert mixed.count == 5
    whole, classes = (
        cross_entropy(logits, hot[one], smoothing),
        cross_entropy(logits, one, smoothing),
    )
    torch.testing.assert_close(whole.total, classes.total)
