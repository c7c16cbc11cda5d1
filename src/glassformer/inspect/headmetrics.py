"""Head metrics: one number for each layer, head and metric, computed from the attention pattern.

Every metric is a mean over the queries of a sequence but the first, which in a decoder sees only
itself. Patterns are read one head at a time, to spare memory. NaN: not defined (a distance between
two sequences, induction where no token comes twice).
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.inspect.look import Look
from glassformer.processors.tokens.elements import Element

METRICS = {
    "entropy": "How spread the attention is, in bits: 0 is one element, log2(n) all n alike.",
    "distance": "How many elements away a query looks on average.",
    "previous": "The share of attention that goes to the element just before the query.",
    "first": "The share of attention that goes to the first element (a sink, where it has no "
    "meaning of its own).",
    "diagonal": "The share of attention that stays at the query's own element.",
    "induction": "Where the query's token occurred before: the share of attention to the elements "
    "just after those occurrences (Olsson et al. 2022).",
    "repeated": "Where the query's token occurred before: the share of attention to those "
    "occurrences.",
    "punctuation": "The share of attention that goes to tokens without a letter or digit, "
    "spaces apart.",
    "special": "The share of attention that goes to special tokens and the class token.",
}
"""Name of each metric and its definition."""


def head_metrics(
    look: Look, *, side: str = "", site: str = "self"
) -> dict[str, Float[Tensor, "L H"]]:
    """Each metric of every head of a stack, in the order of `METRICS`; shares are in [0, 1].

    `side` "": the answering one; `site`: self or cross.
    """
    shape = look.model.config.depth(side or look.answering), look.model.config.n_heads
    shares = metric_shares(*look.sequences(side, site), within=site == "self")
    shares = shares.to(look.logits.device)
    pattern = lambda *place: look.pattern(*place, side=side, site=site)[None].float()
    values = [measure(pattern(*place), shares) for place in np.ndindex(shape)]
    found = torch.cat(values).cpu().unflatten(0, shape)
    return dict(zip(METRICS, found.unbind(-1), strict=True))


def row_entropy(weights: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """-Σ w log₂ w of each row, in bits; 0 log 0 = 0."""
    # torch.special.entr takes three times as long
    return weights.clamp_min(1e-30).log2_().mul_(weights).sum(-1).neg_()


def measure(
    weights: Float[Tensor, "H Q S"], shares: Float[Tensor, "M Q _"]
) -> Float[Tensor, "H M"]:
    """Metrics of patterns, or the part of some queries in them; `shares` are of these queries, and
    keys that only they have are left out."""
    bits = row_entropy(weights) @ shares[0, :, 0]
    others = shares[1:, :, : weights.shape[2]].flatten(1)
    return torch.cat([bits[:, None], weights.flatten(1) @ others.mT], 1)


def metric_shares(
    queries: Sequence[Element], keys: Sequence[Element], *, within: bool
) -> Float[Tensor, "M T S"]:
    """The share of each weight in each metric; of a row's entropy in the first. NaN: not defined.

    `within`: queries and keys are one sequence. The first query is not counted, since it may see
    only itself.
    """
    i, j = torch.arange(len(queries))[:, None], torch.arange(len(keys))
    tables = {
        "entropy": torch.ones(len(keys)),
        "first": j == 0,
        "punctuation": torch.tensor(list(map(_is_punctuation, keys))),
        "special": torch.tensor([key.kind in ("special", "class") for key in keys]),
    }
    if within:
        ids = torch.tensor([-1 if key.id is None else key.id for key in keys])  # patches: no token
        same = (ids[:, None] == ids) & (ids >= 0) & (j < i)
        after = same.roll(1, 1) & (j > 0) & (j < i)
        tables |= {"distance": (i - j).abs(), "previous": j == i - 1, "diagonal": j == i}
        tables |= {"repeated": same, "induction": after}
    counted = (i >= min(1, len(queries) - 1)).float()
    shares = torch.full((len(METRICS), len(queries), len(keys)), math.nan)
    for own, name in zip(shares, METRICS, strict=True):
        if name in tables:
            rows = counted
            if name in ("induction", "repeated"):
                rows = counted * tables[name].any(1, keepdim=True)
            own[:] = tables[name] * (rows / rows.sum())
    return shares


def _is_punctuation(element: Element) -> bool:
    mark = element.label.strip()
    return element.kind == "token" and bool(mark) and not any(map(str.isalnum, mark))
