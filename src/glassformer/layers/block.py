"""One block of the stack: attention and feed-forward network, each with a residual connection.

    pre-norm    x + f(LN(x))
    post-norm   LN(x + f(x))          f: attention, cross-attention, feed-forward

Without residual connections, f(LN(x)) and LN(f(x)). Source: Note B (block, residual stream), Notes
C, D, E.
"""

from collections.abc import Callable

from torch import nn

from glassformer.core.axes import Float, Tensor
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.attention.multi_head import Attention, CacheUpdate
from glassformer.layers.dropout import Dropout
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.norm import Norm
from glassformer.layers.tap import tap

STREAM = "batch position model"


class Block(nn.Module):
    """Sub-layers of a block.

    `pre_norm`: x + f(LN(x)), so the stream itself is never normalized (Note B's block, Notes D and
    E); else LN(x + f(x)) (Note B's parallel form, Notes C and E, 2017).
    """

    def __init__(
        self,
        attention: Attention,
        feedforward: FeedForward,
        norms: list[Norm],
        cross: Attention | None,
        *,
        pre_norm: bool,
        dropout: float = 0.0,
        residual: bool = True,
    ):
        super().__init__()
        self.attention_norm, self.attention = norms[0], attention
        self.cross_norm, self.cross = (norms[1], cross) if cross else (None, None)
        self.feedforward_norm, self.feedforward = norms[-1], feedforward
        self.dropout, self.pre_norm, self.residual = Dropout(dropout), pre_norm, residual

    def sublayer(
        self,
        stream: Float[Tensor, "B Q D"],
        norm: Norm,
        branch: Callable[[Tensor], Tensor],
        x: Float[Tensor, "B T D"],
    ) -> Float[Tensor, "B Q D"]:
        """Join a branch f, computed from x, to the stream (x, or its queried positions)."""
        if self.pre_norm:
            return self.join(stream, branch(norm(x)))
        return norm(self.join(stream, branch(x)))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        context: AttentionContext,
        update: CacheUpdate | None = None,
        source: Float[Tensor, "B S D"] | None = None,
        source_context: AttentionContext | None = None,
        source_update: CacheUpdate | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """The stream after this block; `source` is the encoder's output, for cross-attention."""
        own = lambda y: self.attend_own(y, context, update)
        x = tap(self, "resid_pre", x, STREAM)
        x = self.sublayer(context.stream_of(x), self.attention_norm, own, x)
        if self.cross_norm is not None and source_context is not None:
            cross = lambda y: self.attend_source(y, source_context, source, source_update)
            x = self.sublayer(x, self.cross_norm, cross, x)
        x = tap(self, "resid_mid", x, STREAM)
        x = self.sublayer(x, self.feedforward_norm, self.feed, x)
        return tap(self, "resid_post", x, STREAM)

    def attend_own(
        self, x: Float[Tensor, "B T D"], context: AttentionContext, update: CacheUpdate | None
    ) -> Float[Tensor, "B Q D"]:
        """Output of the self-attention branch."""
        own = self.attention(x, context, update=update)
        return tap(self, "attention_out", self.dropout(own), STREAM)

    def attend_source(
        self,
        x: Float[Tensor, "B T D"],
        context: AttentionContext,
        source: Float[Tensor, "B S D"] | None,
        update: CacheUpdate | None,
    ) -> Float[Tensor, "B T D"]:
        """Output of the cross-attention branch."""
        assert self.cross is not None
        crossed = self.cross(x, context, source, update)
        return tap(self, "cross_out", self.dropout(crossed), STREAM)

    def feed(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Output of the feed-forward branch."""
        return tap(self, "feedforward_out", self.dropout(self.feedforward(x)), STREAM)

    def join(
        self, x: Float[Tensor, "*rows D"], branch: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """x + branch; the branch alone without residual connections."""
        return x + branch if self.residual else branch
