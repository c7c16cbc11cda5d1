"""Embedding: a row of a matrix for a token, a linear map for a patch, plus the position.

    tokens   x_i = E[id_i] (· √D) + p_i + k_i        patches   x_i = patch_i W_emb + b + p_i
    parts    x_i = patch_i W_image + t_image + g_n + p_i   for patch n of an image, not a token

Source: Notes A, B (E and its rows), D (W_emb, everything in one sequence).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Part, Positions
from glassformer.core.errors import ConfigError, suggest
from glassformer.layers.cpu_kernels import on_cpu
from glassformer.layers.dropout import Dropout
from glassformer.layers.linear.linear import Linear
from glassformer.layers.norm import Norm
from glassformer.layers.position.vectors import PositionVectors
from glassformer.layers.stem import Convolution, Stem
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
    """Flattened patches times W_emb (Note D: 16 x 16 x 3 = 768 to D), after learned tokens: a class
    token if there is one, and registers (Darcet et al. 2024).

    With a `stem`, W_emb is the last of its convolutions.
    """

    def __init__(
        self,
        patch_width: int,
        d_model: int,
        *,
        class_token: bool,
        n_registers: int = 0,
        bias: bool = True,
        stem: Stem | None = None,
    ):
        super().__init__()
        self.stem = stem
        if stem is None:
            self.proj = Linear(patch_width, d_model, bias=bias)
        else:
            self.proj = Convolution(stem.width, d_model, stem.last_step, bias=bias)
        learned = lambda n: nn.Parameter(torch.empty(1, n, d_model)) if n else None
        self.class_token, self.registers = learned(int(class_token)), learned(n_registers)

    def forward(self, elements: Float[Tensor, "B T P"]) -> Float[Tensor, "B U D"]:
        """Vectors of the patches, after those of the learned tokens (U of them all)."""
        if self.stem is None:
            x = self.proj(elements)
        else:
            x = self.proj(self.stem(elements)).flatten(2).mT
        learned = [own for own in (self.class_token, self.registers) if own is not None]
        return (
            torch.cat([*(own.expand(x.shape[0], -1, -1) for own in learned), x], 1)
            if learned
            else x
        )


class PartEmbedding(nn.Module):
    """Patches among tokens: patch W + vector of the type (W's bias) + vector of the patch's number.

    `patches`: number of patches per image, each with a learned vector; None: no such vectors.
    """

    def __init__(self, patch_width: int, d_model: int, patches: int | None):
        super().__init__()
        self.proj = Linear(patch_width, d_model, bias=False)
        self.kind = nn.Parameter(torch.empty(d_model))
        self.position = TokenEmbedding(patches, d_model) if patches else None

    def forward(self, part: Part) -> Float[Tensor, "N D"]:
        """Vectors of all patches; ConfigError: patches of another width, or more than `patches`."""
        if part.values.shape[1] != self.proj.in_features:
            raise ConfigError(
                f"A patch of the part {part.name!r} has {part.values.shape[1]} numbers and "
                f"model.parts says {self.proj.in_features}; make them equal."
            )
        x = self.proj(part.values.to(self.proj.weight.dtype)) + self.kind
        if self.position is None:
            return x
        most = len(self.position.weight)
        if on_cpu(part.index) and bool((part.index >= most).any()):
            raise ConfigError(
                f"The part {part.name!r} has a patch {int(part.index.max())} and "
                f"model.part_patches says {most}; make it larger, or the image smaller."
            )
        return x + F.embedding(part.index, self.position.weight)


class PartEmbeddings(nn.ModuleDict):
    """Embedding of each type of part, by name; `widths`: numbers per patch, `patches` per image."""

    def __init__(self, widths: Mapping[str, int], patches: Mapping[str, int], d_model: int):
        super().__init__(
            {
                name: PartEmbedding(width, d_model, patches.get(name))
                for name, width in widths.items()
            }
        )

    def forward(self, x: Float[Tensor, "B T D"], parts: Sequence[Part]) -> Float[Tensor, "B T D"]:
        """`x` with the parts' vectors at their elements; ConfigError: an unknown part."""
        if not parts:
            return x
        for part in parts:
            if part.name not in self:
                known = suggest(part.name, self) if len(self) else "the model has none"
                raise ConfigError(
                    f"The batch has a part {part.name!r}, which is not in model.parts; {known}."
                )
        vectors = torch.cat([self[part.name](part) for part in parts])
        at = torch.cat([part.at for part in parts])
        return x.flatten(0, 1).index_copy(0, at, vectors.to(x.dtype)).view_as(x)


class Embedding(nn.Module):
    """Elements and their positions to the first vectors of the residual stream.

    With a `position_width` W, positions are concatenated (Note C): the element's vector has D - W
    numbers, the position's W, and [x; p] is computed as [x; 0] + [0; p].
    """

    def __init__(
        self,
        element: TokenEmbedding | PatchEmbedding,
        position: PositionVectors | None,
        *,
        n_token_types: int,
        d_model: int,
        norm: Norm | None,
        dropout: float,
        parts: PartEmbeddings,
        position_width: int = 0,
    ):
        super().__init__()
        self.element, self.position, self.norm = element, position, norm
        self.kind = TokenEmbedding(n_token_types, d_model) if n_token_types else None
        self.parts = parts
        self.dropout, self.position_width = Dropout(dropout), position_width

    def forward(
        self,
        elements: Int[Tensor, "B T"] | Float[Tensor, "B T P"],
        positions: Positions,
        token_type_ids: Int[Tensor, "B T"] | None = None,
        parts: Sequence[Part] = (),
    ) -> Float[Tensor, "B U D"]:
        """x_i = element or part + position (+ kind), normalized if the model does so (BERT)."""
        if token_type_ids is not None and self.kind is None:
            raise ConfigError(
                "The batch has token_type_ids (token types) but the model has none; set "
                "model.n_token_types."
            )
        x = tap(self, "elements", self.vectors(elements, parts), "batch position model")
        if self.position is not None:
            p = self.position(positions).to(x.dtype)
            p = F.pad(p, (x.shape[-1] - p.shape[-1], 0)) if self.position_width else p
            x = x + tap(self, "positions", p, "batch position model")
        if self.kind is not None:
            x = x + (self.kind.weight[0] if token_type_ids is None else self.kind(token_type_ids))
        return self.dropout(x if self.norm is None else self.norm(x))

    def vectors(
        self, elements: Int[Tensor, "B T"] | Float[Tensor, "B T P"], parts: Sequence[Part] = ()
    ) -> Float[Tensor, "B U D"]:
        """Vectors of elements and parts without positions: [x; 0] where positions are
        concatenated."""
        x = self.parts(self.element(elements), parts)
        return F.pad(x, (0, self.position_width)) if self.position_width else x
