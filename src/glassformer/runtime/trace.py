"""Record of each choice of a decoding loop: the token among its alternatives, and the attention of
the element that it was read from.

    for step in decode(model, prompts, config, watch=Watch(top=20, attention=True)):
        step.choices[0].alternatives

Attention rows are computed beside the forward pass, which uses the fused kernel as always:

    q of the newest elements (from a tape)  ·  k of all elements (from the cache)
        ->   softmax(q kᵀ · scale + ...)

So watching changes no number and holds no whole pattern; without a `Watch` nothing is computed. All
results are plain numbers and lists of them, ready for JSON by `dataclasses.asdict`.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.layers.attend import attention_pattern
from glassformer.layers.attention import Attention
from glassformer.layers.context import CROSSED
from glassformer.layers.ragged import RaggedCache, Tables
from glassformer.layers.sequences import Sequences
from glassformer.layers.tap import Tape, recorded, recording
from glassformer.models.transformer import Transformer
from glassformer.runtime.sampling import likeliest

Weights = list[list[list[float]]]
"""Attention weights [layer][head][element]."""


@dataclass(frozen=True)
class Watch:
    """What is kept of each choice: the `top` likeliest tokens, and with `attention` the attention
    rows of its element at these layers and heads (None: all)."""

    top: int = 10
    attention: bool = False
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AttentionRows:
    """Attention weights of one element when the next token was read from it.

    `own` runs over the elements `first` .. itself, patches included (those before `first` have left
    the context), `cross` over the source's (empty without an encoder). `layers` and `heads` are the
    numbers of the first two axes.
    """

    layers: list[int]
    heads: list[int]
    first: int
    own: Weights
    cross: Weights


Told = Sequence[AttentionRows | None]
"""Of each sequence of a step, the attention rows of its newest element."""


@dataclass(frozen=True)
class Alternative:
    """A token that might have been chosen: its probability under the model, and after all
    transforms."""

    id: int
    before: float
    after: float


@dataclass(frozen=True)
class Choice:
    """One chosen token: its probability under the model and after all transforms, and its rank.

    `rank` counts the tokens that are likelier under the model (of equals, those of lower ids);
    `entropy` is that of the model's own distribution, -Σ p log₂ p in bits; `alternatives` are its
    likeliest tokens, the chosen one among them if its rank is below their number. `rows` belong to
    the element that the token was read from: the one before it.
    """

    id: int
    before: float
    after: float
    rank: int
    entropy: float
    alternatives: list[Alternative]
    rows: AttentionRows | None = None


@dataclass(frozen=True)
class Candidate:
    """A continuation that was weighed: its token and log p (nats), Σ log p of the whole, and Σ log
    p / lengthᵅ.

    `parent` is the number of the candidate that it extends among those of the step before, None at
    the first step. `kept`: it was among the likeliest that the beam has room for; `finished`: it
    ended by an end token; `live`: the search continues from it. One kept that is neither is cut
    off, or can no longer win. `rows` (of what was kept) belong to the element that its token was
    read from.
    """

    id: int
    log_prob: float
    total: float
    score: float
    parent: int | None
    kept: bool = False
    finished: bool = False
    live: bool = False
    rows: AttentionRows | None = None


@dataclass(frozen=True)
class BeamStep:
    """The candidates of one sentence at one step (from 0): of each live hypothesis in turn, its
    likeliest first."""

    sentence: int
    step: int
    candidates: list[Candidate]


def choices(
    logits: Float[Tensor, "N V"],
    left: Float[Tensor, "N V"],
    ids: Int[Tensor, "N"],
    top: int,
    rows: Told,
) -> tuple[Choice, ...]:
    """Records of N choices from the model's logits, those `left` by the transforms, and the chosen
    ids."""
    logits, left, ids = logits.detach().cpu(), left.detach().cpu(), ids.cpu()[:, None]
    before, after = logits.double().softmax(-1), left.double().softmax(-1)
    best, own = likeliest(logits, top), logits.gather(-1, ids)
    lower = torch.arange(logits.shape[-1]) < ids
    rank = ((logits > own) | ((logits == own) & lower)).sum(-1, keepdim=True)
    entropy = torch.special.entr(before).sum(-1, keepdim=True) / math.log(2)
    columns = (ids, before.gather(-1, ids), after.gather(-1, ids), rank, entropy)
    tables = (best, before.gather(-1, best), after.gather(-1, best))
    return tuple(
        Choice(*numbers, alternatives=list(map(Alternative, *table)), rows=row)
        for numbers, table, row in zip(
            zip(*(column[:, 0].tolist() for column in columns), strict=True),
            zip(*(table.tolist() for table in tables), strict=True),
            rows,
            strict=True,
        )
    )


class Watcher:
    """Records the choices of a decoding loop, or nothing without a `watch`.

    ConfigError: a layer or head that the model does not have, `top` below 1.
    """

    def __init__(self, model: Transformer, watch: Watch | None):
        self.model, self.top = model, 0 if watch is None else watch.top
        """Number of alternatives that are recorded of each choice; 0 without a watch."""
        self.queries: dict[str, Tensor] = {}
        """Queries of the last computation, by point."""
        self.layers: list[int] = []
        self.heads: list[int] = []
        if watch is None:
            return
        if watch.top < 1:
            raise ConfigError(
                f"At least 1 alternative is kept of each choice, and top={watch.top}; raise it."
            )
        if watch.attention:
            self.layers = _numbers(watch.layers, model.config.n_layers, "layer")
            self.heads = _numbers(watch.heads, model.config.n_heads, "head")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the queries of the decoder that the body runs.

        ConfigError: another tape is active, which would record nothing under this one.
        """
        sites = ["attention", "cross"][: 1 + (self.model.config.architecture == "encoder_decoder")]
        points = tuple(_point(layer, site) for layer in self.layers for site in sites)
        tape = Tape(self.model, keep=points) if points else None
        if tape is not None and recorded():
            raise ConfigError(
                "Rows of attention are kept by a tape of their own and another is active; leave it "
                "first."
            )
        with nullcontext() if tape is None else recording(tape):
            yield
        self.queries = {} if tape is None else tape.kept

    def rows(self, cache: RaggedCache, firsts: Sequence[int]) -> Told:
        """Return the attention rows of the newest element of each sequence of a step, None without
        a watch.

        `firsts`: number of elements of each that have left the context and the cache.
        """
        if not self.layers:
            return [None] * len(firsts)
        newest = np.concatenate([one.length * np.ones(one.rows, int) for one in cache.texts])
        own, of_sources = cache.tables
        found: list[AttentionRows] = []
        for at, first in zip((newest.cumsum() - 1).tolist(), firsts, strict=True):
            weights = self._weights("attention", cache, _slots_of(own, at), at)
            crossed = _slots_of(of_sources, at) if cache.sources else None
            cross = [] if crossed is None else self._weights("cross", cache, crossed, at)
            found.append(AttentionRows(self.layers, self.heads, first, weights, cross))
        return found

    def _weights(self, site: str, cache: RaggedCache, slots: np.ndarray, at: int) -> Weights:
        """Return the weights of new element `at` on the keys in these slots."""
        assert self.model.decoder is not None
        one, device = Sequences.single(slots, 1), cache.pool.numbers.device
        query, key = one.query(device), one.key(device)
        scoring = CROSSED if site == "cross" else self.model.decoder.scoring()
        context = scoring.context(query, key)
        found: list[Tensor] = []
        for layer in self.layers:
            module = self.model.get_submodule(f"decoder.blocks.{layer}.{site}")
            assert isinstance(module, Attention)
            queries = self.queries[_point(layer, site)][:, :, at][:, :, None]
            scores = module.scores(queries, one.read(cache.pool.layers[layer][0]), context)
            found.append(attention_pattern(scores)[0, self.heads, -1].cpu())
        return torch.stack(found).tolist()


def _slots_of(tables: Tables, at: int) -> np.ndarray:
    """Return the slots that new element `at` reads."""
    slots, first, ends = tables
    return slots[first[at] : first[at] + ends[at]]


def _point(layer: int, site: str) -> str:
    return f"decoder.blocks.{layer}.{site}.q"


def _numbers(wanted: Sequence[int] | None, n: int, what: str) -> list[int]:
    chosen = list(range(n) if wanted is None else wanted)
    if wrong := [number for number in chosen if not 0 <= number < n]:
        raise ConfigError(
            f"There is no {what} {wrong[0]} in this model; its {what}s are 0 to {n - 1}."
        )
    return chosen
