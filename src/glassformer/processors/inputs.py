"""The records that a processor has read: encoded inputs, and the order of learning them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glassformer.data.example import Example
from glassformer.data.order import LengthOrder, ShuffledOrder
from glassformer.errors import DataError

GROUP = 128


class Record(Protocol):
    """One row of the data, whatever it holds."""

    @property
    def split(self) -> str:
        """train, validation or test."""
        ...

    @property
    def where(self) -> str:
        """Where it comes from, as a user would name it."""
        ...


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


class Order(Protocol):
    """Which sequences are in the batch of a step, a function of (seed, step)."""

    @property
    def batches(self) -> float:
        """Batches in an epoch."""
        ...

    @property
    def padding(self) -> float:
        """Share of elements that are padding, in [0, 1)."""
        ...

    def rows(self, step: int) -> list[list[int]]:
        """The sequences of each row of a step's batch, by number."""
        ...


class SingleRows:
    """An order of single sequences: each is a row."""

    def __init__(self, order: ShuffledOrder | LengthOrder):
        self._order, self.batches, self.padding = order, order.batches, order.padding

    def rows(self, step: int) -> list[list[int]]:
        """See `Order`."""
        return [[i] for i in self._order.rows(step).tolist()]


class Inputs(ABC):
    """The encoded inputs of one split: sequences by number, several of them if a record is long."""

    records: Sequence[Any]
    """The records that could be read."""
    owner: np.ndarray
    """int64 [N]: the record that each sequence is of."""
    skipped: tuple[str, ...] = ()
    """What was wrong with each of the others."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """int64 [N]: elements of each sequence."""
        ...

    @abstractmethod
    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """Sequences by number: at a training step augmented, otherwise as they are."""
        ...

    @abstractmethod
    def fingerprint(self) -> Iterator[bytes]:
        """What identifies the content."""
        ...

    def groups(self, longest: int) -> list[list[int]]:
        """Sequences of like length together, for an evaluation; longer ones may be left out."""
        order = np.argsort(self.lengths, kind="stable").tolist()
        return [order[i : i + GROUP] for i in range(0, len(order), GROUP)]

    def units(self, number: int) -> slice:
        """Which units of its record a sequence answers for."""
        return slice(None)

    def bundles(self, share: bool) -> list[list[int]]:
        """Sequences in rows of a batch; with `share`, those that begin alike in one row."""
        return [[number] for number in range(len(self.owner))]

    def prefix_length(self, number: int) -> int:
        """Elements that a sequence shares with the others of its row."""
        return 0

    def mixed(
        self, targets: np.ndarray, n_classes: int, numbers: Sequence[int], step: int
    ) -> np.ndarray:
        """Class targets of a step's sequences, mixed as their inputs are."""
        return targets

    def picture(self, number: int) -> np.ndarray | None:
        """A sequence as an array to look at; None: it is text."""
        return None


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
