"""The letters that name tensor axes in signatures, and the array types they are used with.

Shapes are jaxtyping annotations, for example `Float[Tensor, "B H T K"]`; tests check them on every
call and production ignores them. A letter means the same everywhere:

    B  batch              T  query positions        S  key (source) positions
    D  model width        H  heads                  G  key-value heads
    K  head width         F  feed-forward width     V  vocabulary
    C  classes            L  layers                 P  width of one flattened patch
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
