"""From the token store to batches: windows of text whose targets are the next tokens."""

from collections.abc import Iterator

import numpy as np
import torch

from glassformer.batch import IGNORE, Batch, Positions
from glassformer.data.order import sample_indices, windows
from glassformer.data.token_store import Split
from glassformer.errors import DataError, counted


def training_batch(
    split: Split,
    step: int,
    batch_size: int,
    length: int,
    seed: int,
    micro: tuple[int, int] = (0, 1),
) -> Batch:
    """The batch of a step, a function of the arguments alone: elements and targets int64 [B,
    length].

    target[b, t] is the token after element[b, t]; if documents are kept apart, IGNORE at a
    document's last token. `micro` (i, m) gives the i-th of m contiguous slices of the batch, for
    accumulation and several processes. DataError: fewer than length + 1 tokens.
    """
    n = len(split.tokens)
    if n < length + 1:
        raise DataError(
            f"the {split.described} has {counted(n, 'token')}, fewer than model.max_length + 1 "
            f"= {length + 1}; "
            f"use a longer text or set model.max_length to at most {max(n - 1, 1)}"
        )
    part, of = micro
    rows = sample_indices(step, batch_size)[part * batch_size // of : (part + 1) * batch_size // of]
    return _batch(split, windows(n, length, seed, rows), length)


def evaluation_batches(
    split: Split, batch_size: int, length: int, limit: int | None = None
) -> Iterator[Batch]:
    """The whole split in order: every token but the first is predicted exactly once.

    Windows do not overlap; the last is padded with IGNORE. A split shorter than length + 1 is one
    shorter window. If documents are kept apart, the first token of each is not predicted. `limit`:
    only so many batches, spread evenly. DataError: fewer than 2 tokens.
    """
    n = len(split.tokens)
    if n < 2:
        raise DataError(
            f"the {split.described} has {counted(n, 'token')}, too few to predict one from "
            f"another; use a longer text"
        )
    length = min(length, n - 1)
    starts = np.arange(0, n - 1, length)
    firsts = np.arange(0, len(starts), batch_size)
    if limit is not None and limit < len(firsts):
        firsts = firsts[np.linspace(0, len(firsts) - 1, limit).round().astype(int)]
    for first in firsts:
        yield _batch(split, starts[first : first + batch_size], length)


def _batch(split: Split, starts: np.ndarray, length: int) -> Batch:
    at = starts[:, None] + np.arange(length + 1)
    missing = at >= len(split.tokens)
    at = np.minimum(at, len(split.tokens) - 1)
    tokens = split.tokens[at].astype(np.int64)
    targets = np.where(missing[:, 1:], IGNORE, tokens[:, 1:])
    positions = None
    if split.documents == "separate":
        document = np.searchsorted(split.document_ends, at, side="right")
        targets[document[:, 1:] != document[:, :-1]] = IGNORE
        positions = Positions.packed(torch.from_numpy(document[:, :-1].copy()))
    return Batch(torch.from_numpy(tokens[:, :-1].copy()), positions, torch.from_numpy(targets))
