"""One step of the model on the new elements of many sequences: `advance(rows) -> scores`.

pieces ──ids, patches──> one row of elements ──compiled step, or model──> scores where wanted
       ──block tables──> RaggedCache ──┘
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch, Part
from glassformer.layers.cpu_kernels import MIN_ROWS
from glassformer.layers.ragged import Pool, RaggedCache
from glassformer.losses import at_least_float32
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer
from glassformer.runtime.sampling import likeliest
from glassformer.runtime.sequence import Piece
from glassformer.runtime.trace import Told

Change = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
HEAD_ROWS = 128
"""Rows whose logits are computed together: few enough for these to stay in the cache."""


@dataclass(frozen=True)
class Offers:
    """The likeliest next tokens of some rows, [R, K], with log p in nats; log p of all tokens if
    choices are recorded."""

    log_probs: np.ndarray
    ids: np.ndarray
    whole: Float[Tensor, "_ V"]


@dataclass(frozen=True)
class Scores:
    """Scores of the next token after the wanted elements of a step.

    `head` gives the logits of elements; `likely`: the likeliest tokens of all, if only these were
    computed; `hidden`: the stream after the last block, if torch computed it. `top`: alternatives
    that are recorded of each choice; `told`: with what is recorded of attention.
    """

    head: Callable[[slice], Float[Tensor, "N V"]]
    likely: Offers | None = None
    hidden: Float[Tensor, "N D"] | None = None
    top: int = 0
    told: Told = ()

    def offers(self, rows: int, k: int, change: Change | None = None) -> Offers:
        """Return the k likeliest tokens of each of the first rows after a `change` of log p."""
        if self.likely is not None:
            return self.likely
        step = rows if change is not None or self.top else HEAD_ROWS
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for begin in range(0, rows, step):
            left = self.head(slice(begin, min(begin + step, rows))).log_softmax(-1)
            left = left if change is None else change(left)
            ids = likeliest(left, k)
            parts.append((left.gather(-1, ids).cpu(), ids.cpu(), left if self.top else left[:0]))
        log_probs, ids, whole = (torch.cat(column) for column in zip(*parts, strict=True))
        return Offers(log_probs.numpy(), ids.numpy(), whole)


def advance(
    model: Transformer,
    program: CompiledStep | None,
    pool: Pool,
    pieces: Sequence[Piece],
    k: int | None = None,
    invariant: bool = False,
) -> tuple[RaggedCache, Scores]:
    """Compute new elements, whose keys and values are then in the pool; return the cache that they
    read, and their scores.

    `program`: the compiled step, or None for the model's own pass. `k`: only the k likeliest tokens
    are wanted, and each new element is the only one of its sequence. `invariant`: no bit of a
    sequence depends on others.
    """
    wide = invariant and pool.numbers.device.type == "cpu" and program is None
    least = MIN_ROWS if wide else 1
    batch, cache, at = _row(pool, pieces, least, merges=not invariant)
    if program is not None and k is not None:
        likely = Offers(*program.likeliest(batch, cache, k), torch.empty(0, 0))
        return cache, Scores(lambda _: likely.whole, likely)
    if program is not None:
        return cache, Scores(program.logits(batch, cache, at).__getitem__)
    hidden = model.features(batch, cache=cache).hidden[0]
    if len(at) < len(hidden):
        hidden = hidden[torch.tensor(at, dtype=torch.long, device=hidden.device)]
    return cache, Scores(partial(_logits, model, hidden, least), hidden=hidden)


def _row(
    pool: Pool, pieces: Sequence[Piece], least: int, merges: bool
) -> tuple[Batch, RaggedCache, list[int]]:
    """Return the elements of all pieces in one row of at least `least`, the cache that they read,
    and the places whose scores are wanted."""
    ids: list[int] = []
    parts: list[Part] = []
    at: list[int] = []
    device = pool.numbers.device
    for one in pieces:
        parts += (replace(part, at=part.at + len(ids)).to(device) for part in one.parts)
        at += (len(ids) + i for i in one.asked)
        ids += one.ids
    missing = max(0, least - len(ids))
    texts = [text for one in pieces for text in one.texts]
    sources = [source for one in pieces for source in one.sources]
    cache = RaggedCache(pool, texts, sources, padding=missing, merges=merges)
    elements = torch.tensor([ids + [0] * missing], device=device)
    return Batch(elements, cache.new_positions, parts=tuple(parts)), cache, at


def _logits(
    model: Transformer, hidden: Float[Tensor, "M D"], least: int, rows: slice
) -> Float[Tensor, "N V"]:
    """Return the logits of some rows, computed with at least `least`."""
    own = hidden[rows]
    if not len(own):
        return hidden.new_empty(0, model.config.vocab_size)
    if len(own) < least:
        own = torch.cat([own, own[-1:].expand(least - len(own), -1)])
    return at_least_float32(model.head(own[None])[0])[: len(hidden[rows])]
