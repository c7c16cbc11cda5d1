"""Layouts: the places of the elements of a forward pass, and the keys and values that they read.

    rows of one length      Layout, Long, Cache: here
    sequences in one row    Joined: `layers.attention.sequences`
    the same with a pool    RaggedCache: `layers.attention.ragged`

A layout gives contexts to a stack, and its layers store keys and values there. Masks read the
positions, so attention does not depend on the kind of layout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Positions
from glassformer.layers.attention.context import (
    CROSSED,
    AttentionContext,
    Scoring,
    SelectedPositions,
)

KeysValues = tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]
Layers = dict[int, tuple[Float[Tensor, "B G _ K"], Float[Tensor, "B G _ K"]]]
"""Keys and values by layer; their number differs between self- and cross-attention."""
Contexts = tuple[AttentionContext, AttentionContext | None]
"""Of self-attention, and of cross-attention if there is a source."""


class Layout:
    """Rows of one length, without previous elements."""

    positions: Positions | None = None
    """Those of previous elements, if new ones may follow them."""
    slices = False
    """Whether long rows may attend in slices."""
    sourced = False
    """Whether it has the keys and values of every source."""

    def advance(self, new: Positions) -> Self:
        """Return the layout in which these new elements are."""
        return self

    def contexts(
        self,
        scoring: Scoring,
        query: Positions,
        source: Positions | None,
        selected: SelectedPositions | None,
    ) -> tuple[Contexts, Contexts]:
        """Return the contexts of all blocks but the last, and those of the last one, in which only
        the `selected` positions have queries."""
        key, own = self.positions or query, scoring.slices_of(query) if self.slices else None
        whole = own or scoring.context(query, key), self.cross_context(query, source)
        if selected is None:
            return whole, whole
        read = selected.positions(query)
        own = scoring.context(read, key, query, selected)
        return whole, (own, self.cross_context(read, source))

    def cross_context(self, query: Positions, source: Positions | None) -> AttentionContext | None:
        """Return the context of cross-attention; None: there is no source."""
        return None if source is None else CROSSED.context(query, source)

    def store(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Store new keys and values of `layer`; return all that its queries read."""
        return compute()

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Return keys and values of the encoder's output at `layer`, computed if need be."""
        return compute()

    def whole(self) -> "Layout":
        """Return a layout of the same elements that computes scores as one tensor, in which a mask
        keeps sequences apart.

        ConfigError: there is none.
        """
        return Layout()


class Long(Layout):
    """Rows of one length, without previous elements; long ones attend in slices."""

    slices = True


@dataclass(frozen=True)
class Cache(Layout):
    """Keys and values of previous elements, with their positions.

    It is used like a value: `cache.advance(positions)` is a new cache that also holds the new
    positions; each layer then stores its new keys and values there and gets all of them back. It
    grows by concatenation; earlier values stay valid, so decoding may branch. `own[layer]`: keys
    and values of self-attention at `positions`. `cross[layer]`: those of the encoder's output,
    computed once.
    """

    positions: Positions | None = None
    own: Layers = field(default_factory=dict)
    cross: Layers = field(default_factory=dict)

    def advance(self, new: Positions) -> Self:
        """The cache with `new` positions appended."""
        positions = self.positions.extended(new) if self.positions else new
        return replace(self, positions=positions, own=dict(self.own), cross=dict(self.cross))

    def whole(self) -> Self:
        """Return itself."""
        return self

    def store(self, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
        """Append keys and values of the newest positions to those of `layer`; return all."""
        keys, values = compute()
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
