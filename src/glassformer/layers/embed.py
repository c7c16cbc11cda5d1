"""Elements to vectors: the row of an embedding matrix for a token, a linear map for a patch, plus the position.

    tokens   x_i = E[id_i] (· √D) + p_i + k_i        patches   x_i = patch_i W_emb + b + p_i

Source: Notes A, B (E and its rows), D (W_emb). Knows: ids, patches, places. Does not know: tokenizers, pixels.
"""

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Places
from glassformer.errors import ConfigError
from glassformer.layers.dropout import Dropout
from glassformer.layers.linear import Linear
from glassformer.layers.norm import LayerNorm, RMSNorm
from glassformer.layers.position import LearnedPosition, SinusoidalPosition
from glassformer.layers.tap import tap


class TokenEmbedding(nn.Module):
    """The embedding matrix E, V x D: token i is row i, which equals one-hot(i) times E."""

    def __init__(self, vocab_size: int, d_model: int, *, factor: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.factor = factor

    def forward(self, elements: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Rows of E, times `factor` (√D in the 2017 model)."""
        rows = F.embedding(elements, self.weight)
        return rows if self.factor == 1.0 else rows * self.factor


class PatchEmbedding(nn.Module):
    """Flattened patches times W_emb (Note D: 16 x 16 x 3 = 768 to D), after a learned class token if asked."""

    def __init__(self, patch_width: int, d_model: int, *, class_token: bool, bias: bool = True):
        super().__init__()
        self.proj = Linear(patch_width, d_model, bias=bias)
        self.class_token = nn.Parameter(torch.empty(1, 1, d_model)) if class_token else None

    def forward(self, elements: Float[Tensor, "B T P"]) -> Float[Tensor, "B U D"]:
        """Vectors of the patches; with a class token one more in front (U = T + 1)."""
        x = self.proj(elements)
        return x if self.class_token is None else torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)


class Embedding(nn.Module):
    """Elements and their places to the first vectors of the residual stream."""

    def __init__(
        self,
        element: TokenEmbedding | PatchEmbedding,
        position: LearnedPosition | SinusoidalPosition | None,
        *,
        n_kinds: int,
        d_model: int,
        norm: LayerNorm | RMSNorm | None,
        dropout: float,
    ):
        super().__init__()
        self.element, self.position, self.norm = element, position, norm
        self.kind = TokenEmbedding(n_kinds, d_model) if n_kinds else None
        self.dropout = Dropout(dropout)

    def forward(
        self,
        elements: Int[Tensor, "B T"] | Float[Tensor, "B T P"],
        places: Places,
        kinds: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B U D"]:
        """x_i = element + position (+ kind), normalized if the model does so (BERT)."""
        if kinds is not None and self.kind is None:
            raise ConfigError("The batch has kinds (token types) but the model has none; set model.n_kinds.")
        x = tap(self, "elements", self.element(elements), "batch position model")
        if self.position is not None:
            x = x + tap(self, "positions", self.position(places).to(x.dtype), "batch position model")
        if self.kind is not None:
            x = x + (self.kind.weight[0] if kinds is None else self.kind(kinds))
        return self.dropout(x if self.norm is None else self.norm(x))
