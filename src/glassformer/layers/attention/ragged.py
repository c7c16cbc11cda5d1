"""New elements of many sequences one after another in one row, each with a block table.

    elements   a a a a b c c              one row, no padding
    tables     [7 8 9 10] [3] [7 8 4 5]   slots of the keys and values of each sequence

A block has one slot. Sequences share what they have in common by listing the same slots: nothing is
copied where hypotheses part or prompts begin alike. Products of single elements read the whole row.
Attention reads each sequence over its own keys only, so that its numbers do not depend on others
(except through the rounding of products with more rows).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Int, Tensor
from glassformer.core.batch import Positions
from glassformer.core.devices import zeros_in_large_pages
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.cache import KeysValues, Layers, Layout
from glassformer.layers.attention.context import CROSSED, AttentionContext
from glassformer.layers.attention.sequences import GroupedContext, Joined, Sequences, read_groups

Tables = tuple[Int[np.ndarray, "M"], Int[np.ndarray, "W N"], Int[np.ndarray, "W N"]]
"""Slots of all block tables in a row, int32; for each new element the index at which its table
begins, and that of its source if there are sources; the numbers of slots that it reads there,
int64."""


class Pool:
    """Keys and values of all layers in slots, each with the number of tables that list it.

    `users`: that number, [S]; a slot without users is free and may hold anything. Slot 0 is never
    free: it is for elements that only make products wide enough. A pool that `grows` gets a
    quarter more where it has too few slots.
    """

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        d_head: int,
        n_slots: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        grows: bool = False,
    ):
        self.grows = grows
        self.users = np.zeros(0, np.int32)
        shape = n_layers, 2, n_kv_heads, 0, d_head
        self.numbers = torch.zeros(shape, dtype=dtype, device=device)
        self.grow(n_slots)
        self.users[0] = 1

    @staticmethod
    def slot_bytes(n_layers: int, n_kv_heads: int, d_head: int, dtype: torch.dtype) -> int:
        """Bytes of a slot: 2 L G K numbers."""
        return 2 * n_layers * n_kv_heads * d_head * dtype.itemsize

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.users)

    @property
    def n_free(self) -> int:
        """Number of slots without users."""
        return int((self.users == 0).sum())

    def grow(self, number: int) -> None:
        """Add slots."""
        before, n = self.numbers, self.n_slots
        with torch.inference_mode(False):  # or it could be changed only in that mode
            shape = *before.shape[:3], n + number, before.shape[4]
            self.numbers = zeros_in_large_pages(shape, before.dtype, before.device)
            self.numbers[:, :, :, :n] = before
            self.layers = [(keys, values) for keys, values in self.numbers]
        self.users = np.pad(self.users, (0, number))

    def take(self, number: int, together: bool = True) -> Int[np.ndarray, "N"]:
        """Return slots that were free, now with one user each: the first run that is long enough
        if they should be `together` and there is one, else the first ones."""
        free = np.flatnonzero(self.users == 0)
        if (missing := number - len(free)) > 0:
            assert self.grows, "more slots than are free"
            self.grow(max(missing, self.n_slots // 4))
            return self.take(number, together)
        if together and number:
            runs = free[number - 1 :] - free[: len(free) - number + 1] == number - 1
            free = free[runs.argmax() :]  # the first one, or if there is none, all
        self.users[free[:number]] = 1
        return free[:number].astype(np.int32)

    def share(self, slots: Int[np.ndarray, "N"]) -> None:
        """Count one more user of each of these slots, none of which is given twice."""
        self.users[slots] += 1

    def give(self, slots: Int[np.ndarray, "N"]) -> None:
        """Count one user less of each of these slots, none of which is given twice."""
        self.users[slots] -= 1

    def erase(self, slots: Int[np.ndarray, "N"]) -> None:
        """Fill slots with zeros: a view of sequences of different lengths reads reserved slots, and
        a masked NaN would still make the weighted sum of values NaN."""
        self.numbers[:, :, :, torch.from_numpy(slots).long()] = 0

    def write(self, tables: Sequence[Int[np.ndarray, "_"]], layers: Layers) -> None:
        """Write the first keys and values of each row, [B, G, S, K] at each layer, to the slots of
        its table."""
        device = self.numbers.device
        sizes = torch.tensor([*map(len, tables)], device=device)
        index = torch.from_numpy(np.concatenate(tables)).long().to(device)
        for layer, both in layers.items():
            for own, numbers in zip(self.layers[layer], both, strict=True):
                wanted = torch.arange(numbers.shape[2], device=device) < sizes[:, None]
                new = numbers.transpose(1, 2)[wanted].transpose(0, 1)
                own.index_copy_(1, index, new.to(own.dtype))


@dataclass(frozen=True, eq=False)
class RaggedCache(Joined):
    """The pool, seen by the sequences of one forward pass.

    `groups`: those that attend together, in the order of the row's elements. `sources`: for an
    encoder-decoder, their sources; `length` is the number of new elements that read one. `padding`:
    elements after all sequences, without attention.
    """

    pool: Pool
    groups: Sequence[Sequences]
    sources: Sequence[Sequences] = ()
    padding: int = 0
    sourced = True

    @cached_property
    def slots(self) -> Int[Tensor, "N"]:
        """Slot of each new element."""
        return self._join(one.slots for one in self.groups)

    @cached_property
    def new_positions(self) -> Positions:
        """Positions of the new elements, one sequence after another."""
        return Positions(self._join(one.places for one in self.groups)[None])

    def _join(self, numbers: Iterable[Int[np.ndarray, "R T"]]) -> Int[Tensor, "N"]:
        """Return a number of each new element, 0 for padding."""
        every = [*map(np.ravel, numbers), np.zeros(self.padding, np.int64)]
        return torch.from_numpy(np.concatenate(every)).to(self.pool.numbers.device)

    @cached_property
    def tables(self) -> Tables:
        """Block tables of the sequences, and after them of their sources."""
        both = [*self.groups, *self.sources]
        sizes = [(one.table.shape[1], one.length) for one in both]
        widths, lengths = np.repeat(sizes, [one.rows for one in both], 0).T
        first = (widths.cumsum() - widths).repeat(lengths)
        ends = [one.places.ravel() + 1 for one in self.groups]
        ends += [one.ends.repeat(one.length) for one in self.sources]
        slots = np.concatenate([one.table.ravel() for one in both], dtype=np.int32)
        shape = 2 if self.sources else 1, -1
        return slots, first.reshape(shape), np.concatenate(ends).reshape(shape)

    def cross_context(self, query: Positions, source: Positions | None) -> AttentionContext | None:
        """Return the context of cross-attention; None: there is no source."""
        device = self.pool.numbers.device
        return GroupedContext.of(self.sources, CROSSED, device) if self.sources else None

    def store(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Write the new keys and values; return the keys of each group, and their values."""
        for own, new in zip(self.pool.layers[layer], compute(), strict=True):
            own.index_copy_(1, self.slots, new[0].to(own.dtype))
        return read_groups(self.pool.layers[layer], self.groups)

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Return keys of the source of each group, and values, which are in the pool already."""
        return read_groups(self.pool.layers[layer], self.sources)

    def whole(self) -> Layout:
        """Raise ConfigError."""
        raise ConfigError(
            "Scores and patterns are not computed while texts are written; run the model on a "
            "whole text to read or edit them."
        )
