"""Cosine similarity of vectors, and the nearest of many.

    cos(u, v) = u · v / (‖u‖ ‖v‖)

The similarity of a zero vector to any is 0.

Source: Note A (similar words have similar vectors), Note E (directions); Mikolov et al., Linguistic
Regularities in Continuous Space Word Representations, 2013.
"""

import numpy as np

QUERIES, VECTORS = 512, 8192
"""Similarities are computed in blocks of so many queries and vectors, so that memory does not grow
with either."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., D] at length 1, in at least float32 precision; a zero vector stays zero."""
    x = vectors.astype(np.result_type(vectors.dtype, np.float32))
    # Squares of large or small numbers would leave the range.
    x = _divided(x, np.abs(x).max(-1, keepdims=True, initial=0))
    return _divided(x, np.sqrt(np.square(x).sum(-1, keepdims=True)))


def _divided(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    return x / np.where(size > 0, size, 1)


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
    precision = np.result_type(queries.dtype, vectors.dtype, np.float32)
    found = np.full((len(queries), k), -np.inf, precision)
    indices = np.zeros(found.shape, np.int64)
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
