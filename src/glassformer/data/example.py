"""An example: one sequence as a model reads it, and its targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Patches:
    """The patches of one image or audio clip, at the elements from `begin` on."""

    kind: str
    begin: int
    values: np.ndarray
    """float32 [N, P]; several examples may share the array."""


@dataclass(frozen=True)
class Example:
    """A sequence and its targets: at some elements (`at`), one for the sequence, or an answer."""

    ids: np.ndarray
    """int32 [T]; 0 where a patch is."""
    targets: np.ndarray | None = None
    """int64: one class for each of `at` [W]; for the sequence one class [1], or 0 and 1 for each
    class [1, C]."""
    at: np.ndarray | None = None
    """int64 [W]: indices into `ids`."""
    token_type_ids: np.ndarray | None = None
    """int64 [T]: the segment of each element."""
    said: np.ndarray | None = None
    """bool [T]: whether each element is of the assistant's messages in a conversation."""
    patches: tuple[Patches, ...] = ()
    answer: np.ndarray | None = None
    """int32 [A]: the tokens to be generated, the end symbol included."""

    @property
    def length(self) -> int:
        """Elements that a decoder reads: the sequence, and the answer without its end symbol."""
        return len(self.ids) + (0 if self.answer is None else len(self.answer) - 1)

    @property
    def prefix_length(self) -> int:
        """Elements up to the end of the last patches: what several examples can share."""
        return self.patches[-1].begin + len(self.patches[-1].values) if self.patches else 0

    def with_values(self, values: Sequence[np.ndarray]) -> Self:
        """Return the example with other numbers in its patches, one array [N, P] for each of
        `patches`."""
        new = (replace(old, values=own) for old, own in zip(self.patches, values, strict=True))
        return replace(self, patches=tuple(new))
