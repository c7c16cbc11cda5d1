"""Pure transforms of the last logits, and the choice of a token from what they leave.

They act in this order, each on the result of the one before (the order of the field's other tools):

    repetition penalty -> temperature -> top-k -> top-p -> min-p -> choose

A token that is ruled out has logit -inf.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.generate.config import GenerateConfig


def limited(logits: Float[Tensor, "B V"], ids: range) -> Float[Tensor, "B V"]:
    """Rule out every token but these, which follow each other."""
    kept = torch.full_like(logits, -torch.inf)
    kept[:, ids.start : ids.stop] = logits[:, ids.start : ids.stop]
    return kept


def repetition_penalty(
    logits: Float[Tensor, "B V"], seen: Sequence[Sequence[int]], penalty: float
) -> Float[Tensor, "B V"]:
    """Logits of tokens already in the row: divided by `penalty` if positive, multiplied if
    negative.

    Source: Keskar et al. 2019 (CTRL), section 4.1.
    """
    logits = logits.clone()
    for row, ids in zip(logits, seen, strict=True):
        index = torch.tensor(sorted(set(ids)), dtype=torch.long, device=row.device)
        row[index] = torch.where(row[index] > 0, row[index] / penalty, row[index] * penalty)
    return logits


def temperature(logits: Float[Tensor, "B V"], tau: float) -> Float[Tensor, "B V"]:
    """(u - max u) / τ, τ > 0: large τ tends to uniform, small τ to the likeliest token (Note E).

    The shift leaves softmax(u / τ) as it is, and makes it a distribution for every τ; u / τ alone
    may overflow.
    """
    shifted = (logits - logits.amax(-1, keepdim=True)).double() / tau
    return shifted.to(logits.dtype)


def top_k(logits: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """Keep exactly the k largest logits of each row (all, if there are fewer); of equals, the lower
    token ids."""
    if k >= logits.shape[-1]:
        return logits
    few = (
        k * k <= logits.shape[-1]
    )  # then looking for the largest k times is far faster than sorting
    keep = (
        likeliest(logits, k)
        if few
        else logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    )
    return torch.full_like(logits, -torch.inf).scatter(-1, keep, logits.gather(-1, keep))


def top_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """Keep the smallest set of likeliest tokens whose probability reaches p (Holtzman et al. 2020);
    never none."""
    ordered, index = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.double().softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    return torch.full_like(logits, -torch.inf).scatter(
        -1, index, ordered.masked_fill(before >= p, -torch.inf)
    )


def min_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """Keep tokens at least p times as likely as the likeliest (Nguyen et al. 2024)."""
    top = logits.amax(-1, keepdim=True)
    return logits.masked_fill((logits - top).exp() < p, -torch.inf)


def uniform(seed: int, step: int) -> float:
    """A number in [0, 1) that depends on (seed, step) alone, whatever else is generated beside
    it."""
    digest = hashlib.sha256(f"{seed}:{step}".encode()).digest()
    return (
        int.from_bytes(digest[:8], "little") >> 11
    ) / 2**53  # the 53 bits of a float: 1.0 is never reached


def choose(logits: Float[Tensor, "B V"], u: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Sample from softmax(logits) by the inverse of its distribution function at u in [0, 1)."""
    mass = logits.double().softmax(-1).cumsum(-1)
    index = torch.searchsorted(mass, (u.double() * mass[:, -1])[:, None], right=True)[:, 0]
    # Rounding may leave u past the last possible token; that token is then the one.
    last = (mass < mass[:, -1:]).sum(-1)
    return torch.minimum(index, last)


def likeliest(logits: Float[Tensor, "B V"], k: int) -> Int[Tensor, "B K"]:
    """Where the k largest logits of each row stand (K = min(k, V)), largest first; of equals, the
    lower token id first.

    They lie in those k blocks whose maxima are the k largest (of equals the first blocks), so the
    vocabulary is read once, and never sorted.
    """
    size, width = logits.shape[-1], max(1, math.isqrt(logits.shape[-1] // k))
    whole, tail = logits[:, : size - size % width], logits[:, size - size % width :]
    tops = whole.unflatten(-1, (-1, width)).amax(-1)
    tops = torch.cat([tops, tail.amax(-1, keepdim=True)], -1) if tail.shape[-1] else tops
    blocks = _first_maxima(tops, k).sort(-1).values
    ids = (blocks[:, :, None] * width + torch.arange(width, device=logits.device)).flatten(1)
    within = logits.gather(-1, ids.clamp(max=size - 1)).masked_fill(ids >= size, -torch.inf)
    return ids.gather(-1, _first_maxima(within, min(k, size)))


def _first_maxima(values: Float[Tensor, "B N"], k: int) -> Int[Tensor, "B K"]:
    """Indices of the k largest values of each row, in order; of equals, the first first."""
    values, chosen = (
        values.clamp(min=torch.finfo(values.dtype).min),
        [],
    )  # so that -inf is below all of them
    for _ in range(min(k, values.shape[-1])):
        chosen.append(values.argmax(-1, keepdim=True))  # the first of equals, by its definition
        values.scatter_(-1, chosen[-1], -torch.inf)
    return torch.cat(chosen, -1)


def transformed(
    logits: Float[Tensor, "B V"], seen: Sequence[Sequence[int]], config: GenerateConfig
) -> Iterator[tuple[str, Float[Tensor, "B V"]]]:
    """The logits after each transform, by its field of `config`, in their order; one not asked for
    changes nothing.

    A temperature of 0 rules out all but the likeliest token.
    """
    if config.repetition_penalty != 1.0:
        logits = repetition_penalty(logits, seen, config.repetition_penalty)
    yield "repetition_penalty", logits
    if config.temperature == 0:
        logits = top_k(logits, 1)
    elif config.temperature != 1.0:
        logits = temperature(logits, config.temperature)
    yield "temperature", logits
    if config.top_k is not None:
        logits = top_k(logits, config.top_k)
    yield "top_k", logits
    if config.top_p is not None:
        logits = top_p(logits, config.top_p)
    yield "top_p", logits
    if config.min_p is not None:
        logits = min_p(logits, config.min_p)
    yield "min_p", logits


def remaining(
    logits: Float[Tensor, "B V"], seen: Sequence[Sequence[int]], config: GenerateConfig
) -> Float[Tensor, "B V"]:
    """What all transforms of `config` leave: a token is drawn from the softmax of it."""
    *_, (_, left) = transformed(logits, seen, config)
    return left


def next_tokens(
    logits: Float[Tensor, "B V"], seen: Sequence[Sequence[int]], config: GenerateConfig, step: int
) -> Int[Tensor, "B"]:
    """The chosen token of each row by all transforms of `config`; `step` counts new tokens, from
    0."""
    if logits.device.type == "mps":  # it has no float64
        return next_tokens(logits.cpu(), seen, config, step).to(logits.device)
    stages = transformed(logits, seen, config)
    if config.temperature == 0:
        return next(stages)[1].argmax(
            -1
        )  # what the others would leave, without ruling anything out
    *_, (_, left) = stages
    u = torch.full(
        (len(left),), uniform(config.seed, step), dtype=torch.float64, device=left.device
    )
    return choose(left, u)
