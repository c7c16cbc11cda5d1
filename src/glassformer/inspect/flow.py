"""Attention flow to the position that is read: attention rollout and two refinements.

    R <- own R + cross [0 | R_source]

R [T, T + S] begins as [1 | 0], R_source [S, S] of the encoder as 1. A method defines the share of
each key that a layer gives to each query. The row of R at the answer's position (for a head that
pools, the pooled rows) is the score of every element.
"""

from collections.abc import Callable

import torch

from glassformer.axes import Float, Tensor
from glassformer.inspect.look import Look, fires
from glassformer.inspect.target import (
    Check,
    Replaced,
    Target,
    in_portions,
    reading,
    rerun,
    slopes_by,
    unchecked,
)
from glassformer.layers.stack import source_context
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import evaluating

Given = tuple[Float[Tensor, "T T"], Float[Tensor, "T S"] | None]
"""The shares that one layer gives to each query: of its own sequence, and of the source."""
Scores = tuple[Float[Tensor, "T"], Float[Tensor, "S"] | None]
"""Of the elements of the stack that answers and of the source, in float64."""


def rollout(look: Look, target: Target, check: Check = unchecked) -> Scores:
    """R = Π (1 + A) / 2, A the mean over heads; half of each layer is the residual connection.

    Independent of the outcome. Cross-attention is one more residual branch, so rows of R sum to 1.
    Source: Abnar & Zuidema 2020.
    """

    def mean(layer: int, side: str, site: str) -> Tensor:
        return _mean(look, lambda head: look.pattern(layer, head, side=side, site=site), check)

    def given(layer: int, side: str) -> Given:
        own = mean(layer, side, "self")
        own = (torch.eye(len(own), dtype=own.dtype) + own) / 2
        return (own / 2, mean(layer, side, "cross") / 2) if _crossed(look, side) else (own, None)

    return _followed(look, target, given)


