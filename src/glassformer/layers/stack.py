"""N blocks on one residual stream, with what they share: mask, score bias, rotary angles, final
norm, cache."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from glassformer.axes import Float, Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import View
from glassformer.layers.block import STREAM, PostNormBlock, PreNormBlock
from glassformer.layers.cache import Cache, KeysValues
from glassformer.layers.mask import Mask, SameDocument, Valid, allowed
from glassformer.layers.norm import LayerNorm, RMSNorm
from glassformer.layers.position import AlibiBias, BucketBias, RelativeBias, Rotation
from glassformer.layers.selected_positions import Asked
from glassformer.layers.tap import tap


class Stack(nn.Module):
    """Blocks in a row, then the final norm if there is one (pre-norm models).

    `mask` rules self-attention; `bias_factor` multiplies the score bias: 1 adds B to the scaled
    scores, the score scale itself is Note C's (QKᵀ + B)/√d_k. `turn` gives the rotary angles of
    positions; None: nothing is turned.
    """

    def __init__(
        self,
        blocks: list[PreNormBlock | PostNormBlock],
        mask: Mask,
        *,
        final_norm: LayerNorm | RMSNorm | None,
        bias: RelativeBias | BucketBias | AlibiBias | None = None,
        bias_factor: float = 1.0,
        turn: Callable[..., Rotation] | None = None,
    ):
        super().__init__()
        self.bias = bias
        self.blocks = nn.ModuleList(blocks)
        self.norm = final_norm
        self.mask, self.bias_factor, self.turn = mask, bias_factor, turn

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        positions: Positions,
        cache: Cache | None = None,
        source: Float[Tensor, "B S D"] | None = None,
        source_places: Positions | None = None,
        asked: Asked | None = None,
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "N D"]:
        """The stream after the last block, or those of its elements that are `asked` for (then no
        cache, no source).

        A given `cache` already knows `positions` (see `Cache.advanced`).
        """
        exact = torch.promote_types(x.dtype, torch.float32)
        view = self.view(
            positions,
            positions if cache is None or cache.positions is None else cache.positions,
            exact,
        )
        last = (
            view
            if asked is None
            else self.view(asked.positions(positions), positions, exact, positions, asked)
        )
        source_view = (
            None
            if source_places is None
            else View(allowed(SOURCE_MASK, positions, source_places).prepared())
        )
        for layer, block in enumerate(self.blocks):
            slot = None if cache is None else partial(_own, cache, layer)
            source_slot = None if cache is None else partial(cache.once, layer)
            x = block(
                x,
                last if layer == len(self.blocks) - 1 else view,
                slot,
                source,
                source_view,
                source_slot,
            )
        x = tap(self, "out", x if self.norm is None else self.norm(x), STREAM)
        return x if asked is None else asked.flat(x)

    def view(
        self,
        query: Positions,
        key: Positions,
        dtype: torch.dtype = torch.float32,
        new: Positions | None = None,
        asked: Asked | None = None,
    ) -> View:
        """What a block's self-attention sees, for queries and keys at these positions; angles in
        `dtype`.

        `new`: the positions of the keys that are not in a cache yet (None: those of the queries).
        """
        bias = None if self.bias is None else self.bias(query, key) * self.bias_factor
        turn = self._turn(query, dtype)
        return View(
            allowed(self.mask, query, key).prepared(),
            bias,
            turn,
            turn if new is None else self._turn(new, dtype),
            asked,
        )

    def _turn(self, positions: Positions, dtype: torch.dtype) -> Rotation | None:
        return None if self.turn is None else self.turn(positions, dtype=dtype)


SOURCE_MASK = SameDocument() & Valid()
"""Cross-attention sees every real element of its own source: no causal mask (Notes C and E)."""


def _own(cache: Cache, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
    return cache.store(layer, *compute())
