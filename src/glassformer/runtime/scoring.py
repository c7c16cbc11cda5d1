"""Log-probability of given texts, each after its prompt; what they have in common is read once.

    The sky is blue      all of its elements
    The sky is green     those from `green` on; its block table lists the slots of the others
    The tree is          those from `tree` on

Texts are read in order, so that one shares most with the one before it, whatever is its prompt and
whatever its answer.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.layers.ragged import Sequences
from glassformer.layers.tap import recorded
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.advance import HEAD_ROWS, Scores, advance
from glassformer.runtime.memory import pool_of, program_of, write_sources
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.sequence import Piece, no_slots

Ids = tuple[int, ...]
LOGITS, TOKENS = 1 << 26, 1 << 13
"""Numbers in the logits of a step, and its elements, about."""


@dataclass(frozen=True)
class Likelihood:
    """log p of each token of an answer in nats, and whether each is the likeliest."""

    log_probs: tuple[float, ...]
    greedy: bool

    @property
    def log_prob(self) -> float:
        """log p of the answer."""
        return math.fsum(self.log_probs)


@dataclass(frozen=True)
class Text:
    """A prompt, its answer, and of an encoder-decoder the number of its source; none is empty."""

    prompt: Ids
    answer: Ids
    source: int = 0

    @cached_property
    def read(self) -> Ids:
        """The elements after which a token is predicted, and all before them."""
        return (*self.prompt, *self.answer[:-1])

    def common(self, before: "Text | None") -> int:
        """Return the number of elements that it begins with as the text before it does."""
        if before is None or before.source != self.source:
            return 0
        pairs = zip(self.read, before.read, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def scored(
    model: Transformer, texts: Sequence[Text], sources: Sequence[Example] = ()
) -> list[Likelihood]:
    """Return log p(answer | prompt, source) of each text, in order, whatever the others are.

    GlassformerError: log p that is no number.
    """
    sizes = [len(source.ids) + model.config.n_prefix for source in sources] or [0]
    key = lambda n: (sizes[texts[n].source], texts[n].source, texts[n].read)
    order, found = sorted(range(len(texts)), key=key), dict[int, Likelihood]()
    steps = [*_steps([texts[n] for n in order], sizes, model.config.vocab_size)]
    with evaluating(model):
        reader = _Reader(model, sources, sizes)
        for step in steps:
            at = order[step]
            found |= zip(at, reader.read([texts[n] for n in at]), strict=True)
    return [found[number] for number in range(len(texts))]


def _steps(texts: Sequence[Text], sizes: Sequence[int], width: int) -> Iterator[slice]:
    """Yield the texts of each step: at least one, and as many as the limits allow.

    `sizes`: of sources; `width`: numbers in the logits after an element.
    """
    begin, elements, asked, before = 0, 0, 0, None
    for at, one in enumerate(texts):
        is_new = before is None or before.source != one.source
        elements += len(one.read) - one.common(before) + is_new * sizes[one.source]
        asked, before = asked + len(one.answer), one
        if at > begin and (elements > TOKENS or asked * width > LOGITS):
            yield slice(begin, at)
            begin, elements, asked = at, len(one.read) + sizes[one.source], len(one.answer)
    if texts:
        yield slice(begin, len(texts))


class _Reader:
    """Texts in order, some in each step; the keys and values of the last one are kept."""

    def __init__(self, model: Transformer, sources: Sequence[Example], sizes: Sequence[int]):
        self.model, self.sources, self.sizes = model, sources, sizes
        self.program = None if recorded() else program_of(model)
        self.pool = pool_of(model, self.program, n_slots=1)
        self.last: Text | None = None
        self.table = no_slots()
        """Slots of the elements of the last text."""
        self.source_slots: dict[int, np.ndarray] = {}

    def read(self, texts: Sequence[Text]) -> list[Likelihood]:
        """Return what each text has, by one step."""
        self._read_sources(sorted({one.source for one in texts}))
        tables, new = self._tables(texts)
        wanted = [table[len(one.prompt) - 1 :] for one, table in zip(texts, tables, strict=True)]
        place = np.full(self.pool.n_slots, -1)
        place[np.concatenate(wanted)] = 0
        pieces, asked = list[Piece](), [no_slots()]
        for one, table, own in zip(texts, tables, new, strict=True):
            # the last elements, from the first on after which a token is wanted
            asked.append(own[np.maximum.accumulate(place[own]) == 0])
            if len(own):
                pieces.append(self._piece(one, table, len(own), len(asked[-1])))
        place[np.concatenate(asked)] = np.arange(sum(map(len, asked)))
        _, scores = advance(self.model, self.program, self.pool, pieces)
        tokens = [token for one in texts for token in one.answer]
        found = iter(_chosen(scores, place[np.concatenate(wanted)], np.array(tokens)))
        self._forget()
        each = [[next(found) for _ in one.answer] for one in texts]
        return [
            Likelihood(tuple(log_prob for log_prob, _ in own), all(right for _, right in own))
            for own in each
        ]

    def _tables(self, texts: Sequence[Text]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the slots of all elements of each text, and of those that are new."""
        # what predicts a token is computed in this step, though the last one may have it
        known = [min(texts[0].common(self.last), min(len(one.prompt) for one in texts) - 1)]
        known += [one.common(before) for before, one in pairwise(texts)]
        sizes = [len(one.read) - n for one, n in zip(texts, known, strict=True)]
        new = np.split(self._taken(sum(sizes)), np.cumsum(sizes)[:-1])
        tables = list[np.ndarray]()
        for n, own in zip(known, new, strict=True):
            self.table = np.concatenate([self.table[:n], own])
            tables.append(self.table)
        self.last = texts[-1]
        return tables, new

    def _taken(self, number: int) -> np.ndarray:
        self.pool.grow(max(0, number - self.pool.n_free))
        slots = self.pool.take(number)
        assert slots is not None
        return slots

    def _read_sources(self, numbers: Sequence[int]) -> None:
        """Compute keys and values of the sources that are not in the pool."""
        new = [n for n in numbers if n not in self.source_slots and self.sources]
        if new:
            tables = [self._taken(self.sizes[n]) for n in new]
            write_sources(self.model, self.pool, [self.sources[n] for n in new], tables)
            self.source_slots |= zip(new, tables, strict=True)

    def _piece(self, one: Text, table: np.ndarray, n_new: int, n_asked: int) -> Piece:
        source = self.source_slots.get(one.source)
        sources = [] if source is None else [Sequences.single(source, n_new)]
        own = [Sequences.single(table, n_new)]
        return Piece([*one.read[-n_new:]], own, sources, n_asked)

    def _forget(self) -> None:
        """Give back all slots but those of the last text."""
        assert self.last is not None
        self.source_slots = {
            n: slots for n, slots in self.source_slots.items() if n == self.last.source
        }
        kept = [np.zeros(1, np.int32), self.table, *self.source_slots.values()]
        self.pool.give(np.setdiff1d(np.flatnonzero(self.pool.users), np.concatenate(kept)))


def _chosen(scores: Scores, rows: np.ndarray, tokens: np.ndarray) -> list[tuple[float, bool]]:
    """Return log p of tokens after rows of a step, and whether each is the likeliest."""
    log_probs, right = np.zeros(len(rows)), np.zeros(len(rows), bool)
    for begin in range(0, int(rows.max()) + 1, HEAD_ROWS):
        at = np.flatnonzero(rows // HEAD_ROWS == begin // HEAD_ROWS)
        logits = scores.head(slice(begin, begin + HEAD_ROWS))
        own, ids = (torch.from_numpy(x[at]).to(logits.device) for x in (rows - begin, tokens))
        right[at] = (logits.argmax(-1)[own] == ids).cpu()
        log_probs[at] = logits.log_softmax(-1)[own, ids].cpu()
    check_numbers(torch.from_numpy(log_probs))
    return [*zip(log_probs.tolist(), right.tolist(), strict=True)]
