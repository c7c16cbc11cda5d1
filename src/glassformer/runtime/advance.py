"""One step of the model on the new elements of many sequences: `advance(rows) -> scores`.

pieces ──ids, patches──> one row of elements ──compiled step, or model──> scores where wanted
       ──block tables──> RaggedCache ──┘
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Batch, Part
from glassformer.layers.attention.ragged import Pool, RaggedCache
from glassformer.layers.attention.sequences import merge
from glassformer.layers.cpu_kernels import MIN_ROWS
from glassformer.layers.losses import at_least_float32
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer
from glassformer.runtime.selectors.sampling import likeliest
from glassformer.runtime.sequence import Piece
from glassformer.runtime.trace import AttentionRows, Watcher

Change = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
Offers = tuple[np.ndarray, np.ndarray]
HEAD_ROWS = 128
"""Rows whose logits are computed together: few enough for these to stay in the cache."""


@dataclass(frozen=True)
class Scores:
    """Scores of the next token after the wanted elements of a step.

    `head` gives the logits of elements; `likely`: what `offers` returns, if only that was computed;
    `hidden`: the stream after the last block, if torch computed it. `top`: alternatives that are
    recorded of each choice; `rows` gives what is recorded of the attention of a wanted element,
    which begins at this number of its text.
    """

    head: Callable[[slice], Float[Tensor, "N V"]]
    likely: Offers | None = None
    hidden: Float[Tensor, "N D"] | None = None
    top: int = 0
    rows: Callable[[int, int], AttentionRows | None] = lambda at, first: None

    def offers(self, rows: int, k: int, change: Change | None = None) -> Offers:
        """Return log p in nats of the k likeliest tokens of each of the first rows after a `change`
        of log p, and these tokens, [R, K]."""
        if self.likely is not None:
            return self.likely
        found = list[Offers]()
        for begin in range(0, rows, step := HEAD_ROWS if change is None else rows):
            left = self.head(slice(begin, begin + step)).log_softmax(-1)
            left = left if change is None else change(left)
            ids = likeliest(left, k)
            found.append((left.gather(-1, ids).cpu().numpy(), ids.cpu().numpy()))
        log_probs, tokens = map(np.concatenate, zip(*found, strict=True))
        return log_probs, tokens


def advance(
    model: Transformer,
    program: CompiledStep | None,
    pool: Pool,
    pieces: Sequence[Piece],
    watcher: Watcher,
    k: int | None = None,
    invariant: bool = False,
) -> Scores:
    """Compute new elements, whose keys and values are then in the pool; return their scores.

    `program`: the compiled step, or None for the model's own pass; only that can be watched. `k`:
    only the k likeliest tokens are wanted, and each new element is the only one of its sequence.
    `invariant`: no bit of a sequence depends on others.
    """
    wide = invariant and pool.numbers.device.type == "cpu" and program is None
    least, merges = MIN_ROWS if wide else 1, program is None and not invariant
    batch, cache, at = _row(pool, pieces, least, merges)
    if program is not None and k is not None:
        return Scores(lambda _: torch.empty(0, 0), program.likeliest(batch, cache, k))
    if program is not None:
        return Scores(program.logits(batch, cache, at).__getitem__)
    with watcher.kept():
        hidden = model.features(batch, cache=cache).hidden[0]
    if len(at) < len(hidden):
        hidden = hidden[torch.from_numpy(at).to(hidden.device)]
    head = partial(_logits, model, hidden, least)
    rows = lambda wanted, first: watcher.rows(cache, int(at[wanted]), first)
    return Scores(head, hidden=hidden, top=watcher.top, rows=rows)


def _row(
    pool: Pool, pieces: Sequence[Piece], least: int, merges: bool
) -> tuple[Batch, RaggedCache, Int[np.ndarray, "M"]]:
    """Return the elements of all pieces in one row of at least `least`, the cache that they read,
    and the places whose scores are wanted."""
    parts, at, size, device = list[Part](), list[np.ndarray](), 0, pool.numbers.device
    for one in pieces:
        parts += (replace(part, at=part.at + size).to(device) for part in one.parts)
        at.append(one.asked + size)
        size += len(one.ids)
    missing = max(0, least - size)
    texts = [text for one in pieces for text in one.texts]
    sources = [source for one in pieces for source in one.sources]
    if merges:
        texts, sources = merge(texts), merge(sources)
    cache = RaggedCache(pool, texts, sources, missing)
    ids = np.concatenate([*(one.ids for one in pieces), np.zeros(missing, np.int64)])
    elements = torch.from_numpy(ids)[None].to(device)
    return Batch(elements, cache.new_positions, parts=tuple(parts)), cache, np.concatenate(at)


def _logits(
    model: Transformer, hidden: Float[Tensor, "M D"], least: int, rows: slice
) -> Float[Tensor, "N V"]:
    """Return the logits of some rows, computed with at least `least`."""
    own = hidden[rows]
    if len(own) < least:
        own = torch.cat([own, own[-1:].expand(least - len(own), -1)])
    return at_least_float32(model.head(own[None])[0])[: len(hidden[rows])]
