"""Attention flow to the position that is read: attention rollout and two refinements.

    R <- own R + cross [0 | R_source]

R [T, T + S] begins as [1 | 0], R_source [S, S] of the encoder as 1. A method defines the share of
each key that a layer gives to each query. The row of R at the answer's position (for a head that
pools, the pooled rows) is the score of every element.
"""

from collections.abc import Callable

import torch

from glassformer.axes import Float, Tensor
from glassformer.devices import exact
from glassformer.inspect.look import Look, Replaced, fires
from glassformer.inspect.target import Attribution, Target, in_portions, reading, rerun
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import evaluating

Attended = Callable[[str], Float[Tensor, "T _"]]
"""Weights between queries and keys of an attention, given its path; float64."""
Shares = Callable[[str, str], Float[Tensor, "T _"]]
"""[own | cross]: share of each key, own and source, in each query of a block of a side; float64."""


def rollout(look: Look, target: Target) -> Attribution:
    """R = Π (1 + A) / 2, A the mean over heads; half of each layer is the residual connection.

    R = Π A without residual connections. Independent of the outcome. Cross-attention is one more
    branch, so rows of R sum to 1. Source: Abnar & Zuidema 2020.
    """
    kept = 0.5 if look.model.config.residual else 0.0
    mean = lambda place: look[f"{place}.pattern"].tensor.cpu().double().mean(0)
    return _followed("rollout", look, target, _branches(look, mean, kept, 1 - kept))


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
    shares = _branches(look, relevant, kept, 1)
    return _followed("gradient_attention", look, target, shares, kept)


def value_zeroing(look: Look, target: Target) -> Attribution:
    """R = Π C, C_ij the cosine distance of element i after block l without element j's values.

    Rows of C sum to 1, over the source too. The whole block is rerun for every j. Independent of
    the outcome. Source: Mohebbi et al. 2023.
    """

    def shares(side: str, block: str) -> Tensor:
        moved = torch.cat([_moved(look, side, block, name) for name in _names(look, side)], 1)
        total = moved.sum(1, keepdim=True)
        unmoved = torch.eye(*moved.shape, dtype=moved.dtype)  # where no value matters
        return torch.where(total > 0, moved / total, unmoved)

    return _followed("value_zeroing", look, target, shares)


def _names(look: Look, side: str) -> tuple[str, ...]:
    """Names of the attentions in a block of a side."""
    crossed = side == "decoder" and look.model.encoder is not None
    return ("attention", "cross") if crossed else ("attention",)


def _branches(look: Look, attended: Attended, kept: float, share: float) -> Shares:
    """Shares by branches: `kept` times what stands in the stream, `share` times what is read."""

    def shares(side: str, block: str) -> Tensor:
        own, *cross = (share * attended(f"{block}.{name}") for name in _names(look, side))
        own = own + kept * torch.eye(len(own), dtype=own.dtype)
        return torch.cat([kept * own, *cross], 1) if cross else own

    return shares


def _moved(look: Look, side: str, block: str, name: str) -> Float[Tensor, "T S"]:
    """1 - cos of each query's residual stream after a block, with and without each key's value."""
    x, as_it_is = look[f"{block}.resid_pre"].tensor, exact(look[f"{block}.resid_post"].tensor)
    module, context = look.model.get_submodule(block), look.context(side)
    source = seen = None
    if "cross" in _names(look, side):
        source, seen = look["encoder.out"].tensor, look.context(side, "cross")
    points = (*look.tape.points, *look.tape.on_demand)
    here = [point for point in points if point.startswith(f"{block}.")]
    edits = [edit for edit in look.edits if fires([edit], *here)]
    place = f"{block}.{name}.v"
    found = []
    for keys in in_portions(look[place].shape[1], len(x)):
        zeroed = Replaced(place, lambda v, keys=keys: without(v, keys))
        tape = Tape(look.model, (), (*edits, zeroed))
        many = None if source is None else source.expand(len(keys), -1, -1)
        each = x.expand(len(keys), -1, -1)
        with evaluating(look.model), torch.inference_mode(False), torch.no_grad(), recording(tape):
            moved = module(each, context, None, many, seen)
        found.append(1 - torch.cosine_similarity(exact(moved), as_it_is[None], dim=-1))
    far = torch.cat(found).T.cpu()
    # An error of ε in each number is ε²/2 in the cosine: below that, only rounding moved.
    noise = (8 * torch.finfo(x.dtype).eps) ** 2 + 8 * torch.finfo(far.dtype).eps
    return far.where(far > noise, 0)


def without(v: Float[Tensor, "B G S K"], keys: Tensor) -> Float[Tensor, "B G S K"]:
    """Set the values of key `keys[b]` to zero in row b, in every head."""
    changed = v.clone()
    changed[torch.arange(len(keys)), :, keys] = 0
    return changed


def _followed(
    method: str, look: Look, target: Target, shares: Shares, subtracted: float = 0
) -> Attribution:
    """Multiply the layers' shares from the answer backwards; subtract a multiple of 1 from R."""
    side, config = look.answering, look.model.config
    # Only the row that is read is carried, from the end to the beginning.
    row = begin = reading(look, target)
    crossed = "cross" in _names(look, side)
    source = torch.zeros(look.positions("encoder").length if crossed else 0, dtype=row.dtype)
    beside = torch.eye(len(source), dtype=row.dtype)
    for layer in range(config.depth("encoder")) if crossed else ():
        beside = shares("encoder", f"encoder.blocks.{layer}") @ beside
    for layer in reversed(range(config.depth(side))):
        row, across = (row @ shares(side, f"{side}.blocks.{layer}")).tensor_split([len(row)])
        source = source + across @ beside
    own = (row - subtracted * begin).float()
    return Attribution(method, target, own, source.float() if crossed else None)
