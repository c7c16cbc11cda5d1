"""Transforms of the last logits, and sampling from the result.

Transforms apply in this order (that of other tools), each to the result of the previous one:

    constraints -> temperature -> top-k -> top-p -> min-p -> choose

An excluded token has logit -inf.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.devices import exact_device
from glassformer.core.random_stream import seed_from
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.selectors.constraints import Logits, Rows, constrained


def limited(logits: Logits, ids: range) -> Logits:
    """Exclude every token outside the range `ids`."""
    kept = torch.full_like(logits, -torch.inf)
    kept[:, ids.start : ids.stop] = logits[:, ids.start : ids.stop]
    return kept


def temperature(logits: Logits, tau: float) -> Logits:
    """(u - max u) / τ, τ > 0: large τ tends to uniform, small τ to the likeliest token (Note E).

    The shift does not change softmax(u / τ) and prevents overflow of u / τ.
    """
    shifted = (logits - logits.amax(-1, keepdim=True)).double() / tau
    return shifted.to(logits.dtype)


def top_k(logits: Logits, k: int) -> Logits:
    """Keep exactly the k largest logits of each row (all, if fewer); lower ids win ties."""
    if k >= logits.shape[-1]:
        return logits
    if k * k <= logits.shape[-1]:  # k searches for a maximum are then faster than sorting
        keep = likeliest(logits, k)
    else:
        keep = logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    return torch.full_like(logits, -torch.inf).scatter(-1, keep, logits.gather(-1, keep))


def top_p(logits: Logits, p: float) -> Logits:
    """Keep the smallest set of likeliest tokens with probability at least p, never an empty one
    (Holtzman et al. 2020)."""
    ordered, index = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.double().softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    return torch.full_like(logits, -torch.inf).scatter(
        -1, index, ordered.masked_fill(before >= p, -torch.inf)
    )


def min_p(logits: Logits, p: float) -> Logits:
    """Keep tokens at least p times as likely as the likeliest (Nguyen et al. 2024)."""
    top = logits.amax(-1, keepdim=True)
    return logits.masked_fill((logits - top).exp() < p, -torch.inf)


def uniform(seed: int, step: int) -> float:
    """A number in [0, 1) that depends only on (seed, step)."""
    # The 53 bits of a float: 1.0 is never reached.
    return (seed_from(f"{seed}:{step}") >> 11) / 2**53


def choose(logits: Logits, u: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Sample from softmax(logits) by its inverse distribution function at u in [0, 1)."""
    mass = logits.double().softmax(-1).cumsum(-1)
    index = torch.searchsorted(mass, (u.double() * mass[:, -1])[:, None], right=True)[:, 0]
    # Rounding may leave u after the last possible token; that token is then chosen.
    last = (mass < mass[:, -1:]).sum(-1)
    return torch.minimum(index, last)


EVEN = 64
"""Multiple of the width of a block, whose maximum a CPU then finds ten times faster."""


def likeliest(logits: Logits, k: int) -> Int[Tensor, "B K"]:
    """Indices of the k largest logits of each row (K = min(k, V)), largest first; lower ids first
    in ties.

    They lie in the k blocks with the k largest maxima, so the vocabulary is read once and never
    sorted.
    """
    size = logits.shape[-1]
    width = -(-max(1, math.isqrt(size // k)) // EVEN) * EVEN
    whole, tail = logits[:, : size - size % width], logits[:, size - size % width :]
    tops = whole.unflatten(-1, (-1, width)).amax(-1)
    tops = torch.cat([tops, tail.amax(-1, keepdim=True)], -1) if tail.shape[-1] else tops
    blocks = _first_maxima(tops, k).sort(-1).values
    ids = (blocks[:, :, None] * width + torch.arange(width, device=logits.device)).flatten(1)
    within = logits.gather(-1, ids.clamp(max=size - 1)).masked_fill(ids >= size, -torch.inf)
    return ids.gather(-1, _first_maxima(within, min(k, size)))


def _first_maxima(values: Float[Tensor, "B N"], k: int) -> Int[Tensor, "B K"]:
    """Indices of the k largest values of each row, in order; the first of equals first."""
    values = values.clamp(min=torch.finfo(values.dtype).min)  # so that -inf is below all of them
    chosen: list[Tensor] = []
    for _ in range(min(k, values.shape[-1])):
        chosen.append(values.argmax(-1, keepdim=True))  # the first of equals
        values.scatter_(-1, chosen[-1], -torch.inf)
    return torch.cat(chosen, -1)


def transformed(logits: Logits, rows: Rows, config: GenerateConfig) -> Iterator[tuple[str, Logits]]:
    """Logits after each transform in order, by its field of `config`; an unset one changes nothing.

    Temperature 0 excludes all but the likeliest token. GlassformerError: a row has no token left.
    """
    logits = constrained(logits, rows, config)
    yield "constraints", logits
    if config.temperature == 0:
        logits = top_k(logits, 1)
    elif config.temperature != 1.0:
        logits = temperature(logits, config.temperature)
    yield "temperature", logits
    for change in (top_k, top_p, min_p):
        if (limit := getattr(config, change.__name__)) is not None:
            logits = change(logits, limit)
        yield change.__name__, logits


def remaining(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Logits after all transforms of `config`; the token is sampled from their softmax."""
    *_, (_, left) = transformed(logits, rows, config)
    return left


def next_tokens(logits: Logits, rows: Rows, config: GenerateConfig) -> Int[Tensor, "B"]:
    """Chosen token of each row after all transforms of `config`."""
    if (here := logits.device) != (place := exact_device(logits.device)):
        return next_tokens(logits.to(place), rows, config).to(here)
    if config.temperature == 0:  # the other transforms keep the likeliest token
        return constrained(logits, rows, config).argmax(-1)
    left = remaining(logits, rows, config)
    seeds = rows.seeds or [config.seed] * len(left)
    u = [uniform(*both) for both in zip(seeds, rows.new, strict=True)]
    return choose(left, torch.tensor(u, dtype=torch.float64, device=left.device))


def stages(
    logits: Float[Tensor, "V"], seen: Sequence[int] = (), **fields: Any
) -> dict[str, Float[Tensor, "V"]]:
    """Return the distributions of one row of logits in float64: the model's own, and that after
    each transform by these `fields` of a configuration; a token is sampled from the last.

    `seen`: ids of the row so far. Errors: a field or a value that there is not, logits that are not
    numbers.
    """
    check_numbers(logits)
    row, config = logits.detach().cpu()[None], GenerateConfig.parse(fields)
    found = {"model": row, **dict(transformed(row, Rows([seen], [0]), config))}
    return {name: one[0].double().softmax(-1) for name, one in found.items()}
