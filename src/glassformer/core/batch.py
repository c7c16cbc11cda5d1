"""Input of a model: elements, their positions, and targets.

`Batch` is the only contract between the side that reads data (`processors`, `data`) and the side
that computes (`layers`, `models`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch

from glassformer.core.axes import Bool, Float, Int, Tensor

IGNORE = -100
"""Target of a position without loss (torch's convention)."""
SHARED_PREFIX = -2
"""Document id of a shared prefix: every document of the row continues it."""


Side = Literal["right", "left"]
"""The side of the padding."""


def padded_rows(
    rows: Sequence[Sequence[int] | np.ndarray], fill: int = 0, side: Side = "right"
) -> Int[Tensor, "B T"]:
    """Rows of whole numbers padded with `fill` to the longest, int64."""
    table = np.full((len(rows), max(map(len, rows))), fill)
    for slots, row in zip(table, rows, strict=True):
        begin = len(slots) - len(row) if side == "left" else 0
        slots[begin : begin + len(row)] = row
    return torch.from_numpy(table)


@dataclass(frozen=True)
class OnDevice:
    """Values whose tensors are on one device."""

    def to(self, device: torch.device | str) -> Self:
        """Return a copy on another device."""

        def move(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(move, value))
            return value.to(device) if isinstance(value, Tensor | OnDevice) else value

        return replace(self, **{name: move(value) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Positions(OnDevice):
    """Position, document and validity of the elements of a sequence.

    Masks read only this, never the index of a slot, so that padding on either side, packing, caches
    and windows cannot be wrong by layout. `document` None: one document. `valid` None: no padding.
    A batch axis of 1 serves every row. Documents that continue a shared prefix (document
    SHARED_PREFIX) each begin at the position after it.
    """

    position: Int[Tensor, "#B T"]
    document: Int[Tensor, "#B T"] | None = None
    valid: Bool[Tensor, "#B T"] | None = None
    start: int | None = None
    """If not None, positions of every row are start, start+1, ..., known without reading the
    tensor."""

    @classmethod
    def arange(cls, length: int, start: int = 0, device: torch.device | str | None = None) -> Self:
        """Positions start .. start+length-1, one row for all of the batch, all real."""
        return cls(torch.arange(start, start + length, device=device)[None], start=start)

    @classmethod
    def pad(cls, lengths: Sequence[int], side: Side = "right") -> Self:
        """Rows of the given lengths padded to the longest on the `right` or `left`; only real
        elements count."""
        width, count = max(lengths), torch.tensor(list(lengths))[:, None]
        position = torch.arange(width) - (width - count) * (side == "left")
        return cls(position.clamp(min=0), valid=(position >= 0) & (position < count))

    @classmethod
    def pack(cls, document: Int[Tensor, "B T"]) -> Self:
        """Packed documents: positions restart at 0 in each run of equal ids; negative ids are
        padding."""
        slot = torch.arange(document.shape[1], device=document.device).expand_as(document)
        begins = torch.ones_like(document, dtype=torch.bool)
        begins[:, 1:] = document[:, 1:] != document[:, :-1]
        real = document >= 0
        position = (slot - torch.where(begins, slot, 0).cummax(1).values).where(real, 0)
        return cls(position, document=document, valid=None if bool(real.all()) else real)

    @classmethod
    def join(cls, lengths: Sequence[int]) -> Self:
        """One row of documents of these lengths one after another, positions from 0 in each."""
        size = torch.tensor(list(lengths))
        document = torch.arange(len(size)).repeat_interleave(size)
        position = torch.arange(len(document)) - (size.cumsum(0) - size)[document]
        return cls(position[None], document[None])

    @property
    def length(self) -> int:
        """T, the number of slots."""
        return self.position.shape[1]

    @property
    def rows(self) -> int:
        """B, or 1 if one row serves the whole batch."""
        fields = self.position, self.document, self.valid
        return max(field.shape[0] for field in fields if field is not None)

    def append(self, new: "Positions") -> "Positions":
        """Return these positions with `new` ones appended."""
        rows, both = max(self.rows, new.rows), (self, new)
        join = lambda tensors: torch.cat([t.expand(rows, -1) for t in tensors], dim=1)
        document = valid = None
        if not (self.document is None and new.document is None):
            document = join(
                torch.zeros_like(one.position) if one.document is None else one.document
                for one in both
            )
        if not (self.valid is None and new.valid is None):
            valid = join(
                torch.ones_like(one.position, dtype=torch.bool) if one.valid is None else one.valid
                for one in both
            )
        follows = self.start is not None and new.start == self.start + self.length
        position = join(one.position for one in both)
        return Positions(position, document, valid, self.start if follows else None)

    def after(self, n: int) -> "Positions":
        """Positions 0 .. n-1 of elements of the first one's document, then these, moved by `n`."""
        if not n:
            return self
        start = None if self.start is None else self.start + n
        moved = Positions(self.position + n, self.document, self.valid, start)
        document = None if self.document is None else self.document[:, :1].expand(-1, n)
        first = torch.arange(n, device=self.position.device)[None]
        return Positions(first, document, start=0).append(moved)

    def map(self, change: Callable[[Tensor], Tensor], start: int | None = None) -> "Positions":
        """Return these positions with `change` of each tensor; they begin at `start` if known."""
        optional = lambda t: None if t is None else change(t)
        return Positions(
            change(self.position), optional(self.document), optional(self.valid), start
        )

    def select(self, rows: Int[Tensor, "N"]) -> "Positions":
        """Positions of the given rows; a shared row stays shared."""
        return self.map(lambda t: t if len(t) == 1 else t[rows], self.start)

    def following(self, length: int) -> "Positions":
        """Positions of `length` elements after the last real element of each row, in its
        document."""
        if self.start is not None and self.valid is None and self.document is None:
            return Positions.arange(length, self.start + self.length, self.position.device)
        slot = torch.arange(self.length, device=self.position.device)[None]
        real = slot >= 0 if self.valid is None else self.valid
        # Padding may follow the last real element.
        last = slot.where(real, 0).amax(1, keepdim=True).expand(self.rows, 1)
        ends = self.map(lambda t: t.expand(self.rows, -1).gather(1, last))
        # A row of nothing but padding begins at 0.
        before = ends.position.where(real.any(1, keepdim=True), -1)
        position = before + torch.arange(1, length + 1, device=self.position.device)
        document = None if ends.document is None else ends.document.expand(-1, length)
        return Positions(position, document)


@dataclass(frozen=True)
class Part(OnDevice):
    """Vectors instead of tokens: the patches of all images, or of all audio clips, of a batch."""

    name: str
    """Type of part, a key of `ModelConfig.parts`: image, audio."""
    at: Int[Tensor, "N"]
    """Index into B x T of each patch, each once."""
    values: Float[Tensor, "N P"]
    index: Int[Tensor, "N"]
    """Number of each patch within its image or clip, from 0."""

    def select(self, slots: Int[Tensor, "S"], length: int) -> "Part":
        """The part after selecting `slots` of each row of `length` elements, in that order."""
        place = torch.full((length,), -1, device=self.at.device)
        place[slots] = torch.arange(len(slots), device=self.at.device)
        new = place[self.at % length]
        at = self.at.div(length, rounding_mode="floor") * len(slots) + new
        return Part(self.name, at[new >= 0], self.values[new >= 0], self.index[new >= 0])


@dataclass(frozen=True)
class Batch(OnDevice):
    """One batch: token ids or flattened patches of width P, and targets (ids or IGNORE).

    `positions` None: 0, 1, 2, ..., no padding. `source`: the encoder's input of an encoder-decoder.
    `token_type_ids`: BERT's segments. `at`: the head reads only these elements (indices into
    B x T), and `targets` are theirs. Targets of sequences are a class, or 0 and 1 (or shares) for
    each of C classes. The ids at the elements of `parts` are placeholders, which are not read.
    """

    elements: Int[Tensor, "B T"] | Float[Tensor, "B T P"]
    positions: Positions | None = None
    targets: (
        Int[Tensor, "B T"] | Int[Tensor, "N"] | Int[Tensor, "N C"] | Float[Tensor, "N C"] | None
    ) = None
    token_type_ids: Int[Tensor, "B T"] | None = None
    source: "Batch | None" = None
    at: Int[Tensor, "N"] | None = None
    parts: tuple[Part, ...] = ()
    lengths: Int[np.ndarray, "_"] | None = None
    """If not None, the one row holds sequences of these lengths one after another, and `positions`
    are those of `Positions.join`; each is a group of attention."""

    @classmethod
    def pad(cls, rows: Sequence[Sequence[int] | np.ndarray], side: Side = "right") -> Self:
        """Rows of ids padded to the longest; without padding if all are equally long."""
        lengths = [len(row) for row in rows]
        same = min(lengths) == max(lengths)
        return cls(padded_rows(rows, side=side), None if same else Positions.pad(lengths, side))

    @property
    def n_targets(self) -> int:
        """Number of targets with loss: the divisor of a loss sum."""
        if self.targets is None:
            return 0
        if self.targets.is_floating_point():
            return len(self.targets)
        return int((self.targets != IGNORE).sum())

    @property
    def n_elements(self) -> int:
        """Number of elements for throughput: the targets if every element has one, else all real
        elements."""
        targets, valid = self.targets, self.positions and self.positions.valid
        if targets is not None and targets.shape == self.elements.shape:
            # those of sequences may have this shape, but not IGNORE at all padding
            plain = not targets.is_floating_point()
            if plain and (valid is None or (targets.masked_select(~valid) == IGNORE).all()):
                return self.n_targets
        return self.elements.shape[:2].numel() if valid is None else int(valid.sum())

    def where(self) -> Positions:
        """The positions or their default."""
        return self.positions or Positions.arange(
            self.elements.shape[1], device=self.elements.device
        )
