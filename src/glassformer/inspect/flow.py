"""Attention flow to the position that is read: attention rollout and its gradient form.

    R <- own R + cross [0 | R_source]

R [T, T + S] begins as [1 | 0], R_source [S, S] of the encoder as 1. A method defines the weight of
each key in each query of an attention. The row of R at the answer's position (for a head that
pools, the pooled rows) is the score of every element.
"""

from collections.abc import Callable, Sequence

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.inspect.look import Look
from glassformer.inspect.target import Attribution, Target, reading, rerun

Attended = Callable[[str], Float[Tensor, "T _"]]
"""Weights between queries and keys of an attention, given its path; float64."""


def rollout(look: Look, target: Target) -> Attribution:
    """R = Π (1 + A) / 2, A the mean over heads; half of each layer is the residual connection.

    R = Π A without residual connections. Independent of the outcome. Cross-attention is one more
    branch, so rows of R sum to 1. Source: Abnar & Zuidema 2020.
    """
    kept = 0.5 if look.model.config.residual else 0.0
    mean = lambda place: look[f"{place}.pattern"].tensor.cpu().double().mean(0)
    _, own, source = _follow(look, target, mean, kept, 1 - kept)
    return Attribution("rollout", target, own.float(), source)


def gradient_attention(look: Look, target: Target) -> Attribution:
    """R = Π (1 + Ā) - 1, Ā the mean over heads of (∇A ⊙ A)⁺: attention in favour of the target.

    Only the residual connection is subtracted; without it, R = Π Ā. Since z = A v, ∇A = ∇z vᵀ: no
    pattern is kept for the backward pass. Source: Chefer et al. 2021 (generic attention
    explainability, without their normalization between two sequences).
    """
    names = [point for point in look.tape.points if point.endswith(".z")]
    logits, tape = rerun(look, target, keep=names, gradients=True)
    # z before its own edits, which come after the pattern
    outputs = [tape.before.get(name, tape.kept[name]) for name in names]
    found = torch.autograd.grad(target.value(logits).sum(), outputs, materialize_grads=True)
    slopes = dict(zip(names, found, strict=True))
    del logits, tape, outputs

    def relevant(place: str) -> Tensor:
        slope, v = slopes[f"{place}.z"][0], look[f"{place}.v"].tensor
        by_pattern = slope @ v.repeat_interleave(len(slope) // len(v), 0).mT
        positive = (by_pattern * look[f"{place}.pattern"].tensor).clamp(min=0)
        return positive.cpu().double().mean(0)

    kept = float(look.model.config.residual)
    begin, own, source = _follow(look, target, relevant, kept, 1)
    return Attribution("gradient_attention", target, (own - kept * begin).float(), source)


def _follow(
    look: Look, target: Target, attended: Attended, kept: float, share: float
) -> tuple[Float[Tensor, "T"], Float[Tensor, "T"], Float[Tensor, "S"] | None]:
    """Multiply the layers from the answer backwards: the row of R at the beginning and at the end,
    and the source's part.

    A branch is `kept` times the stream and `share` times the values that it reads.
    """
    side, config, crossed = look.answering, look.model.config, bool(look.source_elements)

    def step(block: str, names: Sequence[str]) -> Tensor:
        """[own | cross]: share of each key, own and source, in each query of a block."""
        own, *cross = (share * attended(f"{block}.{name}") for name in names)
        own = own + kept * torch.eye(len(own), dtype=own.dtype)
        return torch.cat([kept * own, *cross], 1) if cross else own

    # Only the row that is read is carried, from the end to the beginning.
    row = begin = reading(look, target)
    source = torch.zeros(len(look.source_elements), dtype=row.dtype)
    beside = torch.eye(len(source), dtype=row.dtype)
    for layer in range(config.depth("encoder")) if crossed else ():
        beside = step(f"encoder.blocks.{layer}", ["attention"]) @ beside
    names = ["attention", "cross"] if crossed else ["attention"]
    for layer in reversed(range(config.depth(side))):
        row, across = (row @ step(f"{side}.blocks.{layer}", names)).tensor_split([len(row)])
        source = source + across @ beside
    return begin, row, source.float() if crossed else None
