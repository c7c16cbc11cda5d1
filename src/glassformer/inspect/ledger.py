"""The residual ledger: one logit as an exact sum over everything that ever wrote into the stream.

    logit  =  embedding + Σ heads z_h W_O^h + Σ feed-forward networks + biases

Two things in a Transformer are not sums: a norm divides by a scale, and the heads of BERT bend by
GELU or tanh. Both are FROZEN at their values in this run (u Φ(u) with Φ(u) kept, u · (tanh u / u)
likewise), after which the logit is linear in every part; centring is linear and is not frozen. So a
share says what a part wrote towards the logit in this run; it does not say what the logit would be
without the part, whose absence would change the scales.

By Euler's theorem a linear function is the sum of its parts times its gradient by them, so the walk
below is the forward pass of the stream alone and the shares are one backward pass through it, in
float64. Source: Note B (residual stream); Elhage et al. 2021 (direct logit attribution).
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.inspect.look import Look, fires, run
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
from glassformer.layers.norm import LayerNorm, RMSNorm


@dataclass(frozen=True)
class Entry:
    """What one part wrote towards the target, in logits.

    `name` is elements, positions, token_types, head, cross, feedforward, or edit: what an edit
    put into the stream there.
    """

    name: str
    layer: int | None
    head: int | None
    value: float


@dataclass(frozen=True)
class Ledger:
    """A logit (or a difference of two) in parts: `logit` is the model's own, `total` the sum of all
    entries and `bias`.

    `bias` is what the learned constants wrote: biases behind the heads, of norms and of the head,
    which are the same for every input but for the scales. The feed-forward networks' and the
    values' are with them.
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
    def scale(self) -> float:
        """Σ |entries| + |bias|: what `gap` is small against."""
        return sum(abs(entry.value) for entry in self.entries) + abs(self.bias)

    @property
    def gap(self) -> float:
        """|total - logit| / scale, in [0, 1]: the rounding of the model's own precision, below 1e-5
        in float32."""
        return abs(self.total - self.logit) / self.scale if self.scale else abs(self.logit)

    def of(self, name: str) -> Float[Tensor, "L H"] | Float[Tensor, "L"]:
        """The shares of all entries of one name: `head` and `cross` [L, H], `feedforward` [L],
        others [1]."""
        found = [entry for entry in self.entries if entry.name == name]
        values = torch.tensor([entry.value for entry in found])
        return (
            values.view(-1, len({entry.head for entry in found}))
            if found and found[0].head is not None
            else values
        )


def ledger(look: Look, target: int, *, position: int = -1, against: int | None = None) -> Ledger:
    """The logit of outcome `target` at `position` (minus that of `against`) as the sum of what
    every part wrote.

    Of a head that pools, the answer to the whole sequence, and `position` is not read. Of an
    encoder-decoder, the decoder's stream: what it read of the source is the share of `cross`.
    ConfigError: no such outcome or position.
    """
    asked = Target.of(look, target, position, against)
    logits = look.logits if asked.position is None else look.logits[asked.position]
    logit = float(asked.value(logits[None].double()))
    walk = _Walk(look, asked)
    with torch.enable_grad():
        total = walk.to_the_target()
        if any(walk.edited(point) for point in look.tape.points if point.endswith("logits")):
            total = total + walk.part("edit", None, logit - total)
    leaves = [leaf for _, _, leaf in walk.parts]
    gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
    entries: list[Entry] = []
    bias = 0.0
    for (name, layer, leaf), gradient in zip(walk.parts, gradients, strict=True):
        shares = leaf.detach() * gradient
        if name == "bias":
            bias += float(shares.sum())
        elif name in ("head", "cross"):
            entries += [
                Entry(name, layer, head, float(share))
                for head, share in enumerate(shares.sum((0, 2)))
            ]
        else:
            entries.append(Entry(name, layer, None, float(shares.sum())))
    return Ledger(asked, tuple(entries), bias, logit)


