"""Scores of simple baselines, beside which a model's scores are shown."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

SMOOTHING = 8
"""Pseudo-counts of the unigram distribution in that of bigrams."""


def nearest_neighbour(
    train: Tensor, labels: Sequence[str], test: Tensor, gold: Sequence[str]
) -> float:
    """Accuracy of the label of the nearest row of `train` by Euclidean distance, for rows of
    numbers."""
    nearest = torch.cdist(test, train).argmin(1).tolist()
    return sum(labels[i] == own for i, own in zip(nearest, gold, strict=True)) / len(gold)


def bits_per_byte(
    train: np.ndarray, test: np.ndarray, n_bytes: int, vocab_size: int
) -> dict[str, float]:
    """Bits per byte of three guesses at each token of `test` but the first.

    Uniform: 1 / V. Unigram: p(b) = (N(b) + 1) / (N + V). Bigram: p(b | a) = (N(ab) + K p(b)) /
    (N(a) + K), K = 8 (Dirichlet smoothing), N counts of the training tokens.
    """
    train, test = np.asarray(train, np.int64), np.asarray(test, np.int64)
    counts = np.bincount(train, minlength=vocab_size)
    unigram = (counts + 1.0) / (counts.sum() + vocab_size)
    pairs, times = np.unique(train[:-1] * vocab_size + train[1:], return_counts=True)
    asked = test[:-1] * vocab_size + test[1:]
    at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[at] == asked, times[at], 0)
    bigram = (seen + SMOOTHING * unigram[test[1:]]) / (counts[test[:-1]] + SMOOTHING)
    return {
        "a uniform guess": len(asked) * math.log2(vocab_size) / n_bytes,
        "a unigram guess": float(-np.log2(unigram[test[1:]]).sum()) / n_bytes,
        "a bigram guess": float(-np.log2(bigram).sum()) / n_bytes,
    }
