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
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Part
from glassformer.layers.ragged import Pool
from glassformer.runtime.advance import Offers, Scores
from glassformer.runtime.config import CONSTRAINTS, GenerateConfig
from glassformer.runtime.constraints import constrained, is_set
from glassformer.runtime.hypotheses import Chosen, beams_of, normalized
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.request import Event
from glassformer.runtime.rows import Rows
from glassformer.runtime.sampling import likeliest
from glassformer.runtime.sequence import Piece, Running
from glassformer.runtime.trace import AttentionRows, BeamStep, Candidate


class BeamSearch:
    """The likeliest continuations of requests with the same settings and ends.

    At each step the k likeliest continuations (by Σ log p) of a sentence's live hypotheses are
    kept. One with a token of `ends` leaves the beam, which is narrower from then on: with k = 1
    this is greedy decoding. A sentence is done when nothing live can still beat its n_best-th
    finished hypothesis, so stopping early changes nothing. One that reached its limit without an
    end token is unfinished and stands after all finished ones. Of equals the earlier one in the
    beam stays first, and in it the lower token id. With `early_stopping` (and k > 1) this is the
    search of transformers; see `hypotheses.WideBeams`.
    """

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        self.config, self.rows, self.hypotheses = config, Rows(pool), beams_of(config, ends)
        self.requests: list[Running] = []
        """The requests that have begun; the number of one here is its sentence."""
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""
        self.numbers: list[int | None] = []
        """Number of the candidate that each live hypothesis was."""

    @property
    def room(self) -> int:
        """Largest number of rows in the next steps."""
        return self.hypotheses.room

    @property
    def k(self) -> int:
        """Number of tokens that each hypothesis offers."""
        return self.hypotheses.widest

    @property
    def is_plain(self) -> bool:
        """True if no constraint changes what the model offers."""
        return not any(is_set(self.config, name) for name in CONSTRAINTS)

    @property
    def going(self) -> list[Running]:
        """Requests that have live hypotheses."""
        return [self.requests[i] for i in self.hypotheses.going.tolist()]

    @property
    def owners(self) -> list[Running]:
        """The request of each row."""
        return [self.requests[i] for i in self.rows.owner.tolist()]

    @property
    def promised(self) -> int:
        """Slots that its rows may still take."""
        return sum(one.n_branches for one in self.going) - len(np.unique(self.rows.slots))

    def request(self, number: int) -> Running:
        """Return the request with this number."""
        return next(one for one in self.requests if one.number == number)

    def begin(self, one: Running) -> None:
        """Begin a request whose prompt has keys and values, but for the last element; its slots
        except those of its source are the search's from now on."""
        length, row = len(one.ids) - one.begin, len(self.rows.ends)
        last = one.parts_at(range(length - 1, length))
        self.parts += (replace(part, at=part.at + row) for part in last)
        own, source = one.slots[: one.longest], one.source_slots
        self.rows.add(own[: length - 1], one.ids[-1], source, one.n_source)
        self.rows.pool.give(own[length - 1 :])
        one.slots, one.longest = source, 0
        self.hypotheses.begin([one.limit])
        self.requests.append(one)
        self.numbers.append(None)

    def piece(self) -> Piece:
        """Return the newest element of each hypothesis, which has a slot then."""
        group, sources = self.rows.extend(), self.rows.source_groups()
        tokens = self.rows.tokens.tolist()
        return Piece(tokens, [group], sources, range(len(tokens)), tuple(self.parts))

    def offers(self, scores: Scores, keeps_all: bool) -> Offers:
        """Return what the hypotheses offer after the constraints."""
        rows = slice(0, len(self.rows.ends))
        return scores.offers(rows, self.k, None if self.is_plain else self._constrain, keeps_all)

    def _constrain(self, log_probs: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
        rows = self.hypotheses.rows([one.seen for one in self.requests])
        return constrained(log_probs, rows, self.config)

    def select(
        self, offers: Offers, top: int = 0, told: Sequence[AttentionRows | None] = ()
    ) -> list[Event]:
        """Continue the best of what the hypotheses offer; return the events of what ended, and with
        a `top` of each sentence its candidates.

        GlassformerError: log p that is no number.
        """
        check_numbers(torch.from_numpy(offers.log_probs))
        beams = self.hypotheses
        before, totals, going = beams.sentence, beams.totals, beams.going
        chosen = beams.extend(offers.log_probs, offers.ids)
        self.parts.clear()
        found = self._candidates(offers, before, totals, chosen, top, told) if top else {}
        self.rows.fork(chosen.parents[chosen.live], beams.last)
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

    def drop(self, one: Running) -> None:
        """End a request without an event."""
        keep = np.flatnonzero(self.rows.owner != self.requests.index(one))
        self.hypotheses.keep(keep)
        self.rows.keep(keep)

    def _candidates(
        self,
        offers: Offers,
        sentence: np.ndarray,
        totals: np.ndarray,
        chosen: Chosen,
        top: int,
        told: Sequence[AttentionRows | None],
    ) -> dict[int, BeamStep]:
        """Return the candidates of every sentence: the likeliest of each of its hypotheses, at
        least as many as are kept."""
        table = likeliest(offers.whole, max(top, self.config.beams, 1 + chosen.offers.max()))
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
                    fate = (True, ended[at], at in live, told[row])
                one = Candidate(token, log_prob, whole, score, self.numbers[row], *fate)
                found[number].append(one)
        self.numbers = [numbers[at] for at in chosen.live.tolist()]
        return {number: BeamStep(number, lengths[number] - 1, own) for number, own in found.items()}
