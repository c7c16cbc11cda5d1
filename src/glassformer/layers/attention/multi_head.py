"""Attention as a module: project to queries, keys and values, attend in every head, mix the heads
(Notes A to E).

          x ──q_proj──> q ─┐
                           ├─ softmax(q kᵀ·scale + mask + bias) ── · v ── out_proj ──>
     source ──k_proj──> k ─┤                                       │
            ──v_proj──> v ─────────────────────────────────────────┘

`source` is x itself (self-attention) or the encoder's output (cross-attention). With `n_kv_heads` =
H every head has its own keys and values (multi-head); with fewer, groups of heads share them
(grouped-query); with 1, all heads share them (multi-query).
"""

from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from glassformer.core.axes import Float, Tensor
from glassformer.layers.attention.attend import (
    attention_pattern,
    attention_scores,
    attention_values,
)
from glassformer.layers.attention.cache import KeysValues
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.dropout import dropout as drop
from glassformer.layers.linear.linear import Linear, pack_together, together
from glassformer.layers.linear.packed import Bits, PackedMatrix
from glassformer.layers.norm import RMSNorm
from glassformer.layers.position.rotary import Rotation, rotate
from glassformer.layers.tap import tap, watching

ScaleKind = Literal["head", "model", "none"]
CacheUpdate = Callable[[Callable[[], KeysValues]], tuple[Any, Any]]
"""Stores the keys and values that the given function computes; returns all that queries read."""


def score_scale(kind: ScaleKind, d_head: int, d_model: int) -> float:
    """Factor on q · k: `head` 1/√d_head (Notes A, B, D, E), `model` 1/√d_model (Note C's words),
    `none` 1 (T5)."""
    return {"head": d_head**-0.5, "model": d_model**-0.5, "none": 1.0}[kind]


def split_heads(x: Float[Tensor, "B T _"], heads: int) -> Float[Tensor, "B H T K"]:
    """Split the last axis into `heads` heads and move them before the positions."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(z: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T _"]:
    """Concatenate the heads: concat(Z¹ .. Zᴴ)."""
    return z.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head, grouped-query or multi-query attention, self or cross; `d_head` is independent
    of `d_model`."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_head: int,
        *,
        scale: ScaleKind = "head",
        bias: bool = False,
        out_bias: bool = False,
        qk_norm: bool = False,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.dropout = n_heads, n_kv_heads, dropout
        self.scale = score_scale(scale, d_head, d_model)
        self.q_proj = Linear(d_model, n_heads * d_head, bias=bias)
        self.k_proj = Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.v_proj = Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.out_proj = Linear(n_heads * d_head, d_model, bias=out_bias)
        self.q_norm = RMSNorm(d_head, epsilon=epsilon) if qk_norm else None
        self.k_norm = RMSNorm(d_head, epsilon=epsilon) if qk_norm else None
        self.packed: PackedMatrix | None = None

    def pack(self, bits: Bits) -> None:
        """Keep W_Q, W_K and W_V of self-attention as one matrix in a format for inference (see
        `layers.linear.packed`), where a step of decoding reads them by one product."""
        self.packed = pack_together([self.q_proj, self.k_proj, self.v_proj], bits)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        context: AttentionContext,
        source: Float[Tensor, "B S D"] | None = None,
        update: CacheUpdate | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Attend from x (its selected positions) to `source` (x if None) and to cached elements."""
        asking = context.asking(x)
        if self.packed is None or source is not None or asking is not x:
            read = x if source is None else source
            q, both = self.q_proj(asking), lambda: (self.k_proj(read), self.v_proj(read))
        else:
            layers = (self.q_proj, self.k_proj, self.v_proj)
            q, keys, values = together(x, layers, self.packed)
            both = lambda: (keys, values)
        q = self.queries(q, context.rotation)
        new = lambda: self.keys_values(*both(), context.key_rotation)
        k, v = update(new) if update else new()
        dropout = self.dropout if self.training else 0.0
        if watching(self, "scores", "pattern"):  # the same numbers, written out for the tape
            scores = tap(self, "scores", self.scores(q, k, context), "batch head query key")
            pattern = tap(self, "pattern", attention_pattern(scores), "batch head query key")
            z = attention_values(drop(pattern, dropout), v)
        else:
            z = context.attend(q, k, v, self.scale, dropout)
        z = tap(self, "z", z, "batch head query dim")
        return self.out_proj(merge_heads(z))

    def queries(
        self, projected: Float[Tensor, "B T _"], rotation: Rotation | None
    ) -> Float[Tensor, "B H T K"]:
        """q = x W_Q in heads, normalized and rotated if the model does so."""
        q = split_heads(projected, self.n_heads)
        q = q if self.q_norm is None else self.q_norm(q)
        q = q if rotation is None else rotate(q, rotation)
        return tap(self, "q", q, "batch head query dim")

    def keys_values(
        self,
        keys: Float[Tensor, "B S _"],
        values: Float[Tensor, "B S _"],
        rotation: Rotation | None,
    ) -> KeysValues:
        """k = x W_K and v = x W_V in heads; keys normalized and rotated if the model does so."""
        k = split_heads(keys, self.n_kv_heads)
        k = k if self.k_norm is None else self.k_norm(k)
        k = k if rotation is None else rotate(k, rotation)
        v = split_heads(values, self.n_kv_heads)
        return tap(self, "k", k, "batch head key dim"), tap(self, "v", v, "batch head key dim")

    def scores(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        context: AttentionContext,
        head: int | None = None,
    ) -> Float[Tensor, "B _ T S"]:
        """Scores of all heads, or of one head [B, 1, T, S]: q kᵀ · scale + bias, masked.

        Everything that needs scores outside the fused kernel takes them from here.
        """
        bias = context.bias
        if head is not None:
            group = head // (self.n_heads // self.n_kv_heads)
            q, k = q[:, head : head + 1], k[:, group : group + 1]
            bias = None if bias is None else bias[:, head : head + 1]
        return attention_scores(q, k, context.allow, bias, self.scale)