def gradient_attention(look: Look, target: Target, check: Check = unchecked) -> Scores:
    """R = Π (1 + Ā) - 1, Ā the mean over heads of (∇A ⊙ A)⁺: attention in favour of the target.

    The residual connection alone is subtracted. Since z = A v, ∇A = ∇z vᵀ: no pattern is kept for
    the backward pass. Source: Chefer et al. 2021 (generic attention explainability,
    without their normalization between two sequences).
    """
    places = {
        (layer, side, site): look.attention(layer, side=side, site=site)[0]
        for side in _sides(look)
        for site in (("self", "cross") if _crossed(look, side) else ("self",))
        for layer in range(look.model.config.n_layers)
    }
    names = [f"{place}.z" for place in places.values()]
    logits, tape = rerun(look, target, keep=names, gradients=True)
    # z before its own edits, which come after the pattern
    outputs = [tape.before.get(name, tape.kept[name]) for name in names]
    slopes = dict(zip(places, slopes_by(target.value(logits).sum(), outputs), strict=True))
    del logits, tape, outputs

    def relevant(layer: int, side: str, site: str) -> Tensor:
        slope, v = slopes[layer, side, site][0], look[f"{places[layer, side, site]}.v"].tensor
        groups = len(slope) // len(v)

        def spoken(head: int) -> Tensor:
            pattern = look.pattern(layer, head, side=side, site=site)
            return ((slope[head] @ v[head // groups].mT) * pattern).clamp(min=0)

        return _mean(look, spoken, check)

    def given(layer: int, side: str) -> Given:
        own = relevant(layer, side, "self")
        cross = relevant(layer, side, "cross") if _crossed(look, side) else None
        return torch.eye(len(own), dtype=own.dtype) + own, cross

    own, source = _followed(look, target, given)
    return own - reading(look, target), source


def _mean(look: Look, of_head: Callable[[int], Tensor], check: Check) -> Float[Tensor, "T S"]:
    """The mean over heads in float64, one head in memory at a time."""
    heads = look.model.config.n_heads

    def own(head: int) -> Tensor:
        check()
        return of_head(head).cpu().double()

    return sum(map(own, range(1, heads)), own(0)) / heads


def value_zeroing(look: Look, target: Target, check: Check = unchecked) -> Scores:
    """R = Π C, C_ij the cosine distance of element i after block l without element j's values.

    Rows of C sum to 1, over the source too. The whole block is rerun for every j. Independent of
    the outcome. Source: Mohebbi et al. 2023.
    """

    def given(layer: int, side: str) -> Given:
        own = _moved(look, layer, side, "self", check)
        cross = _moved(look, layer, side, "cross", check) if _crossed(look, side) else None
        total = own.sum(1, keepdim=True) + (0 if cross is None else cross.sum(1, keepdim=True))
        stays = torch.eye(len(own), dtype=own.dtype)  # where no value matters
        own = torch.where(total > 0, own / total, stays)
        return own, None if cross is None else torch.where(total > 0, cross / total, 0.0)

    return _followed(look, target, given)


def _moved(look: Look, layer: int, side: str, site: str, check: Check) -> Float[Tensor, "T S"]:
    """1 - cos of each query's residual stream after a block, with and without each key's value."""
    place, _ = look.attention(layer, side=side, site=site)
    name = place.rpartition(".")[0]
    stack, places, crossed = look.stack(side), look.positions(side), _crossed(look, side)
    x, as_it_is = look[f"{name}.resid_pre"].tensor, look[f"{name}.resid_post"].tensor.double()
    context = stack.context(places, places, torch.promote_types(x.dtype, torch.float32))
    source = look["encoder.out"].tensor if crossed else None
    seen = source_context(places, look.positions("encoder")) if crossed else None
    here = [
        point for point in (*look.tape.points, *look.tape.on_demand) if point.startswith(f"{name}.")
    ]
    edits = [edit for edit in look.edits if any(fires(edit, point) for point in here)]
    found = []
    for some in in_portions(len(look[f"{place}.v"].tensor[0]), len(x)):
        check()
        rows = len(some)
        tape = Tape(
            look.model, (), (*edits, Replaced(f"{place}.v", lambda v, some=some: without(v, some)))
        )
        many = None if source is None else source.expand(rows, -1, -1)
        with evaluating(look.model), torch.inference_mode(False), torch.no_grad(), recording(tape):
            moved = stack.blocks[layer](x.expand(rows, -1, -1), context, None, many, seen)
        found.append(1 - torch.cosine_similarity(moved.double(), as_it_is[None], dim=-1))
    far = torch.cat(found).T.cpu()
    # An error of ε in each number is ε²/2 in the cosine: below that, only rounding moved.
    noise = (8 * torch.finfo(x.dtype).eps) ** 2 + 8 * torch.finfo(far.dtype).eps
    return far.where(far > noise, 0)


def without(v: Float[Tensor, "B G S K"], keys: Tensor) -> Float[Tensor, "B G S K"]:
    """Set the values of key `keys[b]` to zero in row b, in every head."""
    changed = v.clone()
    changed[torch.arange(len(keys)), :, keys] = 0
    return changed


def _followed(look: Look, target: Target, given: Callable[[int, str], Given]) -> Scores:
    """Multiply the layers' shares from the answer backwards."""
    side, layers = look.answering, look.model.config.n_layers
    read = reading(look, target)
    beside = None
    if _crossed(look, side):
        beside = torch.eye(look.positions("encoder").length, dtype=torch.float64)
        for layer in range(layers):
            beside = given(layer, "encoder")[0] @ beside
    # Only the row that is read is carried, from the end to the beginning.
    source = None if beside is None else torch.zeros(len(beside), dtype=torch.float64)
    for layer in reversed(range(layers)):
        own, cross = given(layer, side)
        if source is not None and beside is not None and cross is not None:
            source = source + read @ cross @ beside
        read = read @ own
    return read, source


def _crossed(look: Look, side: str) -> bool:
    return side == "decoder" and look.model.encoder is not None


def _sides(look: Look) -> tuple[str, ...]:
    return ("encoder", "decoder") if _crossed(look, look.answering) else (look.answering,)
