"""Keys and values of previous elements, with their positions.

A cache is used like a value: `cache.advanced(positions)` is a new cache that also holds the new
positions; each layer then stores its new keys and values there and gets all of them back. Masks
read the positions, so attention does not depend on the kind of cache.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Positions

KeysValues = tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]
Layers = dict[int, tuple[Float[Tensor, "B G _ K"], Float[Tensor, "B G _ K"]]]
"""Keys and values by layer; their number differs between self- and cross-attention."""


@dataclass(frozen=True)
class Cache:
    """A cache that grows by concatenation; earlier values stay valid, so decoding may branch.

    `own[layer]`: keys and values of self-attention at `positions`. `cross[layer]`: those of the
    encoder's output, computed once.
    """

    positions: Positions | None = None
    own: Layers = field(default_factory=dict)
    cross: Layers = field(default_factory=dict)

    def advanced(self, new: Positions) -> "Cache":
        """The cache with `new` positions appended."""
        return Cache(
            self.positions.extended(new) if self.positions else new,
            dict(self.own),
            dict(self.cross),
        )

    def store(
        self, layer: int, keys: Float[Tensor, "B G T K"], values: Float[Tensor, "B G T K"]
    ) -> KeysValues:
        """Append keys and values of the newest positions to those of `layer`; returns all."""
        if layer in self.own:
            old_keys, old_values = self.own[layer]
            keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
        self.own[layer] = keys, values
        return keys, values

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
        """Keys and values of the encoder's output at `layer`, computed at the first call."""
        if layer not in self.cross:
            self.cross[layer] = compute()
        return self.cross[layer]
