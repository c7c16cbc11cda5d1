"""Log-probability of given texts, each after its prompt; what they have in common is read once.

    The sky is blue      all of its elements
    The sky is green     those from `green` on; its block table lists the slots of the others
    The tree is          those from `tree` on

Texts are sorted by their elements: none shares more with another than with the one before it.
Prompts and answers make no difference there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import ne

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.layers.ragged import Pool, Sequences
from glassformer.layers.tap import recorded
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.advance import HEAD_ROWS, Scores, advance
from glassformer.runtime.memory import pool_of, program_of, write_sources
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.sequence import Piece

Ids = tuple[int, ...]
TOKENS, NUMBERS = 1 << 13, 1 << 13
"""Largest number of elements of a step, and how many numbers of logits count as one of them."""
NEAR = 16
"""Largest difference of lengths that one call of a kernel pads."""
Known = tuple["Text", int]
"""A text, and the number of its first elements that it shares with the one before it."""


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


def score_texts(
    model: Transformer, texts: Sequence[Text], sources: Sequence[Example] = ()
) -> list[Likelihood]:
    """Return log p(answer | prompt, source) of each text, in their order.

    GlassformerError: log p that is no number.
    """
    sizes = [len(source.ids) + model.config.n_prefix for source in sources] or [0]
    key = lambda n: (sizes[texts[n].source], texts[n].source, texts[n].read)
    order, found = sorted(range(len(texts)), key=key), list[Likelihood]()
    program = None if recorded() else program_of(model)
    pool, table = pool_of(model, program, n_slots=1), np.zeros(0, np.int32)
    with evaluating(model):
        for step in _steps([texts[n] for n in order], sizes, model.config.vocab_size):
            own, table = _read(model, program, pool, step, table, sources)
            found += own
    return [own for _, own in sorted(zip(order, found, strict=True))]


def _steps(texts: Sequence[Text], sizes: Sequence[int], width: int) -> Iterator[list[Known]]:
    """Yield the texts of each step: no more than the limit allows, but one at least.

    `sizes`: of sources; `width`: numbers in the logits after an element.
    """
    step, size, before = list[Known](), 0, Text((), (), -1)
    for one in texts:
        is_new = one.source != before.source
        known = 0 if is_new else [*map(ne, one.read, before.read), True].index(True)
        own = len(one.read) - known + len(one.answer) * width // NUMBERS
        own += is_new * sizes[one.source]
        if step and size + own > TOKENS:
            yield step
            step, size = [], 0
        step.append((one, known))
        size, before = size + own, one
    if step:
        yield step


def _read(
    model: Transformer,
    program: CompiledStep | None,
    pool: Pool,
    step: Sequence[Known],
    table: np.ndarray,
    sources: Sequence[Example],
) -> tuple[list[Likelihood], np.ndarray]:
    """Return what each text of a step has, and the slots of the last one's elements, which are kept
    for the next step; `table`: those of the step before."""
    # after its prompts, a step computes what predicts a token, though the last one may have it
    (first, known), *others = step
    step = [(first, min(known, min(len(one.prompt) for one, _ in step) - 1)), *others]
    numbers = sorted({one.source for one, _ in step} if sources else ())
    sizes = {n: len(sources[n].ids) + model.config.n_prefix for n in numbers}
    groups = _groups(step, len(table), sizes)
    new, *rest = _take(pool, [sum(len(one.read) - known for one, known in step), *sizes.values()])
    if numbers:
        write_sources(model, pool, [sources[n] for n in numbers], rest)
    tables, of_source = _tables(step, groups, table, new), dict(zip(numbers, rest, strict=True))
    ids, own, read = list[int](), list[Sequences](), list[Sequences]()
    for group in groups:
        texts = [step[n][0] for n in group]
        known = step[group[0]][1]
        ids += chain.from_iterable(step[n][0].read[step[n][1] :] for n in group)
        if length := len(texts[0].read) - known:
            own.append(Sequences.of([tables[n] for n in group], length))
            if numbers:
                read.append(Sequences.of([of_source[one.source] for one in texts], length))
    wanted = [slots[len(one.prompt) - 1 :] for (one, _), slots in zip(step, tables, strict=True)]
    asked, rows = np.unique(np.searchsorted(new, np.concatenate(wanted)), return_inverse=True)
    _, scores = advance(model, program, pool, [Piece(ids, own, read, asked.tolist())])
    pool.give(np.setdiff1d(np.flatnonzero(pool.users), [0, *tables[-1]]))
    return _likelihoods(scores, rows, [one.answer for one, _ in step]), tables[-1]


def _take(pool: Pool, lengths: Sequence[int]) -> list[np.ndarray]:
    """Return slots for each of these numbers of elements, of a pool no larger than they need."""
    if (missing := sum(lengths) - pool.n_free) > 0:
        pool.grow(missing)
    taken = pool.take(sum(lengths))
    assert taken is not None
    return np.split(taken, np.cumsum(lengths)[:-1])


def _tables(
    step: Sequence[Known], groups: Sequence[Sequence[int]], table: np.ndarray, new: np.ndarray
) -> list[np.ndarray]:
    """Return the slots of the elements of each text: those that it shares with the one before it,
    and `new` ones, which groups take in their order; `table`: those of the text before all."""
    begins, begin = dict[int, int](), 0
    for n in chain.from_iterable(groups):
        begins[n] = begin
        begin += len(step[n][0].read) - step[n][1]
    tables = list[np.ndarray]()
    for n, (one, known) in enumerate(step):
        own = new[begins[n] : begins[n] + len(one.read) - known]
        tables.append(np.concatenate([(tables[-1] if tables else table)[:known], own]))
    return tables


def _groups(step: Sequence[Known], kept: int, sizes: Mapping[int, int]) -> list[list[int]]:
    """Return the numbers of texts that attend together, in the order of their elements: after those
    that have what they share, which may be computed first.

    `kept`: how many elements of the step before are in the pool; `sizes`: of sources.
    """
    levels, keys, groups = [-1] * kept, list[tuple[int, ...]](), list[list[int]]()
    for one, known in step:
        level, end = levels[known - 1] + 1 if known else 0, len(one.read)
        levels = levels[:known] + [level] * (end - known)
        keys.append((level, end - known, -(-end // NEAR), -(-sizes.get(one.source, 0) // NEAR)))
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
    ends = np.cumsum([*map(len, answers)]).tolist()
    own, right, spans = *found.tolist(), [*map(slice, [0, *ends], ends)]
    return [Likelihood(tuple(own[span]), all(right[span])) for span in spans]
