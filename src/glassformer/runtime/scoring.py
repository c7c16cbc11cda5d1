"""Log-probability of given texts, each after its prompt; what they have in common is read once.

    The sky is blue      all of its elements
    The sky is green     those from `green` on; its block table lists the slots of the others
    The tree is          those from `tree` on

Texts are sorted by their elements: none shares more with another than with the one before it.
Prompts and answers make no difference there.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.layers.attention.sequences import Sequences
from glassformer.layers.tap import recorded
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.advance import HEAD_ROWS, Scores, advance
from glassformer.runtime.memory import pool_of, program_of, write_sources
from glassformer.runtime.prompts import check_numbers, common
from glassformer.runtime.sequence import Piece
from glassformer.runtime.trace import Watcher

Ids = tuple[int, ...]
TOKENS, NUMBERS = 1 << 13, 1 << 13
"""Largest number of elements of a step, and how many numbers of logits count as one of them."""
NEAR = 16
"""Largest difference of lengths that one call of a kernel pads."""


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


class Known(NamedTuple):
    """A text, and the number of its first elements that it shares with the one before it."""

    text: Text
    known: int

    @property
    def new(self) -> Ids:
        """The other elements."""
        return self.text.read[self.known :]


def score_texts(
    model: Transformer, texts: Sequence[Text], sources: Sequence[Example] = ()
) -> list[Likelihood]:
    """Return log p(answer | prompt, source) of each text, in their order.

    GlassformerError: log p that is no number.
    """
    reader = Reader(model, sources)
    key = lambda n: (reader.sizes[texts[n].source], texts[n].source, texts[n].read)
    order = sorted(range(len(texts)), key=key)
    with evaluating(model):
        found = [*chain.from_iterable(map(reader.read, reader.steps([texts[n] for n in order])))]
    return [own for _, own in sorted(zip(order, found, strict=True))]


class Reader:
    """Reads texts in steps, with their sources."""

    def __init__(self, model: Transformer, sources: Sequence[Example]):
        self.model, self.sources = model, sources
        self.sizes = [len(source.ids) + model.config.n_prefix for source in sources] or [0]
        """Numbers of elements of the sources."""
        self.program = None if recorded() else program_of(model)
        self.pool = pool_of(model, self.program, n_slots=1)
        self.table = np.zeros(0, np.int32)
        """Slots of the elements of the text before all of a step."""

    def steps(self, texts: Sequence[Text]) -> Iterator[list[Known]]:
        """Yield the texts of each step: no more than the limit allows, but one at least."""
        step, size, before = list[Known](), 0, Text((), (), -1)
        for one in texts:
            is_new = one.source != before.source
            known = 0 if is_new else common(one.read, before.read)
            own = len(one.read) - known + is_new * self.sizes[one.source]
            own += len(one.answer) * self.model.config.vocab_size // NUMBERS
            if step and size + own > TOKENS:
                yield step
                step, size = [], 0
            step.append(Known(one, known))
            size, before = size + own, one
        if step:
            yield step

    def read(self, step: Sequence[Known]) -> list[Likelihood]:
        """Return what each text of a step has."""
        # after its prompts, a step computes what predicts a token, though the last one may have it
        known = min(step[0].known, min(len(one.text.prompt) for one in step) - 1)
        step = [Known(step[0].text, known), *step[1:]]
        groups, crossed = self._groups(step), self._write_sources(step) if self.sources else {}
        order = [*chain.from_iterable(groups)]
        new, tables = self._tables(step, order)
        texts, sources = list[Sequences](), list[Sequences]()
        for group in groups:
            if length := len(step[group[0]].new):
                texts.append(Sequences.of([tables[n] for n in group], length))
                if self.sources:
                    own = [crossed[step[n].text.source] for n in group]
                    sources.append(Sequences.of(own, length))
        pairs = zip(step, tables, strict=True)
        wanted = np.concatenate([table[len(one.text.prompt) - 1 :] for one, table in pairs])
        asked, rows = np.unique(np.searchsorted(new, wanted), return_inverse=True)
        ids = [*chain.from_iterable(step[n].new for n in order)]
        piece = Piece(ids, texts, sources, asked)
        watcher = Watcher(self.model, None)
        scores = advance(self.model, self.program, self.pool, [piece], watcher)
        self.table = tables[-1]
        self.pool.give(np.setdiff1d(np.flatnonzero(self.pool.users), [0, *self.table]))
        return _likelihoods(scores, rows, [one.text.answer for one in step])

    def _write_sources(self, step: Sequence[Known]) -> dict[int, np.ndarray]:
        """Return the slots of the sources of a step, which are encoded there."""
        numbers = sorted({one.text.source for one in step})
        bounds = np.cumsum([self.sizes[n] for n in numbers])
        tables = np.split(self.pool.take(bounds[-1]), bounds[:-1])
        write_sources(self.model, self.pool, [self.sources[n] for n in numbers], tables)
        return dict(zip(numbers, tables, strict=True))

    def _tables(
        self, step: Sequence[Known], order: Sequence[int]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return new slots, which texts take in this order, and the slots of the elements of each:
        those that it shares with the one before it, and its own."""
        sizes = [len(step[n].new) for n in order]
        new, table, tables = self.pool.take(sum(sizes)), self.table, list[np.ndarray]()
        own = dict(zip(order, np.split(new, np.cumsum(sizes)[:-1]), strict=True))
        for n, one in enumerate(step):
            table = np.concatenate([table[: one.known], own[n]])
            tables.append(table)
        return new, tables

    def _groups(self, step: Sequence[Known]) -> list[list[int]]:
        """Return the numbers of texts that attend together, in the order of their elements: after
        those that have what they share, which may be computed first."""
        levels, keys, groups = [-1] * len(self.table), list[tuple[int, ...]](), list[list[int]]()
        for one in step:
            level = levels[one.known - 1] + 1 if one.known else 0
            levels = levels[: one.known] + [level] * len(one.new)
            near = (-(-size // NEAR) for size in (len(levels), self.sizes[one.text.source]))
            keys.append((level, len(one.new), *near))
        for key, alike in groupby(sorted(range(len(step)), key=keys.__getitem__), keys.__getitem__):
            numbers, most = [*alike], max(1, TOKENS // (sum(key[2:]) * NEAR))  # copied keys
            groups += [numbers[at : at + most] for at in range(0, len(numbers), most)]
        return groups


def _likelihoods(scores: Scores, rows: np.ndarray, answers: Sequence[Ids]) -> list[Likelihood]:
    """Return what answers have after rows of a step; `rows`: those of all of their tokens."""
    tokens, found = np.concatenate(answers), np.zeros((2, len(rows)))
    for begin in range(0, int(rows.max()) + 1, HEAD_ROWS):
        at = np.flatnonzero(rows // HEAD_ROWS == begin // HEAD_ROWS)
        logits = scores.head(slice(begin, begin + HEAD_ROWS))
        own, ids = (torch.from_numpy(x[at]).to(logits.device) for x in (rows - begin, tokens))
        likeliest = logits.argmax(-1)[own] == ids
        found[:, at] = torch.stack([logits.log_softmax(-1)[own, ids], likeliest]).cpu()
    check_numbers(torch.from_numpy(found[0]))
    each = np.split(found, np.cumsum([*map(len, answers)])[:-1], axis=1)
    return [Likelihood(tuple(own.tolist()), bool(right.all())) for own, right in each]
