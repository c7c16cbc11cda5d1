"""N blocks on one residual stream, with what they share: mask, score bias, rotary angles, final
norm, layout."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Positions
from glassformer.layers.attention.cache import Layers, Layout
from glassformer.layers.attention.context import Scoring, SelectedPositions
from glassformer.layers.attention.mask import Mask
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.block import STREAM, Block
from glassformer.layers.norm import Norm
from glassformer.layers.position.rotary import Rotation
from glassformer.layers.position.score_bias import ScoreBias
from glassformer.layers.tap import recorded, tap, watching


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

    def scoring(self, dtype: torch.dtype = torch.float32) -> Scoring:
        """Mask, score bias and rotary angles of self-attention; angles in `dtype`."""
        rotation = None if self.rotation is None else partial(self.rotation, dtype=dtype)
        return Scoring(self.mask, self.bias, self.bias_factor, rotation)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        positions: Positions,
        layout: Layout,
        source: Float[Tensor, "B S D"] | None = None,
        source_positions: Positions | None = None,
        selected: SelectedPositions | None = None,
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "N D"]:
        """The stream after the last block, at all positions or at the `selected` ones.

        A given `layout` already has `positions` (see `Layout.advance`).
        """
        layout = layout.whole() if self.watched() else layout
        scoring = self.scoring(torch.promote_types(x.dtype, torch.float32))
        most, last = layout.contexts(scoring, positions, source_positions, selected)
        for layer, block in enumerate(self.blocks):
            own, crossed = last if layer == len(self.blocks) - 1 else most
            store, once = partial(layout.store, layer), partial(layout.once, layer)
            x = block(x, own, store, source, crossed, once)
        x = tap(self, "out", x if self.norm is None else self.norm(x), STREAM)
        return x if selected is None else selected.flat(x)

    def source_keys_values(self, source: Float[Tensor, "B S D"]) -> Layers:
        """Keys and values of cross-attention at every layer for an encoder's output."""
        crosses = (block.cross for block in self.blocks if isinstance(block, Block))
        return {
            layer: cross.keys_values(cross.k_proj(source), cross.v_proj(source), None)
            for layer, cross in enumerate(crosses)
            if cross is not None
        }

    def watched(self) -> bool:
        """Whether a tape reads the scores or patterns of a block, which are those of whole rows."""
        every = (one for one in self.modules() if isinstance(one, Attention))
        return recorded() and any([watching(one, "scores", "pattern") for one in every])
