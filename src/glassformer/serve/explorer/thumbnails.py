"""Patterns as pixels: every head of a stack shrunk to a thumbnail, with its metrics, or one head in
full.

    q, k of a layer ── some queries ──> scores ── softmax ──> weights of all heads, megabytes
        ├─ largest weight of each cell ──> thumbnails [H, R, C]
        └─ entropy, and one product for all other metrics

No more than a portion of them is ever held. A cell of a thumbnail shows the largest of its weights:
a single bright one is not averaged away. In a decoder the keys behind the last query of a portion
are not computed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.headmetrics import METRICS, key_tables, row_entropy
from glassformer.inspect.look import Look, fires
from glassformer.layers.attention import AttentionContext
from glassformer.layers.mask import Allowed
from glassformer.processors.elements import Element
from glassformer.serve.explorer.wire import root_bytes

NUMBERS = 1 << 19
"""Weights that stand in memory at once: they should stay in the processor's cache."""
LARGEST = 2048
"""Queries or keys of a pattern that is drawn as a whole."""
CLOSED = -1e30
"""The score of a key that may not be seen."""


@dataclass(frozen=True)
class Thumbnails:
    """Thumbnails and metrics of every head; `cell` is how many queries and keys a pixel stands
    for."""

    pixels: Float[Tensor, "L H R C"]
    metrics: Float[Tensor, "L H _"]
    names: tuple[str, ...]
    cell: tuple[int, int]


@torch.no_grad()
def thumbnails(
    look: Look, side: str, site: str, size: int, check: Callable[[], None]
) -> Thumbnails:
    """The heads of one stack, in thumbnails of at most `size` x `size`; `check` is called between
    layers."""
    queries, keys = look.sequences(side, site)
    cell = ceil(len(queries) / size), ceil(len(keys) / size)
    counting = _Counting(queries, keys, site == "self", look.logits.device)
    pixels, metrics = [], []
    for layer in range(look.model.config.n_layers):
        check()
        shrunk, sums, spread = [], [], []
        for begin, weights, bits in portions(look, layer, side, site, cell[0]):
            shrunk.append(_shrunk(weights, cell, len(keys)))
            sums.append(weights.flatten(1) @ counting.of(begin, weights.shape).mT)
            spread.append(bits[:, 1 if begin == 0 and len(queries) > 1 else 0 :].sum(1))
        pixels.append(torch.cat(shrunk, 1))
        entropies = torch.stack(spread).sum(0)[:, None] / counting.n
        metrics.append(torch.cat([entropies, torch.stack(sums).sum(0)], 1))
    return Thumbnails(torch.stack(pixels), torch.stack(metrics), tuple(METRICS), cell)


@dataclass(frozen=True)
class Pixels:
    """One head: √ of its weights in bytes, what each key gets of all queries, the entropy of each
    row in bits."""

    roots: np.ndarray
    mass: Float[Tensor, "S"]
    entropy: Float[Tensor, "T"]
    largest: float


@torch.no_grad()
def in_full(look: Look, layer: int, head: int, side: str, site: str) -> Pixels:
    """One head, a pixel for each query and key; ConfigError: a layer or a head that there is not,
    too many pixels."""
    look.attention(layer, side=side, site=site, head=head)
    queries, keys = (len(elements) for elements in look.sequences(side, site))
    if max(queries, keys) > LARGEST:
        raise ConfigError(
            f"The pattern has {queries:,} queries and {keys:,} keys, and one is drawn up to "
            f"{LARGEST:,}; ask for a row."
        )
    roots, mass = np.zeros((queries, keys), np.uint8), torch.zeros(keys, device=look.logits.device)
    spread, largest = [], 0.0
    for begin, weights, bits in portions(look, layer, side, site, 1, head):
        pattern = weights[0]
        rows, seen = pattern.shape
        roots[begin : begin + rows, :seen] = root_bytes(pattern)
        mass[:seen] += pattern.sum(0)
        spread.append(bits[0])
        largest = max(largest, float(pattern.max()))
    return Pixels(roots, mass, torch.cat(spread), largest)


Portion = tuple[int, Float[Tensor, "H Q S"], Float[Tensor, "H Q"]]
"""The number of the first query; the weights of all heads; the entropy of their rows in bits."""


