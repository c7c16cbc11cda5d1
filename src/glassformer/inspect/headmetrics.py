"""What a head does, in numbers of its pattern: one value for each layer, head and metric.

Every metric is a mean over the queries of a sequence but the first, which in a decoder sees only
itself. Patterns are read one head at a time: those of 12 x 12 heads on 1,024 elements never stand
in memory together. NaN: not defined here (a distance between two sequences, induction where no
token comes twice).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.inspect.look import Look
from glassformer.processors.elements import Element

METRICS = {
    "entropy": "How spread the attention is, in bits: 0 is one element, log2(n) all n alike.",
    "distance": "How many elements away a query looks on average.",
    "previous": "The share of attention that goes to the element just before the query.",
    "first": "The share of attention that goes to the first element (a sink, where it has no "
    "meaning of its own).",
    "diagonal": "The share of attention that stays at the query's own element.",
    "induction": (
        "Where the query's token occurred before: the share of attention to the elements just "
        "after those occurrences "
        "(Olsson et al. 2022)."
    ),
    "repeated": "Where the query's token occurred before: the share of attention to those "
    "occurrences.",
    "punctuation": "The share of attention that goes to tokens without a letter or digit, "
    "spaces apart.",
    "special": "The share of attention that goes to special tokens and the class token.",
}
"""Name of each metric and what it says."""
WITHIN = ("distance", "previous", "diagonal", "induction", "repeated")
"""Metrics that compare a query with a key of the same sequence."""


@dataclass(frozen=True)
class HeadMetrics:
    """A value for each layer, head and metric, the metrics in the order of `names`; shares are in
    [0, 1]."""

    values: Float[Tensor, "L H _"]
    names: tuple[str, ...]
    side: str
    site: str

    def of(self, name: str) -> Float[Tensor, "L H"]:
        """The values of one metric; ConfigError: there is none of that name."""
        if name not in self.names:
            raise ConfigError(f"There is no metric {name!r}; {suggest(name, self.names)}")
        return self.values[..., self.names.index(name)]


def head_metrics(look: Look, *, side: str = "", site: str = "self") -> HeadMetrics:
    """The metrics of every head of a stack: `side` "" is the one that answers, `site` self or
    cross."""
    queries = look.source_elements if side == "encoder" and look.source_elements else look.elements
    keys = look.source_elements if site == "cross" else queries
    config = look.model.config
    tables = key_tables(queries, keys, within=site == "self")
    values = [
        [
            measured(look.pattern(layer, head, side=side, site=site), tables)
            for head in range(config.n_heads)
        ]
        for layer in range(config.n_layers)
    ]
    return HeadMetrics(
        torch.stack([torch.stack(row) for row in values]), tuple(METRICS), side, site
    )


def measured(pattern: Float[Tensor, "T S"], tables: dict[str, Tensor]) -> Float[Tensor, "_"]:
    """The metrics of one pattern, in the order of `METRICS`; `tables` are those of `key_tables`."""
    pattern = pattern.detach().cpu().double()
    counted = slice(1, None) if len(pattern) > 1 else slice(None)
    found = [row_entropy(pattern)[counted].mean()]
    for name in list(METRICS)[1:]:
        if name not in tables:
            found.append(torch.tensor(float("nan")))
            continue
        table = tables[name]
        rows = (
            table.any(1)
            if name in ("induction", "repeated")
            else torch.ones(len(table), dtype=torch.bool)
        )[counted]
        found.append((pattern * table).sum(1)[counted][rows].mean())
    return torch.stack([value.float() for value in found])


def row_entropy(weights: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """-Σ w log₂ w of each row of weights, in bits; 0 log 0 = 0."""
    return -torch.special.xlogy(weights, weights).sum(-1) / torch.log(torch.tensor(2.0))


def key_tables(
    queries: Sequence[Element], keys: Sequence[Element], *, within: bool
) -> dict[str, Tensor]:
    """What a metric multiplies a pattern [T, S] with, by its name: 1 at the keys that it counts, or
    a distance.

    `within`: queries and keys are one sequence; otherwise the metrics that need that are left out.
    """
    i, j = torch.arange(len(queries))[:, None], torch.arange(len(keys))
    marks = torch.tensor([_is_punctuation(key) for key in keys])
    special = torch.tensor([key.kind in ("special", "class") for key in keys])
    tables = {"first": (j == 0).expand(len(queries), -1)}
    tables |= {
        "punctuation": marks.expand(len(queries), -1),
        "special": special.expand(len(queries), -1),
    }
    if within:
        same = _same_token(queries) & (j < i)
        after = torch.zeros_like(same)
        after[:, 1:] = same[:, :-1]
        tables |= {"distance": (i - j).abs(), "previous": j == i - 1, "diagonal": j == i}
        tables |= {"repeated": same, "induction": after & (j < i)}
    return tables


def _same_token(elements: Sequence[Element]) -> Tensor:
    """True at [i, j] where two elements are one token; patches never are."""
    ids = torch.tensor([-1 if element.id is None else element.id for element in elements])
    return (ids[:, None] == ids) & (ids >= 0)


def _is_punctuation(element: Element) -> bool:
    mark = element.label.strip()
    return (
        element.kind == "token"
        and bool(mark)
        and not any(character.isalnum() for character in mark)
    )
