"""What a beam search weighs at each step: every candidate with its score, whence it came, and what
became of it.

candidates of step 0        kept  pruned  kept
candidates of step 1    kept  pruned    finished  kept

The parent of a candidate is the candidate of the step before that it extends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from glassformer.axes import Float, Tensor
from glassformer.generate.config import GenerateConfig
from glassformer.generate.logits import likeliest
from glassformer.generate.rows import AttentionRows
from glassformer.generate.watch import Watch, Watcher
from glassformer.models.transformer import Features, Transformer


@dataclass(frozen=True)
class Candidate:
    """A continuation that was weighed: its token and log p (nats), Σ log p of the whole, and Σ log
    p / lengthᵅ.

    `parent` is the number of the candidate that it extends among those of the step before, None at
    the first step. `kept`: it was among the likeliest that the beam has room for; `finished`: it
    ended by an end token; `live`: the search goes on from it. One kept that is neither is cut off,
    or can no longer win. `rows` (of what was kept) belong to the element that its token was read
    from.
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


@dataclass(frozen=True)
class Chosen:
    """What a step of a search went on to: the hypotheses extended, which of their offers; which
    ended, which live."""

    parents: np.ndarray
    offers: np.ndarray
    ended: np.ndarray
    live: np.ndarray
    """Indices into the chosen."""

    @classmethod
    def none(cls) -> Self:
        """Before the first step."""
        return cls(*(np.zeros(0, np.int64) for _ in range(4)))


def normalized(total: float, length: float, penalty: float) -> float:
    """A hypothesis' score Σ log p / lengthᵅ (Wu et al. 2016 in its plain form); the end token
    counts in the length."""
    return total / max(length, 1) ** penalty


class BeamWatcher(Watcher):
    """Looks on at a search whose prompts lost `firsts` elements each, because they were longer than
    the context."""

    def __init__(
        self, model: Transformer, watch: Watch, config: GenerateConfig, firsts: Sequence[int]
    ):
        super().__init__(model, watch)
        self.config, self.firsts = config, firsts
        self.length = 0
        self.numbers: list[int | None] = [None] * len(firsts)
        """Of each live hypothesis, the number of the candidate that it was."""

    def step(
        self,
        features: Features,
        logits: Float[Tensor, "B V"],
        sentence: np.ndarray,
        totals: np.ndarray,
        chosen: Chosen,
    ) -> tuple[BeamStep, ...]:
        """The candidates of every sentence: the likeliest of each of its hypotheses, at least as
        many as are kept."""
        table = likeliest(logits, max(self.top, self.config.beams))
        log_probs = logits.log_softmax(-1).gather(-1, table).tolist()
        ids, rows = table.tolist(), self.rows(features, [self.firsts[i] for i in sentence.tolist()])
        fates = {
            (parent, offer): at
            for at, (parent, offer) in enumerate(
                zip(chosen.parents.tolist(), chosen.offers.tolist(), strict=True)
            )
        }
        ended, live = chosen.ended.tolist(), set(chosen.live.tolist())
        self.length += 1
        found: dict[int, list[Candidate]] = {}
        numbers: dict[int, int] = {}
        for row, (number, total) in enumerate(zip(sentence.tolist(), totals.tolist(), strict=True)):
            candidates = found.setdefault(number, [])
            for offer, (token, log_prob) in enumerate(zip(ids[row], log_probs[row], strict=True)):
                at, whole = fates.get((row, offer)), total + log_prob
                score = normalized(whole, self.length, self.config.length_penalty)
                one = Candidate(token, log_prob, whole, score, self.numbers[row])
                if at is not None:
                    numbers[at] = len(candidates)
                    one = replace(
                        one, kept=True, finished=ended[at], live=at in live, rows=rows[row]
                    )
                candidates.append(one)
        self.numbers = [numbers[at] for at in chosen.live.tolist()]
        return tuple(
            BeamStep(number, self.length - 1, candidates) for number, candidates in found.items()
        )
