"""N blocks on one residual stream, with what they share: mask, score bias, rotary angles, final
norm, cache."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import AttentionContext, RaggedContext
from glassformer.layers.block import STREAM, Block
from glassformer.layers.cache import Cache, KeysValues, Layers
from glassformer.layers.joined import JoinedContext, runs
from glassformer.layers.mask import Allowed, Mask, SameDocument, Valid, allowed
from glassformer.layers.norm import Norm
from glassformer.layers.position import Rotation, ScoreBias
from glassformer.layers.ragged import RaggedCache, Sequences
from glassformer.layers.selected_positions import SelectedPositions
from glassformer.layers.sliced import SlicedContext, is_long, runs_of
from glassformer.layers.tap import tap, watching

SOURCE_MASK = SameDocument() & Valid()
"""Mask of cross-attention: every real element of the own source, not causal (Notes C and E)."""


class Stack(nn.Module):
    """Blocks in sequence, then the final norm if there is one (pre-norm models).

    `mask` is that of self-attention. `bias_factor` multiplies the score bias: 1 adds B to the
    scaled scores, the score scale gives Note C's (QKᵀ + B)/√d_k. `rotation` gives the rotary angles
    of positions; None: no rotation.
    """

    def __init__(
        self,
        blocks: list[Block],
        mask: Mask,
        *,
        final_norm: Norm | None,
        bias: ScoreBias | None = None,
        bias_factor: float = 1.0,
        rotation: Callable[..., Rotation] | None = None,
    ):
        super().__init__()
        self.bias = bias
        self.blocks = nn.ModuleList(blocks)
        self.norm = final_norm
        self.mask, self.bias_factor, self.rotation = mask, bias_factor, rotation

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        positions: Positions,
        cache: Cache | None = None,
        source: Float[Tensor, "B S D"] | None = None,
        source_positions: Positions | None = None,
        selected: SelectedPositions | None = None,
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "N D"]:
        """The stream after the last block, at all positions or at the `selected` ones.

        A given `cache` already holds `positions` (see `Cache.advanced`).
        """
        exact = torch.promote_types(x.dtype, torch.float32)
        context, crossed = self._shared(x, positions, cache, source_positions, exact)
        for layer, block in enumerate(self.blocks):
            if selected is not None and layer == len(self.blocks) - 1:
                read = selected.positions(positions)
                if isinstance(context, JoinedContext):
                    context = replace(context, selected=selected)
                else:
                    keys = _keys(positions, cache)
                    context = self.context(read, keys, exact, positions, selected)
                crossed = source_positions and source_context(read, source_positions)
            update = None if cache is None else partial(_store, cache, layer)
            source_update = None if cache is None else partial(cache.once, layer)
            x = block(x, context, update, source, crossed, source_update)
        x = tap(self, "out", x if self.norm is None else self.norm(x), STREAM)
        return x if selected is None else selected.flat(x)

    def _shared(
        self,
        x: Float[Tensor, "B T D"],
        positions: Positions,
        cache: Cache | None,
        source_positions: Positions | None,
        dtype: torch.dtype,
    ) -> tuple[AttentionContext, AttentionContext | None]:
        """The contexts of self- and of cross-attention that all blocks share."""
        if isinstance(cache, RaggedCache):
            return self.ragged_contexts(positions, cache, dtype)
        crossed = source_positions and source_context(positions, source_positions)
        if cache is None and positions.lengths is not None and not self.watched():
            return self.joined(positions.lengths, positions, dtype), crossed
        if cache is None and is_long(self.mask, positions) and not self.watched():
            return self.sliced(positions, dtype), crossed
        return self.context(positions, _keys(positions, cache), dtype), crossed

    def context(
        self,
        query: Positions,
        key: Positions,
        dtype: torch.dtype = torch.float32,
        new: Positions | None = None,
        selected: SelectedPositions | None = None,
    ) -> AttentionContext:
        """Context of self-attention for queries and keys at these positions; angles in `dtype`.

        `new`: the positions of the keys that are not in a cache yet (None: those of the queries).
        """
        rotation = self._rotation(query, dtype)
        return AttentionContext(
            *self._scored(query, key),
            rotation=rotation,
            key_rotation=rotation if new is None else self._rotation(new, dtype),
            selected=selected,
        )

    def ragged_contexts(
        self, positions: Positions, cache: RaggedCache, dtype: torch.dtype
    ) -> tuple[RaggedContext, RaggedContext | None]:
        """Return the contexts of self- and cross-attention of many sequences in one row."""
        assert cache.pool is not None
        numbers, rotation = cache.pool.positions, self._rotation(positions, dtype)
        scored = lambda one: AttentionContext(*self._scored(one.query(numbers), one.key(numbers)))
        own = _contexts(cache.groups, scored, rotation)
        read = lambda one: source_context(Positions(numbers[:, : one.length]), one.key(numbers))
        return own, _contexts(cache.crossed, read) if cache.crossed else None

    def source_keys_values(self, source: Float[Tensor, "B S D"]) -> Layers:
        """Keys and values of cross-attention at every layer for an encoder's output."""
        crosses = (block.cross for block in self.blocks if isinstance(block, Block))
        return {
            layer: cross.keys_values(source, None)
            for layer, cross in enumerate(crosses)
            if cross is not None
        }

    def joined(
        self, lengths: Int[np.ndarray, "N"], positions: Positions, dtype: torch.dtype
    ) -> JoinedContext:
        """The context of documents of these lengths one behind the other in one row."""
        place, found = positions.position[0], runs(lengths)
        alone = {length: Positions.arange(length, 0, place.device) for _, length in found}
        rotation = self._rotation(alone[max(alone)], dtype)
        if rotation is not None:
            cos, sin = rotation
            rotation = cos.index_select(2, place), sin.index_select(2, place)
        own = {n: AttentionContext(*self._scored(one, one)) for n, one in alone.items()}
        contexts = tuple((run, own[run[1]]) for run in found)
        return JoinedContext(Allowed(), rotation=rotation, key_rotation=rotation, runs=contexts)

    def sliced(self, positions: Positions, dtype: torch.dtype) -> SlicedContext:
        """Return the context of long rows, some queries at a time."""
        rotation = self._rotation(positions, dtype)
        runs = runs_of(self.mask, self._bias, positions)
        return SlicedContext(Allowed(), rotation=rotation, key_rotation=rotation, runs=runs)

    def watched(self) -> bool:
        """Whether a tape reads the scores or patterns of a block, which are those of whole rows."""
        attentions = (block.attention for block in self.blocks if isinstance(block, Block))
        return any([watching(one, "scores", "pattern") for one in attentions])

    def _scored(self, query: Positions, key: Positions) -> tuple[Allowed, Tensor | None]:
        return allowed(self.mask, query, key).prepared(), self._bias(query, key)

    def _bias(self, query: Positions, key: Positions) -> Tensor | None:
        return None if self.bias is None else self.bias(query, key) * self.bias_factor

    def _rotation(self, positions: Positions, dtype: torch.dtype) -> Rotation | None:
        return None if self.rotation is None else self.rotation(positions, dtype=dtype)


def source_context(query: Positions, source: Positions) -> AttentionContext:
    """Context of cross-attention for queries and source at these positions."""
    return AttentionContext(allowed(SOURCE_MASK, query, source).prepared())


def _keys(positions: Positions, cache: Cache | None) -> Positions:
    return positions if cache is None or cache.positions is None else cache.positions


def _contexts(
    groups: Sequence[Sequences],
    scored: Callable[[Sequences], AttentionContext],
    rotation: Rotation | None = None,
) -> RaggedContext:
    """Return the context of groups; mask and bias are computed once for each shape."""
    known: dict[Any, AttentionContext] = {}
    for one in groups:
        if one.shape not in known:
            known[one.shape] = scored(one)
    return RaggedContext(
        Allowed(),
        rotation=rotation,
        key_rotation=rotation,
        groups=tuple(known[one.shape] for one in groups),
        shapes=tuple((one.rows, one.length) for one in groups),
    )


def _store(cache: Cache, layer: int, compute: Callable[[], KeysValues]) -> tuple[Any, Any]:
    return cache.store(layer, *compute())
