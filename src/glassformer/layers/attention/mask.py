"""Masks as values: predicates over the positions of query and key, combined with `&` and `|`; True
means "may attend".

    Causal() & Valid()                   a decoder over padded rows
    Causal() & SameDocument() & Valid()  packed documents
    Causal() & Window(256)               each element sees the last 256

`allowed` resolves a mask for one call to nothing, to the causal triangle that kernels know, or to a
table.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch

from glassformer.core.axes import Bool, Float, Tensor
from glassformer.core.batch import SHARED_PREFIX, Positions
from glassformer.layers.cpu_kernels import on_cpu


@dataclass(frozen=True)
class Mask(ABC):
    """A predicate over (query position, key position)."""

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, other)

    @abstractmethod
    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """True at [b, i, j] where query i may attend to key j."""

    def needed(self, query: Positions, key: Positions) -> "Mask | None":
        """This mask without the parts that allow everything at such positions; None: all of it."""
        return self

    def reach(self, query: Positions, key: Positions) -> tuple[int, int]:
        """Begin and end of the keys that queries may attend to, as far as `start` tells."""
        return 0, key.length


@dataclass(frozen=True)
class Everything(Mask):
    """Every query attends to every key."""

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """All True."""
        return torch.ones(1, query.length, key.length, dtype=torch.bool, device=key.position.device)

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Never needed."""
        return None


@dataclass(frozen=True)
class Causal(Mask):
    """No key after the query: M_ij = 0 for j <= i, -inf otherwise (Notes A, B, D, E)."""

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """position(key) <= position(query)."""
        return key.position[:, None, :] <= query.position[:, :, None]

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Not needed if the first query is at or after the last key (one decoding step)."""
        if query.start is None or key.start is None:
            return self
        return None if query.start >= key.start + key.length - 1 else self

    def reach(self, query: Positions, key: Positions) -> tuple[int, int]:
        """To the last query."""
        if query.start is None or key.start is None:
            return 0, key.length
        return 0, query.start + query.length - key.start


@dataclass(frozen=True)
class Window(Mask):
    """Query and key are less than `size` positions apart."""

    size: int

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """|position(query) - position(key)| < size."""
        return (key.position[:, None, :] - query.position[:, :, None]).abs() < self.size

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Not needed if no query and key are that far apart."""
        if query.start is None or key.start is None:
            return self
        reach = max(
            query.start + query.length - 1 - key.start, key.start + key.length - 1 - query.start
        )
        return None if reach < self.size else self

    def reach(self, query: Positions, key: Positions) -> tuple[int, int]:
        """From `size` - 1 before the first query to as many behind the last."""
        if query.start is None or key.start is None:
            return 0, key.length
        first, last = query.start - key.start, query.start - key.start + query.length - 1
        return first - self.size + 1, last + self.size


@dataclass(frozen=True)
class SameDocument(Mask):
    """Query and key are in the same document of a packed row, or the key in the shared prefix."""

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """document(key) is document(query) or SHARED_PREFIX; None is document 0."""
        side = lambda p: torch.zeros_like(p.position) if p.document is None else p.document
        of = side(key)[:, None, :]
        return (of == side(query)[:, :, None]) | (of == SHARED_PREFIX)

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Not needed if neither side has documents."""
        return None if query.document is None and key.document is None else self


@dataclass(frozen=True)
class Valid(Mask):
    """The key is a real element, not padding."""

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """valid(key)."""
        valid = torch.ones_like(key.position, dtype=torch.bool) if key.valid is None else key.valid
        return valid[:, None, :].expand(-1, query.length, -1)

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Not needed without padding among the keys."""
        return None if key.valid is None else self


@dataclass(frozen=True)
class Both(Mask):
    """Allowed by both masks."""

    left: Mask
    right: Mask

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """Logical and."""
        return self.left.table(query, key) & self.right.table(query, key)

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """The needed parts of both."""
        left, right = self.left.needed(query, key), self.right.needed(query, key)
        if left is None or right is None:
            return left or right
        return Both(left, right)

    def reach(self, query: Positions, key: Positions) -> tuple[int, int]:
        """What both reach."""
        (begin, end), (other, until) = self.left.reach(query, key), self.right.reach(query, key)
        return max(begin, other), min(end, until)


@dataclass(frozen=True)
class Either(Mask):
    """Allowed by one of the masks."""

    left: Mask
    right: Mask

    def table(self, query: Positions, key: Positions) -> Bool[Tensor, "B T S"]:
        """Logical or."""
        return self.left.table(query, key) | self.right.table(query, key)

    def needed(self, query: Positions, key: Positions) -> Mask | None:
        """Not needed if one of them allows everything."""
        left, right = self.left.needed(query, key), self.right.needed(query, key)
        return None if left is None or right is None else Either(left, right)

    def reach(self, query: Positions, key: Positions) -> tuple[int, int]:
        """What one of them reaches."""
        (begin, end), (other, until) = self.left.reach(query, key), self.right.reach(query, key)
        return min(begin, other), max(end, until)


@dataclass(frozen=True)
class Allowed:
    """A mask resolved for one call: everything (`causal` False, `dense` None), the causal triangle
    whose last query is at the last key, or a dense table."""

    causal: bool = False
    dense: Bool[Tensor, "B 1 T S"] | None = None

    added: Float[Tensor, "B 1 T S"] | None = None
    """The table, or the triangle where there are more keys than queries, as added to scores: 0 or
    -inf; see `prepared`."""
    some: Bool[Tensor, "B 1 T 1"] | None = None
    """True for queries with any allowed key; None: all."""

    def prepared(self) -> "Allowed":
        """This mask with `added` and `some`, computed once for all layers.

        A query without any key is opened to all keys and zeroed afterwards, since kernels differ
        there (0 or NaN).
        """
        if self.dense is None or self.added is not None:
            return self
        some = self.dense.any(-1, keepdim=True)
        added = torch.zeros(self.dense.shape, device=some.device).masked_fill(
            ~(self.dense | ~some), -torch.inf
        )
        return replace(self, added=added, some=None if on_cpu(some) and bool(some.all()) else some)

    def as_table(
        self, queries: int, keys: int, device: torch.device
    ) -> Bool[Tensor, "B 1 T S"] | None:
        """The dense table, also of the triangle; None if everything is allowed."""
        if self.causal:
            table = torch.ones(queries, keys, dtype=torch.bool, device=device)
            return table.tril(keys - queries)[None, None]
        return self.dense


def allowed(mask: Mask, query: Positions, key: Positions) -> Allowed:
    """Resolve `mask` for queries and keys at these positions to its cheapest form."""
    needed = mask.needed(query, key)
    if needed is None:
        return Allowed()
    aligned = query.start is not None and query.start == key.start and query.length == key.length
    if isinstance(needed, Causal) and aligned:
        return Allowed(causal=True)
    return Allowed(dense=needed.table(query, key)[:, None])
