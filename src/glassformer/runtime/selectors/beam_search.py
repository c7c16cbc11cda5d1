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

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.layers.attention.ragged import Pool
from glassformer.runtime.advance import Scores
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.request import Event
from glassformer.runtime.selectors.constraints import CONSTRAINTS, constrained, is_set
from glassformer.runtime.selectors.hypotheses import Beams, Chosen, WideBeams, normalized
from glassformer.runtime.selectors.search import Search
from glassformer.runtime.sequence import Running
from glassformer.runtime.trace import Candidate


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
        narrows = config.early_stopping is None or config.beams == 1  # which is greedy
        self.hypotheses = (Beams if narrows else WideBeams)(config, ends)
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
        rows = self.hypotheses.rows([one.seen for one in self.owners])
        return constrained(log_probs, rows, self.config)

    def select(self, scores: Scores) -> list[Event]:
        """Continue the best of what the hypotheses offer; see `Search`.

        GlassformerError: log p that is no number.
        """
        beams, change = self.hypotheses, None if self.is_plain else self._constrain
        log_probs, ids = scores.offers(len(self.tokens), max(beams.widest, scores.top), change)
        check_numbers(torch.from_numpy(log_probs))
        sentence, totals = beams.sentence, beams.totals
        going = dict(zip(beams.going.tolist(), self.going, strict=True))
        chosen = beams.extend(log_probs, ids)
        found = self._candidates(log_probs, ids, sentence, totals, chosen) if scores.top else {}
        self.fork(chosen.parents[chosen.live], chosen.tokens[chosen.live])
        ended, events = going.keys() - beams.going.tolist(), list[Event]()
        for number in sorted(ended | found.keys()):
            finish, best, candidates = None, (), tuple(found.get(number, ()))
            if number in ended:
                best = tuple(beams.best(number))
                finish = "end" if best and best[0].finished else "length"
            one = going[number].number
            events.append(Event(one, None, finish, (), best, candidates=candidates))
        return events

    def keep(self, rows: np.ndarray) -> None:
        """See `Search`."""
        super().keep(rows)
        self.hypotheses.keep(rows)

    def _candidates(
        self,
        log_probs: np.ndarray,
        ids: np.ndarray,
        sentence: np.ndarray,
        totals: np.ndarray,
        chosen: Chosen,
    ) -> dict[int, list[Candidate]]:
        """Return the candidates of every sentence: what each of its hypotheses offers."""
        columns = chosen.parents, chosen.tokens, chosen.ended, chosen.live
        fates = {
            (row, token): (True, ended, live)
            for row, token, ended, live in zip(*(one.tolist() for one in columns), strict=True)
        }
        found: dict[int, list[Candidate]] = {number: [] for number in sentence.tolist()}
        numbers: dict[tuple[int, int], int] = {}
        for row, number in enumerate(sentence.tolist()):
            length, parent = int(self.hypotheses.lengths[number]), self.numbers[row]
            for token, log_prob in zip(ids[row].tolist(), log_probs[row].tolist(), strict=True):
                if log_prob == -math.inf:  # excluded, as all that follow
                    break
                whole, fate = float(totals[row]) + log_prob, fates.get((row, token), ())
                score = normalized(whole, length, self.config.length_penalty)
                numbers[row, token] = len(found[number])
                found[number].append(Candidate(token, log_prob, whole, score, parent, *fate))
        self.numbers = [numbers[one] for one, (*_, live) in fates.items() if live]
        return found
