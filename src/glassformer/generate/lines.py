"""The hypotheses of many searches as rows of a compiled step, their keys in one memory.

    slots    x x x x | a b c | d e | ...     elements of sources, and of hypotheses
    lines    a hypothesis reads the slots of its elements, whoever else has them too

No key is copied where a hypothesis goes on in several ways, and a slot in nobody's line is free. So
sentences may come and go at any step.
"""

from collections.abc import Sequence

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
            config.depth("decoder"), 2, config.kv_heads, slots, config.head_width
        )
        self.free = np.arange(1, slots, dtype=np.int32)  # slot 0: where lines have no element
        self.begun = 0
        self.sentence = np.zeros(0, np.int64)
        self.tokens = np.zeros(0, np.int64)
        self.ends = np.zeros(0, np.int64)
        self.lines = np.zeros((0, COLUMNS), np.int32)
        longest = 0 if source is None else source.elements.shape[1]
        self.sources = np.zeros((n, longest), np.int32)
        self.source_ends = np.zeros(n, np.int64)

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
            table, _ = self._keep(known, None if valid is None else valid[:, :-1])
            self._widen(table.shape[1] + 1)
            self.lines[-number:, : table.shape[1]] = table
        if memory is not None:
            assert self.model.decoder is not None
            layers = cache.cross or self.model.decoder.source_keys_values(memory.hidden)
            table, self.source_ends[at] = self._keep(layers, memory.positions.valid)
            self.sources[at, : table.shape[1]] = table

    def offers(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """log p of the k likeliest tokens of each row, and these, [R, K]."""
        self.lines[np.arange(len(self.ends)), self.ends - 1] = self._take(len(self.ends))
        sources = None
        if self.source is not None:
            sources = self.sources[self.sentence], self.source_ends[self.sentence]
        own = self.lines, self.ends
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
        """Keep keys and values of N sentences, [N, G, T, K] at each layer; the table of their slots,
        and how many each has."""
        keys = next(iter(layers.values()))[0]
        real = keys.new_ones(len(keys), keys.shape[2], dtype=torch.bool)
        real = real if valid is None else valid.expand_as(real)
        table, counts = np.zeros(real.shape, np.int32), real.sum(1).numpy()
        table = table[:, : counts.max()]
        slots = self._take(int(counts.sum()))
        at = torch.from_numpy(slots).long()
        for layer, both in layers.items():
            for kept, new in zip(self.numbers[layer], both, strict=True):
                kept.index_copy_(1, at, new.transpose(0, 1)[:, real])
        table[np.arange(table.shape[1]) < counts[:, None]] = slots
        return table, counts

    def _take(self, number: int) -> np.ndarray:
        """Free slots."""
        if len(self.free) < number:
            self._tidy(number)
        taken, self.free = np.split(self.free, [number])
        return taken

    def _tidy(self, number: int) -> None:
        """Find the slots that nobody has, and make more if less than an eighth is free."""
        used = np.zeros(self.numbers.shape[3], dtype=bool)
        used[self.lines], used[self.sources[self.sentence]], used[0] = True, True, True
        while len(used) - used.sum() < max(number, len(used) // 8):
            self.numbers = torch.cat([self.numbers, torch.zeros_like(self.numbers)], 3)
            used = np.pad(used, (0, len(used)))
        self.free = np.flatnonzero(~used).astype(np.int32)


def rows_of(source: Batch, at: slice) -> Batch:
    """Some rows of a source, without slots that are padding in all of them."""
    where = source.where().selected(torch.arange(len(source.elements))[at])
    elements = source.elements[at]
    if where.valid is None:
        return Batch(elements, where)
    read = where.valid.any(0)
    return Batch(elements[:, read], where.mapped(lambda x: x.expand(len(elements), -1)[:, read]))
