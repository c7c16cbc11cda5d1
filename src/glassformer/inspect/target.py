"""The target of an explanation, a logit or a difference of two, and the model rerun for it.

    rerun(look, rows=B, changes=...)  ->  logits [B, V]

The rows are the same input B times, each changed in its own way.

Every explanation by intervention uses `rerun`. Explanations by shares s_j of the elements, from 0
(the baseline) to 1 (the element), use `Interpolation`:

    s_j  ->  x_j = baseline + s_j (e_j - baseline)

The vector e_j is the row of the embedding, or the mapped patch; positions stay. The gradient by s_j
at 1 is gradient times input. Its mean over s from 0 to 1 is the integrated gradient. s_j = 0 for
one element is occlusion. An encoder-decoder's source elements follow the target's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Batch, Part
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import Look, precise, run
from glassformer.inspect.points import LEAF, Replaced, check_number, fires
from glassformer.layers.embed import Embedding, TokenEmbedding
from glassformer.layers.heads import ClassifyHead
from glassformer.layers.losses import EXCLUSIVE, Outcomes
from glassformer.layers.tap import Change, Tape

ELEMENTS = 1 << 13
"""Elements in one forward pass of a batch."""
LEARNING = 1 << 10
"""The same with gradients, which keep the activations of every layer."""
Rows = Float[Tensor, "B _"]
"""Logits, or shares of elements, of each of B changes."""
Numbers = Float[Tensor, "B"]
Baseline = str | int
"""The vector of an absent element: `zero`; `mean`, of this sequence; or a token by its id."""


@dataclass(frozen=True)
class Target:
    """The logit of outcome `index` (minus that of `against`) at `position`; None: of a class."""

    index: int
    against: int | None
    position: int | None
    outcomes: Outcomes = EXCLUSIVE

    @classmethod
    def of(cls, look: Look, index: int, position: int = -1, against: int | None = None) -> Self:
        """The target in a look; ConfigError: no such outcome or position."""
        for outcome in (index, index if against is None else against):
            check_number("outcome", outcome, look.logits.shape[-1])
        pooled = isinstance(look.model.head, ClassifyHead)
        at = None if pooled else index_in(position, look.positions().length)
        return cls(index, against, at, look.model.config.outcomes)

    def logits(self, look: Look) -> Float[Tensor, "1 V"]:
        """The logits of a look from which the target is read."""
        return look.logits[None] if self.position is None else look.logits[None, self.position]

    def value(self, logits: Rows) -> Numbers:
        """The target of each row, in logits."""
        wanted = logits[:, self.index]
        return wanted if self.against is None else wanted - logits[:, self.against]

    def probability(self, logits: Rows) -> Numbers:
        """The outcome's probability in each row; with `against`, that among the two."""
        if self.against is not None:
            return self.value(precise(logits)).sigmoid()
        return self.outcomes.log_probabilities(precise(logits))[:, self.index].exp()


@dataclass(frozen=True)
class Attribution:
    """A score for each element of the answering stack, and for each of an encoder-decoder's source.

    Gradients, integrated gradients and occlusion: in logits, of either sign; the others: at least
    0. `value`: the target in logits, with which such scores compare. Of integrated gradients,
    `change` is the target minus the target at the baseline, the sum of the scores but for `gap`, as
    a share of it; `steps` is the number of gradients.
    """

    method: str
    target: Target
    scores: Float[Tensor, "T"]
    source_scores: Float[Tensor, "S"] | None = None
    value: float = math.nan
    change: float | None = None
    gap: float | None = None
    steps: int | None = None


def index_in(
    position: int, length: int, noun: str = "position", where: str = "this sequence"
) -> int:
    """A position counted from the beginning; negative ones count from the end.

    ConfigError: no such position.
    """
    if not -length <= position < 0:
        check_number(noun, position, length, where)
    return position % length


def reading(look: Look, target: Target) -> Float[Tensor, "T"]:
    """The weight of each element in the head's input: the pooling of an identity matrix, halves of
    two that are read apart."""
    places, head = look.positions().to("cpu"), look.model.head
    one = torch.eye(places.length, dtype=torch.float64)
    if target.position is not None:
        return one[target.position]
    assert isinstance(head, ClassifyHead)
    return head.vectors(one[None], places)[: head.n_read].mean(0)


def rerun(
    look: Look,
    target: Target,
    changes: Sequence[Change] = (),
    *,
    rows: int = 1,
    keep: Sequence[str] = (),
    gradients: bool = False,
) -> tuple[Rows, Tape]:
    """Run a look's model on `rows` copies of its input, under its edits and then `changes`.

    Gives the logits of the target, [rows, V], and the tape.
    """
    batch = repeat(look.batch, rows)
    length, edits = look.positions().length, (*look.edits, *changes)
    ends = (point for point in look.tape.points if point.endswith("logits"))
    # An edit of the logits addresses them by position, so all of them are computed.
    whole, at = fires(edits, *ends), target.position
    if at is not None and not whole:
        batch = replace(batch, at=torch.arange(rows, device=batch.elements.device) * length + at)
    output, tape = run(look.model, batch, keep, edits, gradients)
    return output.logits if at is None or not whole else output.logits[:, at], tape


def in_portions(rows: int, length: int, elements: int = ELEMENTS) -> Sequence[Int[Tensor, "_"]]:
    """Split the numbers 0 .. rows - 1 into passes of at most `elements` elements."""
    return torch.arange(rows).split(max(1, elements // max(1, length)))


def repeat(batch: Batch, rows: int) -> Batch:
    """Repeat a batch of one row `rows` times."""
    length = batch.elements.shape[1]

    def repeat_part(part: Part) -> Part:
        at = part.at + torch.arange(rows, device=part.at.device)[:, None] * length
        return Part(part.name, at.flatten(), part.values.repeat(rows, 1), part.index.repeat(rows))

    types, source = batch.token_type_ids, batch.source
    return replace(
        batch,
        elements=batch.elements.expand(rows, *batch.elements.shape[1:]),
        token_type_ids=None if types is None else types.expand(rows, -1),
        source=None if source is None else repeat(source, rows),
        parts=tuple(map(repeat_part, batch.parts)),
    )


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

    def logits(self, shares: Rows) -> Rows:
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

    def values(self, shares: Rows, read: Callable[[Tensor], Tensor] | None = None) -> Numbers:
        """The target for each row of shares, in logits, or another reading of the logits."""
        read, portions = read or self.target.value, in_portions(len(shares), self.count)
        return torch.cat([read(self.logits(shares[rows])).cpu().double() for rows in portions])

    def slopes(self, shares: Rows) -> tuple[Numbers, Rows]:
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
    if not (isinstance(baseline, int) and isinstance(element := embed.element, TokenEmbedding)):
        raise ConfigError(
            f"The baseline {baseline!r} is neither 'zero' nor 'mean' nor the id of a token; "
            f"give one of them."
        )
    check_number("token", baseline, len(element.weight))
    with torch.no_grad():
        return embed.vectors(torch.tensor([[baseline]], device=vectors.device))[0, 0]
