"""Input interpolation: the answer as a function of each element's share.

    x_j(s) = baseline + s_j (e_j - baseline)        s_j from 0 (baseline) to 1 (the element)

e_j is the row of the embedding, or the mapped patch; positions stay.

The gradient by s_j at 1 is gradient times input, its mean over s from 0 to 1 is the integrated
gradient, and s_j = 0 alone is occlusion. An encoder-decoder's source elements follow the target's.
"""

from collections.abc import Callable

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import LEAF, Look, Replaced, run
from glassformer.inspect.points import check_number
from glassformer.inspect.target import LEARNING, Attribution, Target, in_portions, rerun
from glassformer.layers.embed import Embedding, TokenEmbedding

Baseline = str | int
"""The vector of an absent element: `zero`; `mean`, of this sequence; or a token by its id."""


class Interpolation:
    """The answer to one input by shares [B, N] of its N elements."""

    def __init__(self, look: Look, target: Target, baseline: Baseline = "zero"):
        self.look, self.target, model = look, target, look.model
        vectors: list[Tensor] = []  # before positions, under the look's edits: source, then target
        note = Replaced(LEAF.point, lambda x: vectors.append(x.detach()[0]) or x)
        run(model, look.batch, (), (*look.edits, note))
        self.own, self.count = len(vectors[-1]), sum(map(len, vectors))
        embeds = [model.source_embed or model.embed, model.embed][-len(vectors) :]
        blanks = (_blank(baseline, e, embed) for e, embed in zip(vectors, embeds, strict=True))
        self._ends = [(blank, e - blank) for e, blank in zip(vectors, blanks, strict=True)]

    def logits(self, shares: Float[Tensor, "B _"]) -> Float[Tensor, "B _"]:
        """The logits of the target, differentiable by shares that require a gradient."""
        shares = shares.to(self._ends[0][1])
        parts = [shares[:, self.own :], shares[:, : self.own]][-len(self._ends) :]
        vectors = (
            blank + share[..., None] * difference
            for share, (blank, difference) in zip(parts, self._ends, strict=True)
        )  # the encoder embeds first, and may share its embedding with the decoder
        change = Replaced(LEAF.point, lambda x: next(vectors).to(x.dtype))
        gradients = shares.requires_grad
        return rerun(self.look, self.target, [change], rows=len(shares), gradients=gradients)[0]

    def values(
        self, shares: Float[Tensor, "B _"], read: Callable[[Tensor], Tensor] | None = None
    ) -> Float[Tensor, "B"]:
        """The target for each row of shares, in logits, or another reading of the logits."""
        read = read or self.target.value
        portions = in_portions(len(shares), self.count)
        return torch.cat([read(self.logits(shares[rows])).cpu().double() for rows in portions])

    def slopes(
        self, shares: Float[Tensor, "B _"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B _"]]:
        """The target for each row of shares, and its gradient by them."""
        found = []
        for rows in in_portions(len(shares), self.count, LEARNING):
            leaf = shares[rows].clone().requires_grad_()
            with torch.enable_grad():
                value = self.target.value(self.logits(leaf))
            found.append((value.detach().cpu().double(), *torch.autograd.grad(value.sum(), leaf)))
        values, slopes = map(torch.cat, zip(*found, strict=True))
        return values, slopes

    def attribution(self, method: str, scores: Float[Tensor, "_"]) -> Attribution:
        """Scores of the answering stack's elements, then of the source's, as an attribution."""
        own, source = scores.float().tensor_split([self.own])
        return Attribution(method, self.target, own, source if len(self._ends) == 2 else None)


def _blank(baseline: Baseline, vectors: Tensor, embed: Embedding) -> Tensor:
    """The vector of a baseline; ConfigError: no such baseline."""
    if baseline == "zero":
        return torch.zeros_like(vectors[0])
    if baseline == "mean":
        return vectors.mean(0)
    element = embed.element
    if not isinstance(baseline, int) or not isinstance(element, TokenEmbedding):
        raise ConfigError(
            f"The baseline {baseline!r} is neither 'zero' nor 'mean' nor the id of a token; "
            f"give one of them."
        )
    check_number("token", baseline, len(element.weight))
    with torch.no_grad():
        return embed.vectors(torch.tensor([[baseline]], device=vectors.device))[0, 0]
