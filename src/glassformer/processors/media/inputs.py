"""Decoded images or audio clips of one split."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from glassformer.core.axes import Float, Tensor
from glassformer.data.arrays import ArraySplit
from glassformer.data.example import Example
from glassformer.processors.inputs import Inputs


class MediaInputs(Inputs):
    """Decoded images or audio clips of one split, memory-mapped."""

    def __init__(self, processor: Any, records: Sequence[Any], stored: ArraySplit):
        """`processor`: the `MediaProcessor` that cuts them into patches."""
        super().__init__(records)
        self.processor, self.array = processor, stored.array
        self.skipped, self.clipped = stored.skipped, stored.clipped

    @property
    def lengths(self) -> np.ndarray:
        """Number of patches of each."""
        return np.full(len(self.records), self.processor.reader.n_patches)

    def patches(
        self, numbers: Sequence[int] | np.ndarray, step: int | None = None
    ) -> Float[Tensor, "N T P"]:
        """Return the patches of some of them, augmented at a training step."""
        chosen = np.asarray(numbers, np.int64)
        return self.processor.patches(self.array[chosen], chosen, step)

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """Return some of them as examples, augmented at a training step."""
        return self.processor.examples(self.patches(numbers, step))

    def picture(self, number: int) -> np.ndarray:
        """Return pixels or a spectrogram to look at."""
        return self.processor.picture(np.array(self.array[number]))

    def fingerprint(self) -> Iterator[bytes]:
        """Yield bytes that identify the content."""
        step = max(1, self.array.size // (1 << 20))
        yield np.ascontiguousarray(self.array[::step]).tobytes()
