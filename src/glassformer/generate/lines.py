"""The hypotheses of many searches as rows of a compiled step, their keys in one memory.

    slots    x x x x . | x x . . . | a b c d e ...     cells of sources, and elements of hypotheses
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

SLOTS = 32
"""Slots for each sentence at first; there are twice as many once less than an eighth is free."""
CELLS = 2
"""Cells for each sentence of those at first: as beams narrow, more sentences have places."""
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
        self.longest = 0 if source is None else source.elements.shape[1] + config.n_prefix
        self.sources, self.source_ends = np.zeros((2, n), np.int64)
        """The cell of each sentence's source, and how many elements it has."""
        self.held = np.zeros(0, np.int64)
        """Sentences that have a cell."""
        cells = CELLS * min(n, at_once) * bool(self.longest)
        slots = cells * self.longest + 1 + SLOTS * min(n, at_once)
        shape = config.depth("decoder"), 2, config.kv_heads, slots, config.head_width
        self.numbers = torch.zeros(shape, dtype=step.keys)
        self.cells = 1 + self.longest * np.arange(cells)
        self.unused = np.ones(slots, dtype=bool)
        """Slots that a line may have; in slot 0 lines have no element."""
        self.unused[: cells * self.longest + 1] = False
        self.free = np.flatnonzero(self.unused).astype(np.int32)
        self.begun = 0
        self.sentence, self.tokens, self.ends = np.zeros((3, 0), np.int64)
        self.lines = np.zeros((0, COLUMNS), np.int32)

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
            real = _real(known, None if valid is None else valid[:, :-1])
            slots, counts = self._take(int(real.sum())), real.sum(1)
            self._write(known, real, slots)
            self._widen(1 + int(counts.max()))
            self.lines[-number:][np.arange(self.lines.shape[1]) < counts[:, None]] = slots
        if memory is not None:
            assert self.model.decoder is not None
            layers = cache.cross or self.model.decoder.source_keys_values(memory.hidden)
            real = _real(layers, memory.positions.valid)
            cells = self._take_cells(at)
            self._write(layers, real, (cells[:, None] + real.cumsum(1) - 1)[real])
            self.sources[at], self.source_ends[at] = cells, real.sum(1)

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

    def _write(self, layers: Layers, real: np.ndarray, slots: np.ndarray) -> None:
        """Write the real keys and values of N sentences, [N, G, T, K] at each layer, to slots."""
        which, at = torch.from_numpy(real), torch.from_numpy(slots).long()
        for layer, both in layers.items():
            for kept, new in zip(self.numbers[layer], both, strict=True):
                kept.index_copy_(1, at, new.transpose(0, 1)[:, which].to(kept.dtype))

    def _take(self, number: int) -> np.ndarray:
        """Free slots."""
        if len(self.free) < number:
            used = self.unused.copy()
            used[self.lines] = False
            free = np.flatnonzero(used)
            if len(free) < max(number, self.unused.sum() // 8):
                more = self._grow(max(number, int(self.unused.sum())))
                self.unused[more:] = True
                free = np.concatenate([free, np.arange(more, len(self.unused))])
            self.free = free.astype(np.int32)
        taken, self.free = np.split(self.free, [number])
        return taken

    def _take_cells(self, at: slice) -> np.ndarray:
        """Cells for the sources of new sentences; those of ended sentences are free."""
        new, going = np.arange(at.start, at.stop), np.isin(self.held, self.sentence)
        self.cells = np.concatenate([self.cells, self.sources[self.held[~going]]])
        self.held = np.concatenate([self.held[going], new])
        if (missing := len(new) - len(self.cells)) > 0:
            number = max(missing, len(self.held))
            more = self._grow(number * self.longest) + self.longest * np.arange(number)
            self.cells = np.concatenate([self.cells, more])
        taken, self.cells = np.split(self.cells, [len(new)])
        return taken

    def _grow(self, number: int) -> int:
        """Make more slots; returns the first."""
        before = self.numbers.shape[3]
        self.numbers = torch.nn.functional.pad(self.numbers, (0, 0, 0, number))
        self.unused = np.pad(self.unused, (0, number))
        return before


def _real(layers: Layers, valid: Bool[Tensor, "#N T"] | None) -> np.ndarray:
    """Whether each key is that of an element, [N, T]."""
    keys, _ = next(iter(layers.values()))
    real = keys.new_ones(len(keys), keys.shape[2], dtype=torch.bool)
    return (real if valid is None else valid.expand_as(real)).numpy()


def rows_of(source: Batch, at: slice) -> Batch:
    """Some rows of a source, without slots that are padding in all of them."""
    where = source.where().selected(torch.arange(len(source.elements))[at])
    elements = source.elements[at]
    if where.valid is None:
        return Batch(elements, where)
    read = where.valid.any(0)
    return Batch(elements[:, read], where.mapped(lambda x: x.expand(len(elements), -1)[:, read]))
