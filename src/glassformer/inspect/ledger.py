"""The residual ledger: one logit as an exact sum over every write into the residual stream.

    embedding + Σ heads z_h W_O^h + Σ feed-forward networks + biases  ->  logit

Two things in a Transformer are not sums: a norm divides by a scale, and the heads of BERT bend by
GELU or tanh. Both are FROZEN at their values in this run (u Φ(u) with Φ(u) kept, u · (tanh u / u)
likewise). After this the logit is linear in every part. Centring is linear and is not frozen. A
share is the contribution of a part to the logit in this run. The logit without the part is another
number, since the scales would change.

By Euler's theorem a linear function is the sum of its parts times its gradient by them. So the
model runs once more with its nonlinearities frozen, every part a leaf of the gradient, and the
shares are one backward pass. Source: Note B (residual stream); Elhage et al. 2021 (direct logit
attribution).
"""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from glassformer.core.axes import Tensor
from glassformer.inspect.look import Look
from glassformer.inspect.target import Target, rerun
from glassformer.layers.heads import ClassifyHead, MaskedLanguageModelHead
from glassformer.layers.norm import LayerNorm, Norm, RMSNorm
from glassformer.layers.tap import Change
from glassformer.models.transformer import Transformer

JOINING = {
    "embed.elements": "elements",
    "embed.positions": "positions",
    "attention.z": "head",
    "cross.z": "cross",
    "feedforward_out": "feedforward",
}
"""Names of the parts by the ends of the points where they join the stream."""
STREAM = {"resid_pre", "resid_mid", "resid_post", "attention_out", "cross_out", "out"}
STREAM |= {"head.pooled", "head.logits", "head.unembed.logits"}
"""Ends of the points where the change by an edit is a part."""


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

    `logit` is the model's own, `total` the sum of all entries and `bias`. `bias` is the
    contribution of learned constants: biases of output projections, of norms and of the head. Those
    of feed-forward networks and of values are in entries.
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

        With an entry `edit` it checks only the sum after that edit.
        """
        scale = sum(abs(entry.value) for entry in self.entries) + abs(self.bias)
        return abs(self.total - self.logit) / (scale or 1)


def ledger(look: Look, target: int, *, position: int = -1, against: int | None = None) -> Ledger:
    """The logit of outcome `target` at `position` (minus that of `against`) as a sum over parts.

    Of a head that pools, the answer to the whole sequence, and `position` is not read. Of an
    encoder-decoder, the decoder's stream: the share of `cross` came from the source.
    ConfigError: no such outcome or position; other weights than those of the look.
    """
    wanted = Target.of(look, target, position, against)
    look.rerun()
    model, side, parts = _frozen(look.model), look.answering, {}
    edits = tuple(_Leaf(edit.point, side, parts, edit) for edit in look.edits)
    joining = [
        _Leaf(point, side, parts) for point in look.tape.points if _place(point, side)[1] in JOINING
    ]
    own = replace(look, model=model, edits=edits)
    logits, _ = rerun(own, wanted, joining, gradients=True)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parts[name] = "bias" if name.endswith("bias") else "token_types", None, parameter
    leaves = [leaf for _, _, leaf in parts.values()]
    with torch.enable_grad():
        value = wanted.value(logits)[0]
    gradients = torch.autograd.grad(value, leaves, materialize_grads=True)
    entries, bias = [], 0.0
    for (name, layer, leaf), gradient in zip(parts.values(), gradients, strict=True):
        shares = leaf.detach().cpu().double() * gradient.cpu().double()
        if name == "bias":
            bias += float(shares.sum())
        elif name in ("head", "cross"):
            heads = enumerate(shares.sum((0, 2, 3)).tolist())
            entries += [Entry(name, layer, *one) for one in heads]
        else:
            entries.append(Entry(name, layer, None, float(shares.sum())))
    logit = float(wanted.value(wanted.logits(look).detach().double()))
    return Ledger(wanted, tuple(entries), bias, logit)


@dataclass(frozen=True)
class _Leaf:
    """Make the tensor of a point, or the change by an edit of it, a leaf of the gradient."""

    point: str
    side: str
    parts: dict[object, tuple[str, int | None, Tensor]]
    edit: Change | None = None

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor to continue with."""
        layer, end = _place(point, self.side)
        if self.edit is None:
            name, before, after = JOINING[end], torch.zeros_like(tensor), tensor
        else:
            name, before, after = "edit", tensor, self.edit(tensor, axes, point)
            if end not in STREAM:
                return after
        leaf = (after - before).detach().requires_grad_()
        self.parts[id(self), point] = name, layer, leaf
        return before + leaf


def _place(point: str, side: str) -> tuple[int | None, str]:
    """Layer of a point, and its name without stack and layer; the whole name in another stack."""
    found = re.fullmatch(rf"(?:{side}\.)?(?:blocks\.(\d+)\.)?(.+)", point)
    assert found is not None
    return None if found[1] is None else int(found[1]), found[2]


def _frozen(model: Transformer) -> Transformer:
    """The model with its own weights, and with the scales of norms and heads held constant.

    Biases and token types are leaves of the gradient.
    """
    leaf = lambda name: name.endswith("bias") or name == "embed.kind.weight"
    memo: dict[int, object] = {id(buffer): buffer for buffer in model.buffers()}
    for name, own in model.named_parameters():
        memo[id(own)] = nn.Parameter(own.detach(), requires_grad=leaf(name))
    model = copy.deepcopy(model, memo)
    for module in model.modules():
        if isinstance(module, LayerNorm | RMSNorm):
            module.forward = partial(_normalize, module)
        elif isinstance(module, ClassifyHead | MaskedLanguageModelHead):
            module.activation = partial(_scale, module.activation)
    return model


def _normalize(norm: Norm, x: Tensor) -> Tensor:
    """The norm with its scale frozen."""
    if isinstance(norm, LayerNorm):
        x = x - x.mean(-1, keepdim=True)
    x = x * (x.detach().square().mean(-1, keepdim=True) + norm.epsilon).rsqrt() * norm.weight
    bias = getattr(norm, "bias", None)
    return x if bias is None else x + bias


def _scale(activation: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """φ(u) as u times φ(u) / u, a constant (1 at 0, where it does not matter)."""
    flat = u.detach()
    return u * torch.where(flat == 0, 1.0, activation(flat) / flat)
