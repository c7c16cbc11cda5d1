"""Letters of tensor axes in signatures, and the array types that they annotate.

Shapes are jaxtyping annotations, for example `Float[Tensor, "B H T K"]`; tests check them on every
call and production ignores them. A letter has one meaning:

    B  batch              T  query positions        S  key (source) positions
    D  model width        H  heads                  G  key-value heads
    K  head width         F  feed-forward width     V  vocabulary
    C  classes            L  layers                 P  width of one flattened patch
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Shapes", "Tensor", "Tensors"]

Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]
"""Tensors, and their shapes, by their names."""
