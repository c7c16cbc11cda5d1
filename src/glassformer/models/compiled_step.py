"""What the engine asks of a step of decoding that a compiler made from a model."""

from collections.abc import Sequence
from typing import Protocol

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.layers.segments import Pool, Segment


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
