"""Elements that can be dimmed: each one's vector between a baseline (share 0) and itself (share 1).

    x_j(s) = baseline + s_j (e_j - baseline)        e_j: the row of the embedding, the mapped patch; positions stay

Taking an element away, putting it in again and every gradient by the input are questions about
these shares: the gradient by s_j at 1 is gradient times input, its mean over s from 0 to 1 is the
integrated gradient, and s_j = 0 alone is occlusion. Of an encoder-decoder the source's elements
follow the target's.
"""

from collections.abc import Callable

import torch

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.look import Look, run
from glassformer.inspect.target import (
    LEARNING,
    Check,
    Replaced,
    Target,
    in_portions,
    rerun,
    slopes_by,
    unchecked,
)
from glassformer.layers.embed import Embedding, TokenEmbedding

Baseline = str | int
"""What stands for nothing: `zero`, a vector of zeros; `mean`, the mean of this sequence; or a token
by its id."""


class Dimmer:
    """The answer to one input as a function of its elements' shares [B, N]; N counts the source's
    elements too.

    `check` is called between passes.
    """

    def __init__(
        self, look: Look, target: Target, baseline: Baseline = "zero", check: Check = unchecked
    ):
        self.look, self.target, self._check = look, target, check
        vectors = element_vectors(look)
        self.own = len(vectors[-1])
        self.count = sum(map(len, vectors))
        model = look.model
        embeds = (
            [model.embed] if len(vectors) == 1 else [model.source_embed or model.embed, model.embed]
        )
        self._blank = [_blank(baseline, e, embed) for e, embed in zip(vectors, embeds, strict=True)]
        self._lit = [e - blank for e, blank in zip(vectors, self._blank, strict=True)]

    def logits(self, shares: Float[Tensor, "B _"]) -> Float[Tensor, "B _"]:
        """The logits from which the target is read, which can be differentiated by shares that ask
        for it."""
        shares = shares.to(self._lit[0])
        own, source = shares[:, : self.own], shares[:, self.own :]
        vectors = [
            blank + share[..., None] * lit
            for share, blank, lit in zip(
                ([own] if len(self._lit) == 1 else [source, own]),
                self._blank,
                self._lit,
                strict=True,
            )
        ]
        return rerun(
            self.look,
            self.target,
            swaps(self.look, vectors),
            rows=len(shares),
            gradients=shares.requires_grad,
        )[0]

    def values(self, shares: Float[Tensor, "B _"]) -> Float[Tensor, "B"]:
        """The target for each row of shares, in logits."""
        return self._by_rows(shares, self.target.value)

    def probabilities(self, shares: Float[Tensor, "B _"]) -> Float[Tensor, "B"]:
        """Its probability for each row of shares."""
        return self._by_rows(shares, self.target.probability)

    def slopes(
        self, shares: Float[Tensor, "B _"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B _"]]:
        """The target for each row of shares, and its gradient by them."""
        found = []
        for rows in in_portions(len(shares), self.count, LEARNING):
            self._check()
            leaf = shares[rows].clone().requires_grad_()
            with torch.enable_grad():
                value = self.target.value(self.logits(leaf))
            found.append((value.detach().cpu().double(), slopes_by(value.sum(), [leaf])[0]))
        values, slopes = (torch.cat(parts) for parts in zip(*found, strict=True))
        return values, slopes

    def split(
        self, scores: Float[Tensor, "_"]
    ) -> tuple[Float[Tensor, "T"], Float[Tensor, "S"] | None]:
        """What belongs to the elements of the stack that answers, and to those of the source."""
        return scores[: self.own], scores[self.own :] if len(self._lit) == 2 else None

    def _by_rows(self, shares: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
        found = []
        for rows in in_portions(len(shares), self.count):
            self._check()
            found.append(read(self.logits(shares[rows])).cpu().double())
        return torch.cat(found)


def element_vectors(look: Look) -> list[Float[Tensor, "_ D"]]:
    """The elements' vectors before positions join them, under the look's edits: the source's, then
    the others."""
    seen: list[Tensor] = []

    def noted(x: Tensor) -> Tensor:
        seen.append(x.detach()[0])
        return x

    run(
        look.model,
        look.batch,
        (),
        (*look.edits, *(Replaced(point, noted) for point in _points(look))),
    )
    return seen


def swaps(look: Look, vectors: list[Float[Tensor, "B _ D"]]) -> list[Replaced]:
    """Changes that put these vectors in the elements' place, in the order of `element_vectors`."""
    turns = iter(vectors)  # the encoder embeds first, and may share its embedding with the decoder
    return [Replaced(point, lambda x: next(turns).to(x.dtype)) for point in _points(look)]


def _points(look: Look) -> list[str]:
    return (
        ["embed.elements"]
        if look.model.source_embed is None
        else ["source_embed.elements", "embed.elements"]
    )


def _blank(baseline: Baseline, vectors: Tensor, embed: Embedding) -> Tensor:
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
    if not 0 <= baseline < len(element.weight):
        raise ConfigError(
            f"The baseline {baseline} is no token; ids are 0 to {len(element.weight) - 1}."
        )
    with torch.no_grad():
        return embed.vectors(torch.tensor([[baseline]], device=vectors.device))[0, 0]
