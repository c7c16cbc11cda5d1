"""Live hypotheses of many searches as rows of a model's step, their keys in one pool.

    slots    x x x x | x x x | a b c d e ...     sources, and elements of hypotheses
    table    the slots of the elements of a hypothesis, which others may list too

No key is copied where a hypothesis continues in several ways, and a slot in no table is free.
Sentences begin and end at any step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from glassformer.axes import Bool, Float, Tensor
from glassformer.batch import Batch, Part
from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.layers.cache import Layers
from glassformer.layers.ragged import Pool, RaggedCache, Sequences
from glassformer.losses import at_least_float32
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer
from glassformer.runtime.sampling import likeliest

Change = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
SLOTS = 32
"""Slots for each sentence at first; the pool is doubled when it is full."""
COLUMNS = 32
"""Elements for which tables get room at a time."""
HEAD_ROWS = 128
"""Rows whose logits are computed together: few enough for these to stay in the cache."""


class BeamRows:
    """The rows of a search over sentences, and their keys.

    `prompts`: of all sentences. `source`: theirs, padded, of an encoder-decoder. Sentences begin in
    this order, about `at_once` at the same time. The rows of a sentence follow each other. `step`:
    the compiled step, or None for the model's own pass.
    """

    def __init__(
        self,
        model: Transformer,
        step: CompiledStep | None,
        prompts: Sequence[Example],
        source: Batch | None,
        at_once: int,
    ):
        self.model, self.step, self.prompts, self.source = model, step, prompts, source
        config, weight = model.config, next(model.parameters())
        shape = config.depth("decoder"), config.kv_heads, config.head_width
        n_slots = 1 + SLOTS * min(len(prompts), at_once)
        dtype = weight.dtype if step is None else step.keys
        self.pool = Pool(*shape, n_slots, dtype, weight.device)
        longest = 0 if source is None else source.elements.shape[1] + config.n_prefix
        self.sources = np.zeros((len(prompts), longest), np.int32)
        """Slots of the source of each sentence, and after its end of padding."""
        self.source_ends, self.source_widths = np.zeros((2, len(prompts)), np.int64)
        """Number of elements of each, and of its slots; 0 of a sentence without rows."""
        self.begun = 0
        self.sentence, self.tokens, self.ends = np.zeros((3, 0), np.int64)
        self.table = np.zeros((0, COLUMNS), np.int32)
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""
        self.cache = RaggedCache()
        """The rows in the last step."""

    def begin(self, number: int) -> None:
        """Begin the next sentences: read their sources, and their prompts but for the last
        element."""
        new = range(self.begun, self.begun + number)
        prompts, self.begun = [self.prompts[i] for i in new], new.stop
        ends = np.array([len(one.ids) for one in prompts])
        self.sentence = np.concatenate([self.sentence, new])
        self.tokens = np.concatenate([self.tokens, [one.ids[-1] for one in prompts]])
        self.ends = np.concatenate([self.ends, ends])
        self.table = np.pad(self.table, [(0, number), (0, 0)])
        self._widen(int(ends.max()))
        if self.source is not None:
            self._read_sources(new)
        for row, length in enumerate(ends.tolist(), len(self.table) - number):
            self.table[row, : length - 1] = self._take(length - 1)
            last = prompts[row - len(self.table) + number]
            end = range(length - 1, length)
            self.parts += _parts(last, end, row, self.pool.numbers.device)
        self._read_prompts(prompts, number)

    def _read_sources(self, new: range) -> None:
        """Write the keys and values of the sources of sentences into slots."""
        assert self.source is not None
        assert self.model.decoder is not None
        rows = rows_of(self.source, new)
        memory = self.model.encode(rows.to(self.pool.numbers.device))
        layers = self.model.decoder.source_keys_values(memory.hidden)
        real = _real(layers, memory.positions.valid)
        # at equal distances, so that a view has all of them, and zeros where it reads padding
        slots, sizes, width = self._take(real.size).reshape(real.shape), real.sum(1), real.shape[1]
        kept = np.arange(width) < sizes[:, None]
        self._write(layers, real, slots[kept])
        self.pool.erase(slots[~kept])
        at = slice(new.start, new.stop)
        self.sources[at, :width], self.source_ends[at], self.source_widths[at] = slots, sizes, width

    def _source(self, sentence: int) -> np.ndarray:
        """Slots of the source of a sentence."""
        return self.sources[sentence, : self.source_ends[sentence]]

    def _read_prompts(self, prompts: Sequence[Example], number: int) -> None:
        """Run the prompts of the newest rows through the model, but for the last element."""
        device, first = self.pool.numbers.device, len(self.table) - number
        lengths = enumerate((self.ends[first:] - 1).tolist(), first)
        rows = [(row, length) for row, length in lengths if length]
        if not rows:
            return
        texts = [Sequences.single(self.table[row, :length], length) for row, length in rows]
        of = self.sentence.tolist()
        sources = [
            Sequences.single(self._source(of[row]), length)
            for row, length in rows
            if self.source is not None
        ]
        parts, ids = list[Part](), list[int]()
        for row, _ in rows:
            prompt = prompts[row - first]
            parts += _parts(prompt, range(len(prompt.ids) - 1), len(ids), device)
            ids += prompt.ids[:-1].tolist()
        cache = RaggedCache.of(self.pool, texts, sources)
        elements = torch.tensor([ids], device=device)
        self.model.features(Batch(elements, cache.new_positions, parts=tuple(parts)), cache=cache)

    def offers(
        self, k: int, change: Change | None = None, keeps_all: bool = False
    ) -> tuple[np.ndarray, np.ndarray, Float[Tensor, "_ V"]]:
        """Return log p of the k likeliest tokens of each row after a `change`, these, [R, K], and
        log p of all tokens if it `keeps_all`."""
        new = self._take(len(self.ends))
        self.table[np.arange(len(self.ends)), self.ends - 1] = new
        group = Sequences(self.table[:, : self.ends.max()], self.ends, 1)
        cache = self.cache = RaggedCache.of(self.pool, [group], self._source_groups())
        elements = torch.from_numpy(self.tokens)[None].to(self.pool.numbers.device)
        batch = Batch(elements, cache.new_positions, parts=tuple(self.parts))
        self.parts.clear()
        if self.step is not None:
            return *self.step.likeliest(batch, cache, k), torch.empty(0, 0)
        hidden = self.model.features(batch, cache=cache).hidden[0]
        whole = change is not None or keeps_all
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows in hidden.split(len(hidden) if whole else HEAD_ROWS):
            left = at_least_float32(self.model.head(rows[None])[0]).log_softmax(-1)
            left = left if change is None else change(left)
            ids = likeliest(left, k)
            parts.append((left.gather(-1, ids).cpu(), ids.cpu(), left if keeps_all else left[:0]))
        log_probs, ids, left = (torch.cat(column) for column in zip(*parts, strict=True))
        return log_probs.numpy(), ids.numpy(), left

    def _source_groups(self) -> list[Sequences]:
        """The sources of all rows, neighbours with equally many rows together."""
        if self.source is None:
            return []
        sentences, counts = np.unique(self.sentence, return_counts=True)
        bounds = [0, *(np.flatnonzero(np.diff(counts)) + 1).tolist(), len(counts)]
        found: list[Sequences] = []
        for begin, end in pairwise(bounds):
            ends = self.source_ends[sentences[begin:end]]
            table = self.sources[sentences[begin:end]]
            found.append(Sequences(table, ends, int(counts[begin])))
        return found

    def grow(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token; slots and sources that no row has any
        more are free."""
        before = self._slots(self.ends)
        self.sentence, self.table = self.sentence[parents], self.table[parents]
        self.ends, self.tokens = self.ends[parents] + 1, tokens
        after = np.zeros(self.pool.n_slots, bool)
        after[self._slots(self.ends - 1)] = True
        self.pool.give(np.unique(before[~after[before]]))
        for sentence in np.setdiff1d(np.flatnonzero(self.source_widths), self.sentence):
            self.pool.give(self.sources[sentence, : self.source_widths[sentence]])
            self.source_widths[sentence] = 0
        self._widen(int(self.ends.max(initial=0)))

    def _slots(self, ends: np.ndarray) -> np.ndarray:
        """Return the slots of the first `ends` elements of each row."""
        return self.table[np.arange(self.table.shape[1]) < ends[:, None]]

    def _widen(self, columns: int) -> None:
        if (missing := columns - self.table.shape[1]) > 0:
            self.table = np.pad(self.table, [(0, 0), (0, -(-missing // COLUMNS) * COLUMNS)])

    def _write(self, layers: Layers, real: np.ndarray, slots: np.ndarray) -> None:
        """Write the real keys and values of N sentences, [N, G, T, K] at each layer, to slots."""
        device = self.pool.numbers.device
        which, at = torch.from_numpy(real).to(device), torch.from_numpy(slots).long().to(device)
        for layer, both in layers.items():
            for kept, new in zip(self.pool.layers[layer], both, strict=True):
                kept.index_copy_(1, at, new.transpose(0, 1)[:, which].to(kept.dtype))

    def _take(self, number: int) -> np.ndarray:
        """Take free slots, of a larger pool where there are too few."""
        while (taken := self.pool.take(number)) is None:
            self.pool.grow(max(number, self.pool.n_slots))
        return taken


def _parts(prompt: Example, slots: range, at: int, device: torch.device) -> list[Part]:
    """Return the patches at some elements of a prompt, which are new ones from number `at` on."""
    own = padded([prompt]).parts
    found = (part.taken(torch.tensor(slots, dtype=torch.long), len(prompt.ids)) for part in own)
    return [replace(part, at=part.at + at).to(device) for part in found]


def _real(layers: Layers, valid: Bool[Tensor, "#N T"] | None) -> np.ndarray:
    """Whether each key is that of an element, [N, T]."""
    keys, _ = next(iter(layers.values()))
    real = keys.new_ones(len(keys), keys.shape[2], dtype=torch.bool)
    return (real if valid is None else valid.expand_as(real)).cpu().numpy()


def rows_of(source: Batch, rows: range) -> Batch:
    """Return some rows of a source, without slots that are padding in all of them."""
    where, length = source.where().selected(torch.tensor(rows)), source.elements.shape[1]
    read = torch.arange(length)
    if where.valid is not None:
        read = where.valid.any(0).nonzero()[:, 0]
        where = where.mapped(lambda t: t.expand(len(rows), -1)[:, read])
    parts = (_rows_of_part(one, rows, length).taken(read, length) for one in source.parts)
    return Batch(source.elements[rows.start : rows.stop, read], where, parts=tuple(parts))


def _rows_of_part(part: Part, rows: range, length: int) -> Part:
    own = (part.at >= rows.start * length) & (part.at < rows.stop * length)
    return Part(part.name, part.at[own] - rows.start * length, part.values[own], part.index[own])
