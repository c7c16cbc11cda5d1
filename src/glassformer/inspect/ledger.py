"""The residual ledger: one logit as an exact sum over every write into the residual stream.

    logit  =  embedding + Σ heads z_h W_O^h + Σ feed-forward networks + biases

Two things in a Transformer are not sums: a norm divides by a scale, and the heads of BERT bend by
GELU or tanh. Both are FROZEN at their values in this run (u Φ(u) with Φ(u) kept, u · (tanh u / u)
likewise), after which the logit is linear in every part; centring is linear and is not frozen. A
share is the contribution of a part to the logit in this run; the logit without the part is another
number, since the scales would change.

By Euler's theorem a linear function is the sum of its parts times its gradient by them, so the walk
below is the forward pass of the stream alone and the shares are one backward pass through it, in
float64. Source: Note B (residual stream); Elhage et al. 2021 (direct logit attribution).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch.nn import functional as F

from glassformer.axes import Tensor
from glassformer.inspect.look import Look, fires
from glassformer.inspect.target import Target, reading
from glassformer.layers.attention import Attention
from glassformer.layers.block import Block
from glassformer.layers.heads import (
    ClassifyHead,
    LanguageModelHead,
    MaskedLanguageModelHead,
    TagHead,
)
from glassformer.layers.linear import Linear
from glassformer.layers.norm import LayerNorm, Norm


@dataclass(frozen=True)
class Entry:
    """Contribution of one part to the target, in logits.

    `name` is elements, positions, token_types, head, cross, feedforward, or edit: the change
    of the stream by an edit.
    """

    name: str
    layer: int | None
    head: int | None
    value: float


@dataclass(frozen=True)
class Ledger:
    """A logit (or a difference of two) in parts.

    `logit` is the model's own, `total` the sum of all entries and `bias`: the contribution of
    learned constants, the biases behind the heads, of norms and of the head, which are the same for
    every input but for the scales. Biases of feed-forward networks and of values are in entries.
    """

    target: Target
    entries: tuple[Entry, ...]
    bias: float
    logit: float

    @property
    def total(self) -> float:
        """Σ entries + bias."""
        return sum(entry.value for entry in self.entries) + self.bias

    @property
    def gap(self) -> float:
        """|total - logit| / (Σ |entries| + |bias|), the rounding error: below 1e-5 in float32.

        With an entry `edit` it checks only the sum behind that edit: the entry takes up every error
        before it.
        """
        scale = sum(abs(entry.value) for entry in self.entries) + abs(self.bias)
        return abs(self.total - self.logit) / (scale or 1)


def ledger(look: Look, target: int, *, position: int = -1, against: int | None = None) -> Ledger:
    """The logit of outcome `target` at `position` (minus that of `against`) as a sum over parts.

    Of a head that pools, the answer to the whole sequence, and `position` is not read. Of an
    encoder-decoder, the decoder's stream: the share of `cross` came from the source.
    ConfigError: no such outcome or position; other weights than those of the look.
    """
    asked = Target.of(look, target, position, against)
    logit = float(asked.value(on_cpu(asked.logits(look))))
    walk = _Walk(look, asked)
    with torch.enable_grad():
        total = walk.to_the_target()
        if fires(look.edits, *(point for point in look.tape.points if point.endswith("logits"))):
            total = total + walk.part("edit", None, logit - total)
    leaves = [leaf for _, _, leaf in walk.parts]
    gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
    entries: list[Entry] = []
    for (name, layer, leaf), gradient in zip(walk.parts, gradients, strict=True):
        shares = leaf.detach() * gradient
        if name in ("head", "cross"):
            heads = enumerate(shares.sum((0, 2)).tolist())
        else:
            heads = [(None, float(shares.sum()))]
        entries += [Entry(name, layer, head, share) for head, share in heads]
    bias = sum(entry.value for entry in entries if entry.name == "bias")
    return Ledger(asked, tuple(entry for entry in entries if entry.name != "bias"), bias, logit)


class _Walk:
    """The stream of the elements that are read, summed from its parts in float64.

    Each part is a leaf of the gradient.
    """

    def __init__(self, look: Look, target: Target):
        self.look, self.model = look, look.model
        self.outcomes = [i for i in (target.index, target.against) if i is not None]
        self.side, self.stack = look.answering, look.stack()
        self.parts: list[tuple[str, int | None, Tensor]] = []
        weights = reading(look, target)
        self.rows = weights.nonzero()[:, 0]
        self.weights = weights[self.rows]
        self.kept = look.rerun(*self._points()).kept

    def _points(self) -> list[str]:
        """Every point of the stream, and every point at which something joins it."""
        names = ["resid_pre", "attention.z", "attention_out", "resid_mid", "feedforward_out"]
        names += ["resid_post"] + ["cross.z", "cross_out"] * bool(self.look.source_elements)
        return [
            "embed.elements",
            *["embed.positions"] * (self.model.embed.position is not None),
            *(f"{self.side}.blocks.*.{name}" for name in names),
            f"{self.side}.out",
            *["head.pooled"] * isinstance(self.model.head, ClassifyHead),
        ]

    def to_the_target(self) -> Tensor:
        """Embedding, blocks and head, one after the other; the target, linear in every part."""
        x = self.embedded()
        for layer in range(len(self.stack.blocks)):
            x = self.through(layer, x)
        if self.stack.norm is not None:
            x = self.normed(self.stack.norm, x)
        return self.answered(self.settled(f"{self.side}.out", x, None))

    def embedded(self) -> Tensor:
        """Elements, positions and token types, and the embedding's norm if there is one."""
        embed = self.model.embed
        x = self.part("elements", None, self.seen("embed.elements"))
        if embed.position is not None:
            x = x + self.part("positions", None, self.seen("embed.positions"))
        if embed.kind is not None:
            types = self.look.batch.token_type_ids
            types = torch.zeros_like(self.rows) if types is None else types[0].cpu()[self.rows]
            x = x + self.part("token_types", None, on_cpu(embed.kind.weight)[types])
        return x if embed.norm is None else self.normed(embed.norm, x)

    def through(self, layer: int, x: Tensor) -> Tensor:
        """One block: self-attention, cross-attention if there is one, feed-forward network."""
        block, point = cast(Block, self.stack.blocks[layer]), f"{self.side}.blocks.{layer}"
        x = self.settled(f"{point}.resid_pre", x, layer)
        own = self.attended("head", layer, f"{point}.attention", block.attention)
        x = self.joined(block, x, own, block.attention_norm)
        if block.cross is not None and block.cross_norm is not None:
            read = self.attended("cross", layer, f"{point}.cross", block.cross)
            x = self.joined(block, x, read, block.cross_norm)
        x = self.settled(f"{point}.resid_mid", x, layer)
        fed = self.part("feedforward", layer, self.seen(f"{point}.feedforward_out"))
        x = self.joined(block, x, fed, block.feedforward_norm)
        return self.settled(f"{point}.resid_post", x, layer)

    def joined(self, block: Block, x: Tensor, branch: Tensor, norm: Norm) -> Tensor:
        """Pre-norm joins a branch as it is, post-norm normalizes the sum."""
        x = block.join(x, branch)
        return x if block.pre_norm else self.normed(norm, x)

    def attended(self, name: str, layer: int, point: str, attention: Attention) -> Tensor:
        """Σ_h z_h W_O^h + b_O; the heads are parts."""
        z = self.part(name, layer, on_cpu(self.kept[f"{point}.z"])[0].transpose(0, 1)[self.rows])
        return self.settled(f"{point}_out", self.mapped(attention.out_proj, z.flatten(1)), layer)

    def answered(self, x: Tensor) -> Tensor:
        """Output of the head for the target, its nonlinearities frozen."""
        last = head = self.model.head
        if isinstance(head, ClassifyHead):
            if head.distilled_proj is None:
                x = (self.weights[:, None] * x).sum(0, keepdim=True)
            if head.dense is not None:
                x = frozen(self.mapped(head.dense, x), head.activation)
            x, last = self.settled("head.pooled", x, None), head.proj
            if head.distilled_proj is not None and head.proj is not None:
                return (self.scored(head.proj, x[0]) + self.scored(head.distilled_proj, x[1])) / 2
        elif isinstance(head, MaskedLanguageModelHead):
            x = frozen(self.mapped(head.dense, x), head.activation)
            x, last = self.normed(head.norm, x), head.unembed
        elif isinstance(head, TagHead):
            last = head.proj
        if isinstance(last, LanguageModelHead):
            x = x * last.factor
        if not isinstance(last, LanguageModelHead | Linear):
            return self.difference(x[0])  # no last map: the numbers themselves
        return self.scored(last, x)

    def scored(self, last: LanguageModelHead | Linear, x: Tensor) -> Tensor:
        """x times the target's row of the last map, its bias a part."""
        x = (x * self.difference(last.weight)).sum()
        return x if last.bias is None else self.biased(x, self.difference(last.bias))

    def difference(self, outcomes: Tensor) -> Tensor:
        """The target's row, minus that of the other outcome if there is one."""
        found = outcomes[self.outcomes].cpu().double()
        return found[0] - found[1:].sum(0)

    def mapped(self, linear: Linear, x: Tensor) -> Tensor:
        """x Wᵀ + b, the bias a part."""
        return self.biased(F.linear(x, on_cpu(linear.matrix)), linear.bias)

    def normed(self, norm: Norm, x: Tensor) -> Tensor:
        """The norm with its scale frozen, its bias a part."""
        if isinstance(norm, LayerNorm):
            x = x - x.mean(-1, keepdim=True)
        inverse = (x.detach().square().mean(-1, keepdim=True) + norm.epsilon).rsqrt()
        return self.biased(x * inverse * on_cpu(norm.weight), getattr(norm, "bias", None))

    def biased(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x + b, a part."""
        return x if bias is None else x + self.part("bias", None, on_cpu(bias))

    def settled(self, point: str, x: Tensor, layer: int | None) -> Tensor:
        """The stream at a point; an edit there is a part of its own."""
        if not fires(self.look.edits, point):
            return x
        return x + self.part("edit", layer, self.seen(point).view_as(x) - x.detach())

    def seen(self, point: str) -> Tensor:
        """Recorded values of a point, at the elements that are read."""
        kept = on_cpu(self.kept[point])[0]
        if kept.dim() == 1:
            return kept  # pooled
        return kept[self.rows if len(kept) > 1 else torch.zeros_like(self.rows)]

    def part(self, name: str, layer: int | None, value: Tensor) -> Tensor:
        """A part of the sum."""
        leaf = value.detach().clone().requires_grad_()
        self.parts.append((name, layer, leaf))
        return leaf


def frozen(u: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """φ(u) as u times φ(u) / u, a constant (1 at 0, where it does not matter)."""
    flat = u.detach()
    return u * torch.where(flat == 0, 1.0, activation(flat) / flat)


def on_cpu(tensor: Tensor) -> Tensor:
    """Detached, in float64 on the CPU, where the sum is taken."""
    return tensor.detach().cpu().double()
