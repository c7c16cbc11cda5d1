"""Interface of a step of decoding that a compiler made from a model."""

from typing import Protocol

import numpy as np
import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Batch
from glassformer.layers.attention.ragged import RaggedCache


class CompiledStep(Protocol):
    """A step of decoding of one model, in another program; see `native`.

    It writes keys and values of the new elements into the cache's slots. No number depends on other
    sequences, or on how a text is divided in steps.
    """

    @property
    def current(self) -> bool:
        """True if it was made from the weights that the model has."""
        ...

    @property
    def keys(self) -> torch.dtype:
        """Type of keys and values with which it is fastest at the precision of its matrices."""
        ...

    def logits(
        self, batch: Batch, cache: RaggedCache, asked: Int[np.ndarray, "N"]
    ) -> Float[Tensor, "N V"]:
        """Return logits after the new elements with these numbers."""
        ...

    def likeliest(self, batch: Batch, cache: RaggedCache, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return log p of the k likeliest tokens after each new element, and these, [N, K]: the
        largest first, of equals the lower id."""
        ...