def portions(
    look: Look, layer: int, side: str, site: str, rows: int, head: int | None = None
) -> Iterator[Portion]:
    """The weights of all heads of a layer, or of one, for some queries after others, a multiple of
    `rows` each.

    The keys behind the last are left out where no query of the portion may see them.
    """
    place, _ = look.attention(layer, side=side, site=site)
    if fires(look.edits, f"{place}.scores", f"{place}.pattern"):
        weights = look[f"{place}.pattern"].tensor.float()  # an edit may need all of it
        weights = weights if head is None else weights[head : head + 1]
        yield 0, weights, row_entropy(weights)
        return
    module, q, k, context = look.attending(layer, side=side, site=site)
    q, k, length = q.float(), k.float(), k.shape[2]
    heads = q.shape[1] if head is None else 1
    portion = max(1, NUMBERS // (heads * length * rows)) * rows
    for begin in range(0, q.shape[2], portion):
        end = min(begin + portion, q.shape[2])
        seen = end if context.allow.causal else length
        bias = None if context.bias is None else context.bias[:, :, begin:end, :seen]
        some = AttentionContext(Allowed(), bias)  # masked below, in place
        scores = module.scores(q[:, :, begin:end], k[:, :, :seen], some, head)[0]
        yield begin, *_weights(scores, context.allow, begin, end)


def _weights(
    scores: Float[Tensor, "H Q S"], allow: Allowed, begin: int, end: int
) -> tuple[Float[Tensor, "H Q S"], Float[Tensor, "H Q"]]:
    """Weights and entropies of scores without a mask, which are written over: memory is what takes
    time here.

    Closed scores are a large number below 0, so that 0 · s is a number; then Σ w ln w = Σ w s - ln
    Σ exp s, and of the largest, ln w = s - ln Σ exp s. A row without any key is 0, as
    `attention_pattern` has it.
    """
    if allow.causal:  # only the last keys are new to some of the queries
        future = torch.ones(end - begin, end - begin, dtype=torch.bool, device=scores.device).triu(
            1
        )
        scores[:, :, begin:].masked_fill_(future, CLOSED)
    elif allow.dense is not None:
        table = allow.dense[0, 0]
        scores.masked_fill_(~(table[begin:end] if len(table) > 1 else table), CLOSED)
    weights, highest = scores.softmax(-1), scores.amax(-1)
    if allow.dense is not None:
        weights.masked_fill_((highest == CLOSED)[..., None], 0)
    largest = weights.amax(-1)
    nats = highest - scores.mul_(weights).sum(-1) - largest.log()
    return weights, torch.where(largest > 0, nats / math.log(2), 0.0)


def _shrunk(
    weights: Float[Tensor, "H Q S"], cell: tuple[int, int], keys: int
) -> Float[Tensor, "H R C"]:
    """The largest weight of each cell; rows first, where the memory lies in order."""
    down, across = -weights.shape[1] % cell[0], -weights.shape[2] % cell[1]
    if down or across:
        weights = F.pad(weights, (0, across, 0, down))
    weights = weights if cell[0] == 1 else weights.unflatten(1, (-1, cell[0])).amax(2)
    weights = weights if cell[1] == 1 else weights.unflatten(2, (-1, cell[1])).amax(3)
    return F.pad(
        weights, (0, ceil(keys / cell[1]) - weights.shape[2])
    )  # the keys that were left out


class _Counting:
    """What each weight counts in each metric but the first, so that metrics are sums over queries
    and keys."""

    def __init__(
        self,
        queries: Sequence[Element],
        keys: Sequence[Element],
        within: bool,
        device: torch.device,
    ):
        self.device = device
        self.tables = {
            name: table.to(device)
            for name, table in key_tables(queries, keys, within=within).items()
        }
        counted = torch.ones(len(queries), dtype=torch.bool, device=device)
        counted[0] = len(queries) == 1  # the first may see itself alone
        self.rows = {
            name: counted & table.any(1) if name in ("induction", "repeated") else counted
            for name, table in self.tables.items()
        }
        self.n = max(1, len(queries) - 1)
        self._made: dict[tuple[int, ...], Tensor] = {}

    def of(self, begin: int, shape: torch.Size) -> Float[Tensor, "M _"]:
        """For the weights [H, Q, S] of a portion: a row for each metric, NaN for one that is not
        defined here."""
        if (key := (begin, *shape)) not in self._made:
            part = slice(begin, begin + shape[1]), slice(0, shape[2])
            made = torch.empty(len(METRICS) - 1, *shape[1:], device=self.device)
            for row, name in zip(made, list(METRICS)[1:], strict=True):
                row.copy_(self._counts(name, part))
            self._made[key] = made.flatten(1)
        return self._made[key]

    def _counts(self, name: str, part: tuple[slice, slice]) -> Tensor:
        rows = self.rows.get(name)
        if rows is None or not bool(rows.any()):
            return torch.full((1, 1), torch.nan)
        return self.tables[name][part] * (rows[part[0], None] / rows.sum())
