"""Encoded inputs of a split, and the order in which training reads them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import DataError
from glassformer.data.example import Example
from glassformer.data.order import LengthOrder, PackedOrder, ShuffledOrder

GROUP = 128


Records = Mapping[str, Sequence[Any]]
"""The records of each split."""


@dataclass(frozen=True)
class Sizes:
    """How large a training batch is: sequences, or elements; and the longest sequence."""

    batch_size: int
    batch_tokens: int | None
    longest: int
    seed: int
    share_prefix: bool = False
    """Read the patches that several examples begin with once, in one row."""


class Rows:
    """An order whose rows are single sequences, or bundles of them."""

    def __init__(
        self, order: ShuffledOrder | LengthOrder, bundles: Sequence[list[int]] | None = None
    ):
        self._order, self._bundles, self.batches = order, bundles, order.batches

    def rows(self, step: int) -> list[list[int]]:
        """The sequences of each row of a step's batch, by number."""
        numbers = self._order.rows(step).tolist()
        return [[i] if self._bundles is None else self._bundles[i] for i in numbers]


Order = Rows | PackedOrder
"""The sequences in each row of the batch of a step, a function of (seed, step)."""


class Inputs(ABC):
    """The encoded inputs of one split: sequences by number, several of them if a record is long."""

    skipped: tuple[str, ...] = ()
    """Why each unreadable record was left out."""
    has_targets: bool = False
    """Whether the targets are among them."""
    clipped: int = 0
    """Recordings that are longer than the clip that is read of them."""

    def __init__(self, records: Sequence[Any], owner: np.ndarray | None = None):
        self.records = records
        """The records that could be read."""
        self.owner = np.arange(len(records)) if owner is None else owner
        """int64 [N]: the record of each sequence."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """int64 [N]: elements of each sequence."""

    @abstractmethod
    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """Sequences by number: augmented at a training step, unchanged without one."""

    @abstractmethod
    def fingerprint(self) -> Iterator[bytes]:
        """Bytes that identify the content."""

    def groups(self, longest: int) -> list[list[int]]:
        """Sequences of like length together, for an evaluation; longer ones may be left out."""
        return by_length(self.lengths, GROUP)

    def too_long(self, longest: int) -> int:
        """Return how many sequences training leaves out, since they have more elements."""
        return 0

    def count(self, lengths: np.ndarray, share: bool) -> int:
        """Return the number of elements of all sequences of these lengths; `share`: a prefix that
        several share counts once."""
        return int(lengths.sum())

    def record(self, number: int) -> Any:
        """Return the record of a sequence."""
        return self.records[int(self.owner[number])]

    def first(self, n: int) -> Sequence[int]:
        """Return the numbers of `n` sequences to show, or of all if there are fewer."""
        return range(min(n, len(self.owner)))

    def units(self, number: int) -> slice:
        """Units of its record that a sequence answers for."""
        return slice(None)

    def picture(self, number: int) -> np.ndarray | None:
        """A sequence as an array to look at; None: it is text."""
        return None


def by_length(lengths: Sequence[int] | np.ndarray, size: int) -> list[list[int]]:
    """Numbers of sequences in groups of at most `size`, shorter sequences first."""
    order = np.argsort(lengths, kind="stable").tolist()
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def by_split(records: Iterable[Any]) -> dict[str, list[Any]]:
    """All records, those of each split together."""
    found: dict[str, list[Any]] = {}
    for record in records:
        found.setdefault(record.split, []).append(record)
    return found


def split_of(records: Mapping[str, Any], name: str) -> Any:
    """One of the splits; DataError: it is empty."""
    if name not in records and name == "train":
        raise DataError("there are no training examples; give more of them, or hold out fewer")
    if name not in records:
        raise DataError(
            f"there are no {name} examples; set data.{name}.path or data.{name}.fraction "
            f"(there is {', '.join(records)})"
        )
    return records[name]
