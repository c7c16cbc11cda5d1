"""Head metrics: one number for each layer, head and metric, computed from the attention pattern.

Every metric is a mean over the queries of a sequence but the first, which in a decoder sees only
itself. Patterns are read one head at a time: those of 12 x 12 heads on 1,024 elements never stand
in memory together. NaN: not defined here (a distance between two sequences, induction where no
token comes twice).
"""

import math
from collections.abc import Sequence

import torch

from glassformer.axes import Float, Tensor
from glassformer.inspect.look import Look
from glassformer.processors.elements import Element

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
    depth, heads = look.model.config.depth(side or look.answering), look.model.config.n_heads
    tables = key_tables(*look.sequences(side, site), within=site == "self")
    values = [
        measure(look.pattern(layer, head, side=side, site=site), tables)
        for layer in range(depth)
        for head in range(heads)
    ]
    found = torch.stack(values).unflatten(0, (depth, heads))
    return dict(zip(METRICS, found.unbind(-1), strict=True))


def row_entropy(weights: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """-Σ w log₂ w of each row, in bits; 0 log 0 = 0."""
    return torch.special.entr(weights).sum(-1) / math.log(2)


def measure(pattern: Float[Tensor, "T S"], tables: dict[str, Tensor]) -> Float[Tensor, "_"]:
    """Metrics of one pattern, in the order of `METRICS`; `tables` are those of `key_tables`."""
    pattern = pattern.detach().cpu().double()
    counted = torch.arange(len(pattern)) >= min(1, len(pattern) - 1)
    found = {"entropy": row_entropy(pattern)[counted].mean()}
    for name, table in tables.items():
        rows = counted & table.any(1) if name in ("induction", "repeated") else counted
        found[name] = (pattern * table).sum(1)[rows].mean()
    return torch.stack([found.get(name, pattern.new_tensor(math.nan)) for name in METRICS]).float()


def key_tables(
    queries: Sequence[Element], keys: Sequence[Element], *, within: bool
) -> dict[str, Tensor]:
    """Factors [T, S] of a pattern, by metric: 1 at the keys that it counts, or a distance.

    `within`: queries and keys are one sequence; otherwise the metrics that need that are left out.
    """
    i, j = torch.arange(len(queries))[:, None], torch.arange(len(keys))
    of_keys = {
        "first": j == 0,
        "punctuation": torch.tensor(list(map(_is_punctuation, keys))),
        "special": torch.tensor([key.kind in ("special", "class") for key in keys]),
    }
    tables = {name: marked.expand(len(queries), -1) for name, marked in of_keys.items()}
    if within:
        ids = torch.tensor([-1 if key.id is None else key.id for key in keys])  # patches: no token
        same = (ids[:, None] == ids) & (ids >= 0) & (j < i)
        after = torch.zeros_like(same)
        after[:, 1:] = same[:, :-1]
        tables |= {"distance": (i - j).abs(), "previous": j == i - 1, "diagonal": j == i}
        tables |= {"repeated": same, "induction": after & (j < i)}
    return tables


def _is_punctuation(element: Element) -> bool:
    mark = element.label.strip()
    return element.kind == "token" and bool(mark) and not any(map(str.isalnum, mark))
