"""Heads: from the stream to a score for every word, tags for every element, or classes for the
sequence.

Source: Note B (unembedding, tied), Note E (untied with bias), Note D (tagging, classification from
the final element).
"""

from typing import Literal

import torch
from torch import nn

from glassformer.core.axes import Bool, Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.layers import cpu_kernels
from glassformer.layers.dropout import Dropout
from glassformer.layers.feedforward import Activation, activation_function
from glassformer.layers.linear.linear import Linear
from glassformer.layers.linear.packed import OF_LOGITS, Bits, PackedMatrix
from glassformer.layers.norm import LayerNorm
from glassformer.layers.tap import tap

HeadKind = Literal["lm", "masked_lm", "tag", "classify", "pool", "none"]
Pool = Literal["last", "first", "mean"]


class LanguageModelHead(nn.Module):
    """Scores over the vocabulary: u = h Eᵀ with the tied embedding, or u = h W + b (`bias`
    optional).

    `factor` scales h first (1/√D in tied T5).
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        tied: nn.Parameter | None,
        *,
        bias: bool,
        factor: float = 1.0,
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model)) if tied is None else tied
        self.bias = nn.Parameter(torch.empty(vocab_size)) if bias else None
        self.factor, self.tied = factor, tied is not None
        self.packed: PackedMatrix | None = None

    def pack(self, bits: Bits) -> None:
        """Multiply by a copy in a format for inference (see `linear.packed`); the rows of a tied
        embedding are unchanged."""
        self.packed = PackedMatrix(self.weight, OF_LOGITS[bits])
        if not self.tied:
            self.register_parameter("weight", None)

    def forward(
        self, hidden: Float[Tensor, "*rows D"], positions: Positions | None = None
    ) -> Float[Tensor, "*rows V"]:
        """Logits; `positions` are not used."""
        h = hidden if self.factor == 1.0 else hidden * self.factor
        if self.packed is None:
            logits = cpu_kernels.linear(h, self.weight, self.bias)
        else:
            logits = self.packed.linear(h, self.bias)
        return tap(self, "logits", logits, "batch position vocabulary")


class MaskedLanguageModelHead(nn.Module):
    """BERT's head: a dense layer, φ and LayerNorm before the (tied) unembedding with bias
    (Devlin et al. 2019)."""

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        tied: nn.Parameter | None,
        *,
        epsilon: float,
        activation: Activation = "gelu",
    ):
        super().__init__()
        self.activation = activation_function(activation)
        self.dense = Linear(d_model, d_model)
        self.norm = LayerNorm(d_model, epsilon=epsilon)
        self.unembed = LanguageModelHead(d_model, vocab_size, tied, bias=True)

    def forward(
        self, hidden: Float[Tensor, "*rows D"], positions: Positions | None = None
    ) -> Float[Tensor, "*rows V"]:
        """Logits; `positions` are not used."""
        return self.unembed(self.norm(self.activation(self.dense(hidden))))


class TagHead(nn.Module):
    """Scores of the tags of every element: h W + b (Note D, tagging)."""

    def __init__(self, d_model: int, n_classes: int, *, dropout: float = 0.0):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.proj = Linear(d_model, n_classes)

    def forward(
        self, hidden: Float[Tensor, "*rows D"], positions: Positions | None = None
    ) -> Float[Tensor, "*rows C"]:
        """Logits; `positions` are not used."""
        return tap(self, "logits", self.proj(self.dropout(hidden)), "batch position class")


def pool(
    hidden: Float[Tensor, "B T D"], positions: Positions, how: Pool, begin: int = 0
) -> Float[Tensor, "N D"]:
    """One vector for each sequence: its `last` real element (Note D), its `first` (BERT), or the
    `mean` of the real ones from position `begin` on.

    A sequence is a row or, in packed rows, a document, in the order of ids 0, 1, ..., N - 1.
    """
    if how == "mean":
        return pooled_mean(hidden, positions, begin)
    return hidden.flatten(0, 1)[pooled_at(positions, hidden.shape[0], how)]


def pooled_at(positions: Positions, rows: int, how: Literal["last", "first"]) -> Int[Tensor, "N"]:
    """Index into B x T (`rows` rows) of the last or first real element of each sequence."""
    shape = rows, positions.length
    position = positions.position.expand(shape)
    if positions.document is None:
        if positions.valid is None and positions.start is not None:
            edge = positions.length - 1 if how == "last" else 0
            at = torch.full((rows,), edge, device=position.device)
        elif how == "last":
            at = position.where(_real(positions, shape), -1).argmax(1)
        else:
            at = position.where(_real(positions, shape), torch.iinfo(position.dtype).max).argmin(1)
        return at + torch.arange(rows, device=position.device) * positions.length
    real = _real(positions, shape).flatten().nonzero().squeeze(1)
    of, position = positions.document.expand(shape).flatten()[real], position.flatten()[real]
    edge = position.new_zeros(int(of.max()) + 1).scatter_reduce(
        0, of, position, "amax" if how == "last" else "amin", include_self=False
    )
    chosen = (position == edge[of]).nonzero().squeeze(1)
    return torch.zeros_like(edge).scatter(0, of[chosen], real[chosen])


def pooled_mean(
    hidden: Float[Tensor, "B T D"], positions: Positions, begin: int = 0
) -> Float[Tensor, "N D"]:
    """Mean of the real elements of each sequence from position `begin` on."""
    if positions.document is None and positions.valid is None and not begin:
        return hidden.mean(1)
    valid = _real(positions, hidden.shape[:2]) & (positions.position >= begin)
    if positions.document is None:
        total = hidden.masked_fill(~valid[..., None], 0).sum(1)  # padding may hold NaN
        return total / valid.sum(1, keepdim=True).clamp(min=1)
    at = valid.flatten().nonzero().squeeze(1)
    of = positions.document.expand(valid.shape).flatten()[at]
    counts = of.bincount()
    total = hidden.new_zeros(len(counts), hidden.shape[2]).index_add(
        0, of, hidden.flatten(0, 1)[at]
    )
    return total / counts[:, None]


def _real(positions: Positions, shape: tuple[int, ...]) -> Bool[Tensor, "B T"]:
    if positions.valid is not None:
        return positions.valid.expand(shape)
    return torch.ones(shape, dtype=torch.bool, device=positions.position.device)


class ClassifyHead(nn.Module):
    """Pool, then h W + b over the classes; `dense` adds BERT's dense layer with φ; without classes,
    the pooled vector.

    `n_registers`: learned tokens before all other elements, which a mean leaves out. `distilled`:
    the mean of the scores of the first element and of the register behind it, each by its own map,
    (h₁ W₁ + b₁ + h₂ W₂ + b₂) / 2 (Touvron et al. 2021).
    """

    def __init__(
        self,
        d_model: int,
        n_classes: int | None,
        how: Pool,
        *,
        dense: bool,
        activation: Activation = "tanh",
        dropout: float = 0.0,
        n_registers: int = 0,
        distilled: bool = False,
    ):
        super().__init__()
        self.activation = activation_function(activation)
        self.how: Pool = how
        self.n_registers, self.n_read = n_registers, 1 + distilled
        self.dense = Linear(d_model, d_model) if dense else None
        self.dropout = Dropout(dropout)
        self.proj = Linear(d_model, n_classes) if n_classes else None
        self.distilled_proj = Linear(d_model, n_classes) if n_classes and distilled else None

    def reads(self, positions: Positions, rows: int) -> Int[Tensor, "M"] | None:
        """Positions that the head reads, `n_read` of each sequence, indices into B x T; None:
        all."""
        if self.how == "mean":
            return None
        at = pooled_at(positions, rows, self.how)
        return at if self.n_read == 1 else torch.stack([at, at + 1], 1).flatten()

    def vectors(self, hidden: Float[Tensor, "B T D"], positions: Positions) -> Float[Tensor, "M D"]:
        """The `n_read` vectors of each sequence that are mapped."""
        if self.n_read == 1:
            return pool(hidden, positions, self.how, self.n_registers)
        return hidden.flatten(0, 1)[self.reads(positions, hidden.shape[0])]

    def forward(
        self, hidden: Float[Tensor, "B T D"] | Float[Tensor, "M D"], positions: Positions
    ) -> Float[Tensor, "N C"]:
        """Logits over the classes (or the pooled vector of width D), from the whole stream or from
        the positions that the head `reads`."""
        x = hidden if hidden.dim() == 2 else self.vectors(hidden, positions)
        x = x if self.dense is None else self.activation(self.dense(x))
        x = tap(self, "pooled", x.reshape(-1, self.n_read * x.shape[1]), "batch model")
        if self.proj is None:
            return x
        first, *behind = self.dropout(x).chunk(self.n_read, 1)
        logits = self.proj(first)
        if self.distilled_proj is not None:
            logits = (logits + self.distilled_proj(*behind)) / 2
        return tap(self, "logits", logits, "batch class")


class NoHead(nn.Module):
    """The stream itself."""

    def forward(
        self, hidden: Float[Tensor, "*rows D"], positions: Positions | None = None
    ) -> Float[Tensor, "*rows D"]:
        """Returns `hidden`."""
        return hidden
