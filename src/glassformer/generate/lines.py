"""The hypotheses of many searches as rows of a compiled step, their keys in one memory.

    slots    x x x x | a b c | d e | ...     elements of sources, and of hypotheses
    lines    a hypothesis reads the slots of its elements, whoever else has them too

No key is copied where a hypothesis goes on in several ways, and a slot in nobody's line is free. So
sentences may come and go at any step.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from glassformer.axes import Bool, Tensor
from glassformer.batch import Batch
from glassformer.generate.advance import prefill
from glassformer.layers.cache import Cache, Layers
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer

SLOTS = 64
"""Slots for each sentence at first; there are twice as many once less than an eighth is free."""
COLUMNS = 32
"""Elements for which lines get room at a time."""


class Lines:
    """The rows of a search over sentences, and their keys.

    `prompts`: of all sentences. `source`: theirs, padded, of an encoder-decoder. Sentences begin in
    this order, about `at_once` at the same time. The rows of a sentence follow each other.
    """

    def __init__(
        self,
        model: Transformer,
        step: CompiledStep,
        prompts: Sequence[Sequence[int]],
        source: Batch | None,
        at_once: int,
    ):
        self.model, self.step, self.prompts, self.source = model, step, prompts, source
        config, n = model.config, len(prompts)
        slots = SLOTS * min(n, at_once)
        self.numbers = torch.zeros(
            config.depth("decoder"), 2, config.kv_heads, slots, config.head_width, dtype=step.keys
        )
        self.free = np.arange(1, slots, dtype=np.int32)  # slot 0: where lines have no element
        self.begun = 0
        self.sentence = np.zeros(0, np.int64)
        self.tokens = np.zeros(0, np.int64)
        self.ends = np.zeros(0, np.int64)
        self.lines = np.zeros((0, COLUMNS), np.int32)
        self.sources, self.source_ends = np.zeros((2, n), np.int64)
        """First slot of each sentence's source, and how many it has."""

    def begin(self, number: int) -> None:
        """Begin the next sentences: read their sources, and their prompts but for the last
        element."""
        at = slice(self.begun, self.begun + number)
        prompts, self.begun = self.prompts[at], at.stop
        self.sentence = np.concatenate([self.sentence, np.arange(at.start, at.stop)])
        self.tokens = np.concatenate([self.tokens, [ids[-1] for ids in prompts]])
        self.ends = np.concatenate([self.ends, [len(ids) for ids in prompts]])
        self.lines = np.pad(self.lines, [(0, number), (0, 0)])
        memory = None if self.source is None else self.model.encode(rows_of(self.source, at))
        cache = Cache()
        if max(map(len, prompts)) > 1:
            features = prefill(self.model, prompts, memory, cache)
            assert features.cache is not None
            cache, valid = features.cache, features.positions.valid
            known = {i: (k[:, :, :-1], v[:, :, :-1]) for i, (k, v) in cache.own.items()}
            first, counts = self._keep(known, None if valid is None else valid[:, :-1])
            self._widen(1 + int(counts.max()))
            for line, begin, count in zip(self.lines[-number:], first, counts, strict=True):
                line[:count] = np.arange(begin, begin + count)
        if memory is not None:
            assert self.model.decoder is not None
            layers = cache.cross or self.model.decoder.source_keys_values(memory.hidden)
            self.sources[at], self.source_ends[at] = self._keep(layers, memory.positions.valid)

    def offers(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """log p of the k likeliest tokens of each row, and these, [R, K]."""
        self.lines[np.arange(len(self.ends)), self.ends - 1] = self._take(len(self.ends))
        own = self.lines, self.ends
        sources = None
        if self.source is not None:
            sources = self.sources[self.sentence], self.source_ends[self.sentence]
        return self.step.likeliest(self.tokens, self.numbers, own, sources, k)

    def grow(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Go on from these rows, each with one more token."""
        self.sentence, self.lines = self.sentence[parents], self.lines[parents]
        self.ends, self.tokens = self.ends[parents] + 1, tokens
        self._widen(int(self.ends.max(initial=0)))

    def _widen(self, columns: int) -> None:
        if (missing := columns - self.lines.shape[1]) > 0:
            self.lines = np.pad(self.lines, [(0, 0), (0, -(-missing // COLUMNS) * COLUMNS)])

    def _keep(
        self, layers: Layers, valid: Bool[Tensor, "N T"] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Keep keys and values of N sentences, [N, G, T, K] at each layer, in slots behind each
        other; the first slot of each, and how many it has."""
        keys = next(iter(layers.values()))[0]
        real = keys.new_ones(len(keys), keys.shape[2], dtype=torch.bool)
        real = real if valid is None else valid.expand_as(real)
        counts = real.sum(1).numpy()
        begin, number = self._take_run(int(counts.sum())), int(counts.sum())
        for layer, both in layers.items():
            for kept, new in zip(self.numbers[layer], both, strict=True):
                kept[:, begin : begin + number] = new.transpose(0, 1)[:, real]
        return begin + counts.cumsum() - counts, counts

    def _take(self, number: int) -> np.ndarray:
        """Free slots."""
        if len(self.free) < number:
            self._tidy(lambda: len(self.free) >= number)
        taken, self.free = np.split(self.free, [number])
        return taken

    def _take_run(self, number: int) -> int:
        """The first of so many free slots behind each other."""
        begins = lambda: np.flatnonzero(
            self.free[number - 1 :] - self.free[: len(self.free) - number + 1] == number - 1
        )
        fits = lambda: len(self.free) >= number and len(begins()) > 0
        if not fits():
            self._tidy(fits)
        at = begins()[0]
        first = int(self.free[at])
        self.free = np.delete(self.free, np.s_[at : at + number])
        return first

    def _tidy(self, enough: Callable[[], bool]) -> None:
        """Find the slots that nobody has, and make more until it is enough and an eighth is free."""
        used = np.zeros(self.numbers.shape[3], dtype=bool)
        used[self.lines], used[0] = True, True
        for sentence in np.unique(self.sentence).tolist():
            begin = self.sources[sentence]
            used[begin : begin + self.source_ends[sentence]] = True
        self.free = np.flatnonzero(~used).astype(np.int32)
        while not enough() or len(self.free) < self.numbers.shape[3] // 8:
            more = np.arange(self.numbers.shape[3], 2 * self.numbers.shape[3], dtype=np.int32)
            self.numbers = torch.cat([self.numbers, torch.zeros_like(self.numbers)], 3)
            self.free = np.concatenate([self.free, more])


def rows_of(source: Batch, at: slice) -> Batch:
    """Some rows of a source, without slots that are padding in all of them."""
    where = source.where().selected(torch.arange(len(source.elements))[at])
    elements = source.elements[at]
    if where.valid is None:
        return Batch(elements, where)
    read = where.valid.any(0)
    return Batch(elements[:, read], where.mapped(lambda x: x.expand(len(elements), -1)[:, read]))
