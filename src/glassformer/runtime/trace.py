"""Record of each choice of a decoding loop: the token among its alternatives, and the attention of
the element that it was read from.

    for step in decode(model, prompts, config, watch=Watch(top=20, attention=True)):
        step.choices[0].alternatives

Attention rows are computed beside the forward pass, which uses the fused kernel as always:

    q of one element (from a tape)  ·  k of all elements (from the cache)
        ->   softmax(q kᵀ · scale + ...)

So watching changes no number and holds no whole pattern; without a `Watch` nothing is computed. All
results are plain numbers and lists of them, ready for JSON by `dataclasses.asdict`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.attend import attention_pattern
from glassformer.layers.attention.context import CROSSED
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.attention.ragged import Pool, RaggedCache
from glassformer.layers.attention.sequences import Sequences
from glassformer.layers.tap import Tape, recorded, recording
from glassformer.models.transformer import Transformer
from glassformer.runtime.selectors.sampling import likeliest

Weights = list[list[list[float]]]
"""Attention weights [layer][head][element]."""
SITES = "attention", "cross"
"""Names of self-attention and cross-attention in a block."""


@dataclass(frozen=True)
class Watch:
    """What is kept of each choice: the `top` likeliest tokens, and with `attention` the attention
    rows of its element. ConfigError: `top` below 1."""

    top: int = 10
    attention: bool = False

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ConfigError(
                f"At least 1 alternative is kept of each choice, and top={self.top}; raise it."
            )


@dataclass(frozen=True)
class AttentionRows:
    """Attention weights of one element when the next token was read from it.

    `own` runs over the elements `first` .. itself, patches included (those before `first` have left
    the context), `cross` over the source's (empty without an encoder).
    """

    first: int
    own: Weights
    cross: Weights = field(default_factory=list)


@dataclass(frozen=True)
class Alternative:
    """A token that might have been chosen: its probability under the model, and after all
    transforms."""

    id: int
    before: float
    after: float


@dataclass(frozen=True)
class Choice(Alternative):
    """One chosen token, and its rank.

    `rank` counts the tokens that are likelier under the model (of equals, those of lower ids);
    `entropy` is that of the model's own distribution, -Σ p log₂ p in bits; `alternatives` are its
    likeliest tokens, the chosen one among them if its rank is below their number. `rows` belong to
    the element that the token was read from: the one before it.
    """

    rank: int
    entropy: float
    alternatives: list[Alternative]
    rows: AttentionRows | None = None


@dataclass(frozen=True)
class Candidate:
    """A continuation that a beam search weighed: its token and log p (nats), Σ log p of the whole,
    and Σ log p / lengthᵅ.

    `parent` is the number of the candidate that it extends among those of the step before, None at
    the first step. `kept`: it was among the likeliest that the beam has room for; `finished`: it
    ended by an end token; `live`: the search continues from it. One kept that is neither is cut
    off, or can no longer win.
    """

    id: int
    log_prob: float
    total: float
    score: float
    parent: int | None
    kept: bool = False
    finished: bool = False
    live: bool = False


def choice(
    logits: Float[Tensor, "V"],
    left: Float[Tensor, "V"],
    token: int,
    top: int,
    rows: AttentionRows | None = None,
) -> Choice:
    """Return the record of a choice from the model's logits, and those `left` by the transforms."""
    logits = logits.detach().cpu()
    before, after = (one.detach().cpu().double().softmax(-1) for one in (logits, left))
    lower = logits[:token] == logits[token]
    rank = (logits > logits[token]).sum() + lower.sum()
    entropy = torch.special.entr(before).sum() / math.log(2)
    ids = likeliest(logits[None], top)[0].tolist()
    chosen, *best = (Alternative(i, before[i].item(), after[i].item()) for i in (token, *ids))
    own = chosen.id, chosen.before, chosen.after
    return Choice(*own, int(rank), entropy.item(), best, rows)


class Watcher:
    """Records the choices of a decoding loop, or nothing without a `watch`."""

    def __init__(self, model: Transformer, watch: Watch | None):
        self.model, self.top = model, 0 if watch is None else watch.top
        """Number of alternatives that are recorded of each choice; 0 without a watch."""
        self.attention = watch is not None and watch.attention
        self.queries: dict[str, Tensor] = {}
        """Queries of the last computation, by point."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the queries of the decoder that the body runs.

        ConfigError: another tape is active, which would record nothing under this one.
        """
        if not self.attention:
            yield
            return
        if recorded():
            raise ConfigError(
                "Rows of attention are kept by a tape of their own and another is active; leave it "
                "first."
            )
        with recording(Tape(self.model, ("decoder.blocks.*.q",))) as tape:
            yield
        self.queries = tape.kept

    def rows(self, cache: RaggedCache, at: int, first: int) -> AttentionRows | None:
        """Return the attention rows of new element `at`, None without a watch.

        `first`: number of elements of its text that have left the context and the cache.
        """
        if not self.attention:
            return None
        slots, begins, ends = cache.tables
        found = list[Weights]()
        for site, begin, end in zip(SITES, begins[:, at], ends[:, at], strict=False):
            found.append(self._weights(site, cache.pool, slots[begin : begin + end], at))
        return AttentionRows(first, *found)

    def _weights(self, site: str, pool: Pool, slots: np.ndarray, at: int) -> Weights:
        """Return the weights of new element `at` on the keys in these slots."""
        assert self.model.decoder is not None
        one, device = Sequences.single(slots, 1), pool.numbers.device
        scoring = CROSSED if site == "cross" else self.model.decoder.scoring()
        context = scoring.context(one.query(device), one.key(device))
        found: list[Tensor] = []
        for layer, (keys, _) in enumerate(pool.layers):
            name = f"decoder.blocks.{layer}.{site}"
            module = self.model.get_submodule(name)
            assert isinstance(module, Attention)
            queries = self.queries[f"{name}.q"][:, :, at][:, :, None]
            scores = module.scores(queries, one.read(keys), context)
            found.append(attention_pattern(scores)[0, :, -1].cpu())
        return torch.stack(found).tolist()
