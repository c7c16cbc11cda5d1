"""What the engine and beam search ask of a step of decoding that a compiler made from a model."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.layers.segments import Pool, Segment

Table = tuple[np.ndarray, np.ndarray]
"""Where the keys of each of R rows are, and how many a row has, int64 [R]."""


class CompiledStep(Protocol):
    """A step of decoding of one model, in another program; see `native`."""

    @property
    def current(self) -> bool:
        """Whether it was made from the weights that the model has."""
        ...

    @property
    def keys(self) -> torch.dtype:
        """The type of keys and values with which it is fastest at the precision of its matrices."""
        ...

    def logits(
        self,
        batch: Batch,
        pool: Pool,
        texts: Sequence[Segment],
        sources: Sequence[Segment],
        asked: Sequence[int],
    ) -> Float[Tensor, "N V"]:
        """Logits of the elements `asked` of a row of new elements of several texts, whose keys and
        values are written; no number depends on other texts, or on how a text is divided in steps.

        `texts`: the segment of each text; `sources`: those of an encoder-decoder, which end with
        the source's elements.
        """
        ...

    def likeliest(
        self, ids: np.ndarray, numbers: Tensor, own: Table, sources: Table | None, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """log p of the k likeliest tokens behind one new element of each row, and these, [R, K]:
        the largest first, of equals the lower id.

        `own`: the slots of each row's keys, int32 [R, S]; those of the new element are written into
        the last. `sources`: the first slot of each row's source, int64 [R]. `numbers`: keys and
        values in all slots, [L, 2, G, slots, K].
        """
        ...
