"""What the engine asks of a step of decoding that a compiler made from a model."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from glassformer.axes import Float, Tensor
from glassformer.layers.segments import Pool, Segment

Table = tuple[np.ndarray, np.ndarray]
"""Slots of the keys of each of R rows, int32 [R, S], and how many a row has, int64 [R]."""


class CompiledStep(Protocol):
    """A step of decoding of one model, in another program; see `native`.

    `most`: elements up to which it is faster than the model's own products.
    """

    most: int

    @property
    def current(self) -> bool:
        """Whether it was made from the weights that the model has."""
        ...

    def logits(
        self,
        ids: Sequence[int],
        pool: Pool,
        texts: Sequence[Segment],
        sources: Sequence[Segment] = (),
    ) -> Float[Tensor, "N V"]:
        """Logits behind one new element of each text, whose keys and values are written.

        `texts`: segments of length 1; `sources`: those of an encoder-decoder, which end with the
        source's elements.
        """
        ...

    def likeliest(
        self, ids: np.ndarray, numbers: Tensor, own: Table, sources: Table | None, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """log p of the k likeliest tokens behind one new element of each row, and these, [R, K]: the
        largest first, of equals the lower id.

        Row r reads the keys in the slots of its line in `own`; its own are written into the last of
        them. `numbers`: keys and values, [L, 2, G, slots, K]. `sources`: the first slot of each
        row's source, and how many it has, int64 [R].
        """
        ...
