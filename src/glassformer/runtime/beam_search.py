"""Beam search: the likeliest whole continuation, searched among the k likeliest beginnings
(Sutskever et al. 2014).

    live hypotheses   the k likeliest continuations   those that end
    of a sentence     over all of them                leave the beam
      <bos>             <bos> the      <bos> a          k - 1 continue
      ...

A search selects for all sentences with equal settings together; a row of the step is one live
hypothesis. As beams narrow and sentences end, there are fewer rows.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.layers.ragged import Pool
from glassformer.runtime.advance import Offers, Scores
from glassformer.runtime.config import CONSTRAINTS, GenerateConfig
from glassformer.runtime.constraints import constrained, is_set
from glassformer.runtime.hypotheses import Chosen, beams_of, normalized
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.request import Event
from glassformer.runtime.sampling import likeliest
from glassformer.runtime.search import Search
from glassformer.runtime.sequence import Running
from glassformer.runtime.trace import BeamStep, Candidate


class BeamSearch(Search):
    """The likeliest continuations of requests.

    At each step the k likeliest continuations (by Σ log p) of a sentence's live hypotheses are
    kept. One with a token of `ends` leaves the beam, which is narrower from then on: with k = 1
    this is greedy decoding. A sentence is done when nothing live can still beat its n_best-th
    finished hypothesis, so stopping early changes nothing. One that reached its limit without an
    end token is unfinished and stands after all finished ones. Of equals the earlier one in the
    beam stays first, and in it the lower token id. With `early_stopping` (and k > 1) this is the
    search of transformers; see `hypotheses.WideBeams`.
    """

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        super().__init__(pool, config, ends)
        self.hypotheses = beams_of(config, ends)
        self.numbers: list[int | None] = []
        """Number of the candidate that each live hypothesis was."""
        self.is_plain = not any(is_set(config, name) for name in CONSTRAINTS)
        """Whether no constraint changes what the model offers."""

    @property
    def room(self) -> int:
        """See `Search`."""
        return self.hypotheses.room

    @property
    def k(self) -> int | None:
        """See `Search`."""
        return self.hypotheses.widest if self.is_plain else None

    def begin(self, texts: Sequence[Running]) -> None:
        """See `Search`."""
        super().begin(texts)
        self.hypotheses.begin([one.limit for one in texts])
        self.numbers += [None] * len(texts)

    def _constrain(self, log_probs: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
        rows = self.hypotheses.rows([one.seen for one in self.requests])
        return constrained(log_probs, rows, self.config)

    def select(self, scores: Scores) -> list[Event]:
        """Continue the best of what the hypotheses offer; see `Search`.

        GlassformerError: log p that is no number.
        """
        beams = self.hypotheses
        change = None if self.is_plain else self._constrain
        offers = scores.offers(len(self.owners), beams.widest, change)
        check_numbers(torch.from_numpy(offers.log_probs))
        before, totals, going = beams.sentence, beams.totals, beams.going
        chosen = beams.extend(offers.log_probs, offers.ids)
        found = self._candidates(scores, offers, before, totals, chosen) if scores.top else {}
        self.fork(chosen.parents[chosen.live], beams.last)
        live = set(beams.going.tolist())
        events: list[Event] = []
        for sentence in going.tolist():
            number, step = self.requests[sentence].number, found.get(sentence)
            if sentence in live:
                events += [] if step is None else [Event(number, candidates=step)]
                continue
            best = tuple(beams.best(sentence))
            finish = "end" if best and best[0].finished else "length"
            events.append(Event(number, finish=finish, hypotheses=best, candidates=step))
        return events

    def keep(self, rows: np.ndarray) -> None:
        """See `Search`."""
        super().keep(rows)
        self.hypotheses.keep(rows)

    def _candidates(
        self,
        scores: Scores,
        offers: Offers,
        sentence: np.ndarray,
        totals: np.ndarray,
        chosen: Chosen,
    ) -> dict[int, BeamStep]:
        """Return the candidates of every sentence: the likeliest of each of its hypotheses, at
        least as many as are kept."""
        table = likeliest(offers.whole, max(scores.top, self.config.beams, 1 + chosen.offers.max()))
        log_probs, ids = offers.whole.gather(-1, table).tolist(), table.tolist()
        offered = zip(chosen.parents.tolist(), chosen.offers.tolist(), strict=True)
        fates = {offer: at for at, offer in enumerate(offered)}
        ended, live = chosen.ended.tolist(), set(chosen.live.tolist())
        found: dict[int, list[Candidate]] = {number: [] for number in sentence.tolist()}
        numbers: dict[int, int] = {}
        lengths = self.hypotheses.lengths.tolist()
        rows = zip(sentence.tolist(), totals.tolist(), strict=True)
        for row, (number, total) in enumerate(rows):
            for offer, (token, log_prob) in enumerate(zip(ids[row], log_probs[row], strict=True)):
                if log_prob == -math.inf:  # excluded, as all that follow
                    break
                whole = total + log_prob
                score = normalized(whole, lengths[number], self.config.length_penalty)
                fate: tuple[Any, ...] = ()
                if (at := fates.get((row, offer))) is not None:
                    numbers[at] = len(found[number])
                    fate = (True, ended[at], at in live, scores.told[row])
                one = Candidate(token, log_prob, whole, score, self.numbers[row], *fate)
                found[number].append(one)
        self.numbers = [numbers[at] for at in chosen.live.tolist()]
        return {number: BeamStep(number, lengths[number] - 1, own) for number, own in found.items()}
