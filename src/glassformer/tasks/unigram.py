"""What simple guesses score on the same tokens: a result means little without them."""

import math

import numpy as np

from glassformer.data.tokens import TokenSplit


def baselines(
    train: TokenSplit, validation: TokenSplit, vocab_size: int
) -> list[tuple[str, float]]:
    """Bits per byte of two guesses: every token equally likely, and every token as often as in
    training (plus one)."""
    counts = np.bincount(np.asarray(train.tokens), minlength=vocab_size).astype(np.float64) + 1
    bits = -np.log2(counts / counts.sum())[np.asarray(validation.tokens[1:])]
    n = len(validation.tokens) - 1
    return [
        ("a uniform guess", n * math.log2(vocab_size) / validation.n_bytes),
        ("a unigram guess", float(bits.sum()) / validation.n_bytes),
    ]
