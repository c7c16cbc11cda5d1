"""Cosine similarity of vectors, and the nearest of many.

    cos(u, v) = u · v / (‖u‖ ‖v‖)

The similarity of a zero vector to any is 0.

Source: Note A (similar words have similar vectors), Note E (directions); Mikolov et al., Linguistic
Regularities in Continuous Space Word Representations, 2013.
"""

import numpy as np
import torch

NUMBERS = 1 << 23
"""Similarities in memory at the same time."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., D] at length 1; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The similarity of every vector of `one` [N, D] to every one of `other` [M, D], in [-1, 1],
    [N, M]."""
    return np.clip(unit(one) @ unit(other).T, -1, 1)


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each query [Q, D] the `k` most similar of vectors [N, D], best first: indices and
    similarities [Q, K].

    Where there are fewer than k vectors, K = N.
    """
    known, k = torch.from_numpy(unit(vectors)).T, min(k, len(vectors))
    portions = torch.from_numpy(unit(queries)).to(known).split(NUMBERS // (len(vectors) + 1) + 1)
    found = ((portion @ known).clamp(-1, 1).topk(k) for portion in portions)
    similarities, indices = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
    return indices, similarities
