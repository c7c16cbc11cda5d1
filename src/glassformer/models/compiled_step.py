"""What the engine asks of a step of decoding that a compiler made from a model."""

from collections.abc import Sequence
from typing import Protocol

from glassformer.axes import Float, Tensor
from glassformer.layers.segments import Pool, Segment


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