class _Walk:
    """The stream of the elements that are read, put together again from its parts in float64; each
    part is a leaf."""

    def __init__(self, look: Look, target: Target):
        self.look, self.model, self.target = look, look.model, target
        self.outcomes = [target.index] if target.against is None else [target.index, target.against]
        self.side, self.stack = look.answering, look.stack()
        self.parts: list[tuple[str, int | None, Tensor]] = []
        weights = reading(look, target)
        self.rows = weights.nonzero()[:, 0]
        self.weights = weights[self.rows]
        self.kept = run(look.model, look.batch, self._points(), look.edits)[1].kept

    def _points(self) -> tuple[str, ...]:
        """Every point at which something joins the stream, and every point of the stream."""
        embedding = ["elements"] if self.model.embed.position is None else ["elements", "positions"]
        block = [
            "resid_pre",
            "attention.z",
            "attention_out",
            "resid_mid",
            "feedforward_out",
            "resid_post",
        ]
        block += ["cross.z", "cross_out"] if self.look.source_elements else []
        layers = range(len(self.stack.blocks))
        blocks = [f"{self.side}.blocks.{layer}.{name}" for layer in layers for name in block]
        head = ["head.pooled"] if isinstance(self.model.head, ClassifyHead) else []
        return (*(f"embed.{name}" for name in embedding), *blocks, f"{self.side}.out", *head)

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
            kinds = self.look.batch.token_type_ids
            table = exact(embed.kind.weight)
            rows = (
                table[:1].expand(len(self.rows), -1)
                if kinds is None
                else table[kinds[0].cpu()[self.rows]]
            )
            x = x + self.part("token_types", None, rows)
        return x if embed.norm is None else self.normed(embed.norm, x)

    def through(self, layer: int, x: Tensor) -> Tensor:
        """One block: pre-norm joins each branch as it is, post-norm normalizes the sum."""
        block, point = cast(Block, self.stack.blocks[layer]), f"{self.side}.blocks.{layer}"
        pre = block.pre_norm

        def joined(x: Tensor, branch: Tensor, norm: LayerNorm | RMSNorm) -> Tensor:
            x = block.join(x, branch)
            return x if pre else self.normed(norm, x)

        x = self.settled(f"{point}.resid_pre", x, layer)
        x = joined(
            x,
            self.attended("head", layer, f"{point}.attention", block.attention),
            block.attention_norm,
        )
        if block.cross is not None and block.cross_norm is not None:
            x = joined(
                x, self.attended("cross", layer, f"{point}.cross", block.cross), block.cross_norm
            )
        x = self.settled(f"{point}.resid_mid", x, layer)
        fed = self.part("feedforward", layer, self.seen(f"{point}.feedforward_out"))
        return self.settled(f"{point}.resid_post", joined(x, fed, block.feedforward_norm), layer)

    def attended(self, name: str, layer: int, point: str, attention: Attention) -> Tensor:
        """Σ_h z_h W_O^h + b_O: the heads are parts, which the matrix behind them only turns."""
        z = self.part(name, layer, exact(self.kept[f"{point}.z"])[0].transpose(0, 1)[self.rows])
        return self.settled(f"{point}_out", self.mapped(attention.out_proj, z.flatten(1)), layer)

    def answered(self, x: Tensor) -> Tensor:
        """The head's answer to what it reads, its bends frozen."""
        head = self.model.head
        if isinstance(head, ClassifyHead):
            x = (self.weights[:, None] * x).sum(0, keepdim=True)
            if head.dense is not None:
                u = self.mapped(head.dense, x)
                flat = u.detach()
                x = u * torch.where(flat == 0, 1.0, flat.tanh() / flat)
            x = self.settled("head.pooled", x, None)
            return (
                self.chosen(x)
                if head.proj is None
                else self.read(x, head.proj.weight, head.proj.bias)
            )
        if isinstance(head, MaskedLanguageModelHead):
            u = self.mapped(head.dense, x)
            x = self.normed(head.norm, u * torch.special.ndtr(u.detach()))
            head = head.unembed
        if isinstance(head, LanguageModelHead):
            return self.read(x * head.factor, head.weight, head.bias)
        return (
            self.read(x, head.proj.weight, head.proj.bias)
            if isinstance(head, TagHead)
            else self.chosen(x)
        )

    def read(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The target's row of the last map, minus that of the other outcome."""
        x = (x * self.difference(exact(weight[self.outcomes]))).sum()
        return (
            x
            if bias is None
            else x + self.part("bias", None, self.difference(exact(bias[self.outcomes])))
        )

    def chosen(self, x: Tensor) -> Tensor:
        """Of a head without a last map, the numbers themselves."""
        return self.difference(x[0, self.outcomes])

    def difference(self, found: Tensor) -> Tensor:
        """The first, minus the second if there is one."""
        return found[0] if len(found) == 1 else found[0] - found[1]

    def mapped(self, linear: Linear, x: Tensor) -> Tensor:
        """x Wᵀ + b, the bias a part."""
        x = F.linear(x, exact(linear.weight))
        bias = cast(Tensor | None, linear.bias)
        return x if bias is None else x + self.part("bias", None, exact(bias))

    def normed(self, norm: LayerNorm | RMSNorm, x: Tensor) -> Tensor:
        """The norm with its scale frozen, its bias a part."""
        if isinstance(norm, LayerNorm):
            x = x - x.mean(-1, keepdim=True)
        x = (
            x
            * (x.detach().square().mean(-1, keepdim=True) + norm.epsilon).rsqrt()
            * exact(norm.weight)
        )
        bias = norm.bias if isinstance(norm, LayerNorm) else None
        return x if bias is None else x + self.part("bias", None, exact(bias))

    def settled(self, point: str, x: Tensor, layer: int | None) -> Tensor:
        """The stream at a point; what an edit put there that no part wrote is a part of its own."""
        return (
            x + self.part("edit", layer, self.seen(point) - x.detach()) if self.edited(point) else x
        )

    def edited(self, point: str) -> bool:
        """Whether an edit of the look acts at a point."""
        return any(fires(edit, point) for edit in self.look.edits)

    def seen(self, point: str) -> Tensor:
        """What the run had at a point, at the elements that are read."""
        kept = exact(self.kept[point])[0]
        if kept.dim() == 1:
            return kept  # pooled
        return kept[self.rows if len(kept) > 1 else torch.zeros_like(self.rows)]

    def part(self, name: str, layer: int | None, value: Tensor) -> Tensor:
        """A part of the sum."""
        leaf = value.detach().clone().requires_grad_()
        self.parts.append((name, layer, leaf))
        return leaf


def exact(tensor: Tensor) -> Tensor:
    """In float64, where the sum is taken."""
    return tensor.detach().cpu().double()
