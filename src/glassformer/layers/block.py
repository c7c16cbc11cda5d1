"""One block of the stack: attention and feed-forward network, each wrapped in a residual
connection.

    pre-norm    x + f(LN(x))        post-norm    LN(x + f(x))          f in: attention, cross-attention, feed-forward

Source: Note B (block, residual stream), Notes C, D, E.
"""

from typing import Literal

from torch import nn

from glassformer.axes import Float, Tensor
from glassformer.layers.attention import Attention, Slot, View
from glassformer.layers.dropout import Dropout
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.norm import LayerNorm, RMSNorm
from glassformer.layers.tap import tap

NormPlacement = Literal["pre", "post"]
STREAM = "batch position model"


class Block(nn.Module):
    """The sub-layers of a block; its two kinds differ in where the norms stand."""

    def __init__(
        self,
        attention: Attention,
        feedforward: FeedForward,
        norms: list[LayerNorm | RMSNorm],
        cross: Attention | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attention_norm, self.attention = norms[0], attention
        self.cross_norm, self.cross = (norms[1], cross) if cross else (None, None)
        self.feedforward_norm, self.feedforward = norms[-1], feedforward
        self.dropout = Dropout(dropout)

    def attend_own(
        self, x: Float[Tensor, "B T D"], view: View, slot: Slot | None
    ) -> Float[Tensor, "B Q D"]:
        """The self-attention branch, before it joins the stream."""
        return tap(self, "attention_out", self.dropout(self.attention(x, view, slot=slot)), STREAM)

    def attend_source(
        self,
        x: Float[Tensor, "B T D"],
        view: View,
        source: Float[Tensor, "B S D"] | None,
        slot: Slot | None,
    ) -> Float[Tensor, "B T D"]:
        """The cross-attention branch, before it joins the stream."""
        assert self.cross is not None
        return tap(self, "cross_out", self.dropout(self.cross(x, view, source, slot)), STREAM)

    def feed(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The feed-forward branch, before it joins the stream."""
        return tap(self, "feedforward_out", self.dropout(self.feedforward(x)), STREAM)


class PreNormBlock(Block):
    """x + f(LN(x)): the stream itself is never normalized (Note B's block, Notes D and E)."""

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        view: View,
        slot: Slot | None = None,
        source: Float[Tensor, "B S D"] | None = None,
        source_view: View | None = None,
        source_slot: Slot | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """One step of the residual stream; `source` is the encoder's output if the block has
        cross-attention."""
        x = tap(self, "resid_pre", x, STREAM)
        x = view.querying(x) + self.attend_own(self.attention_norm(x), view, slot)
        if self.cross_norm is not None and source_view is not None:
            x = x + self.attend_source(self.cross_norm(x), source_view, source, source_slot)
        x = tap(self, "resid_mid", x, STREAM)
        x = x + self.feed(self.feedforward_norm(x))
        return tap(self, "resid_post", x, STREAM)


class PostNormBlock(Block):
    """LN(x + f(x)): the stream is normalized after each branch (Note B's parallel form, Notes C and
    E, 2017)."""

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        view: View,
        slot: Slot | None = None,
        source: Float[Tensor, "B S D"] | None = None,
        source_view: View | None = None,
        source_slot: Slot | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """One step of the residual stream; `source` is the encoder's output if the block has
        cross-attention."""
        x = tap(self, "resid_pre", x, STREAM)
        x = self.attention_norm(view.querying(x) + self.attend_own(x, view, slot))
        if self.cross_norm is not None and source_view is not None:
            x = self.cross_norm(x + self.attend_source(x, source_view, source, source_slot))
        x = tap(self, "resid_mid", x, STREAM)
        x = self.feedforward_norm(x + self.feed(x))
        return tap(self, "resid_post", x, STREAM)
