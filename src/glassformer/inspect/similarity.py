"""How alike vectors are, which are nearest, and what is to c as b is to a.

    cos(u, v) = u · v / (‖u‖ ‖v‖)        king - man + woman ≈ queen

A zero vector is like nothing: 0.

Source: Note A (similar words have similar vectors), Note E (directions); Mikolov et al., Linguistic
Regularities in Continuous Space Word Representations, 2013.
"""

from collections.abc import Collection

import numpy as np

QUERIES, VECTORS = 512, 8192
"""Similarities are computed in blocks of so many queries and vectors, so that memory does not grow
with either."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., D] at length 1, in at least float32 precision; a zero vector stays zero."""
    x = vectors.astype(np.result_type(vectors.dtype, np.float32))
    largest = np.abs(x).max(-1, keepdims=True, initial=0)
    x = x / np.where(
        largest > 0, largest, 1
    )  # squares of large or small numbers would leave the range
    length = np.sqrt(np.square(x).sum(-1, keepdims=True))
    return x / np.where(length > 0, length, 1)


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The similarity of every vector of `one` [N, D] to every one of `other` [M, D], in [-1, 1],
    [N, M]."""
    return np.clip(unit(one) @ unit(other).T, -1, 1)


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each query [Q, D] the `k` most similar of vectors [N, D], best first: indices and
    similarities [Q, K].

    Of equal ones the first comes first; where there are fewer than k vectors, K = N.
    """
    k = max(0, min(k, len(vectors)))
    indices = np.zeros((len(queries), k), np.int64)
    found = np.full(
        (len(queries), k), -np.inf, np.result_type(queries.dtype, vectors.dtype, np.float32)
    )
    for low in range(0, len(vectors) if k else 0, VECTORS):
        block = unit(vectors[low : low + VECTORS])
        for begin in range(0, len(queries), QUERIES):
            part = slice(begin, begin + QUERIES)
            scores = np.clip(unit(queries[part]) @ block.T, -1, 1)
            numbers = np.broadcast_to(np.arange(low, low + len(block)), scores.shape)
            indices[part], found[part] = _best(
                np.hstack([indices[part], numbers]), np.hstack([found[part], scores]), k
            )
    return indices, found


def _best(indices: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row, highest first; of equal ones those further left."""
    least = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k]
    chosen = np.empty((len(scores), k), np.int64)
    for row, bound in enumerate(least):
        enough = np.flatnonzero(scores[row] >= bound)
        chosen[row] = enough[np.argsort(-scores[row, enough], kind="stable")[:k]]
    return np.take_along_axis(indices, chosen, 1), np.take_along_axis(scores, chosen, 1)


def analogy(
    vectors: np.ndarray,
    plus: np.ndarray,
    minus: np.ndarray,
    exclude: Collection[int] = (),
    k: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` of vectors [N, D] nearest to Σ plus - Σ minus, without those of `exclude`: indices,
    similarities [K].

    `plus` [P, D] and `minus` [M, D] are brought to length 1 first, so that a frequent word's long
    vector does not decide alone (3CosAdd of Levy and Goldberg 2014).
    """
    goal = unit(plus).sum(0) - unit(minus).sum(0)
    indices, similarities = nearest(goal[None], vectors, k + len(set(exclude)))
    kept = ~np.isin(indices[0], list(exclude))
    return indices[0][kept][:k], similarities[0][kept][:k]
