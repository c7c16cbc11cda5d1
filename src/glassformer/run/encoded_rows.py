"""Encoded training rows: ids, positions, documents, mask, shifted targets, loss-bearing tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from glassformer.core.axes import Tensor
from glassformer.core.batch import IGNORE, Batch, Positions
from glassformer.layers.attention.context import CROSSED
from glassformer.layers.attention.mask import Mask, allowed
from glassformer.layers.heads import pooled_at
from glassformer.models.build import attention_mask
from glassformer.models.config import ModelConfig
from glassformer.tasks.task import Task


@dataclass(frozen=True)
class EncodedRow:
    """One row of a batch: piece, id, position, document, target and visible keys of each element.

    For an encoder-decoder, `source` is the encoder's row, without targets, and `cross` the source
    elements that each element sees.
    """

    pieces: list[str]
    ids: list[int]
    positions: list[int]
    documents: list[int]
    mask: list[list[bool]]
    target_pieces: Sequence[str] = ()
    targets: Sequence[Any] = ()
    """For each element an id, or a list of real numbers; IGNORE: none."""
    source: "EncodedRow | None" = None
    cross: list[list[bool]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain lists; a target of -100 bears no loss; mask[i][j]: element i may attend to j."""
        source = self.source and {"source": self.source.as_json(), "cross_mask": self.cross}
        return {
            "pieces": self.pieces,
            "ids": self.ids,
            "positions": self.positions,
            "documents": self.documents,
            "targets": list(self.targets),
            "bears_loss": [target != IGNORE for target in self.targets],
            "mask": self.mask,
            **(source or {}),
        }

    def as_text(self, number: int, width: int, colour: bool) -> str:
        """A table with a line for each of the first `width` elements, its mask at the end."""
        bold, plain = ("\x1b[1;32m", "\x1b[0m") if colour else ("", "")
        n, bearing = len(self.ids), sum(target != IGNORE for target in self.targets)
        shown, across, beside = min(n, width), 0, ""
        lines = [
            f"row {number}: {n} elements, {bearing} bear loss"
            + (f"; the first {shown}:" if shown < n else ":")
        ]
        if self.source is not None:
            across = min(len(self.source.ids), width)
            beside = "".ljust(max(0, shown - 12)) + "  in the source"
            read = self.source._source_lines(across)
            lines += ["  the source, which the encoder reads:", *read, "  the target:"]
        lines.append(
            f"{'piece':>12} {'id':>6} {'position':>8} {'document':>8}   {'target':>12} "
            f"{'id':>6}  may attend to{beside}"
        )
        for i in range(shown):
            target, own = self.targets[i], f"{'-':>12} {'':>6}"
            if target != IGNORE:
                index = target if isinstance(target, int) else ""
                own = f"{bold}{self.target_pieces[i]!r:>12} {index:>6}{plain}"
            drawn = _draw(self.mask[i][:shown])
            if self.cross:
                drawn += f"  {_draw(self.cross[i][:across])}"
            place = f"{self.positions[i]:>8} {self.documents[i]:>8}"
            element = f"{self.pieces[i]!r:>12} {self.ids[i]:>6}"
            lines.append(f"{element} {place} → {own}  {drawn}")
        return "\n".join(lines)

    def _source_lines(self, shown: int) -> list[str]:
        head = f"{'piece':>12} {'id':>6} {'position':>8}  may attend to"
        elements = zip(self.pieces, self.ids, self.positions, self.mask, strict=True)
        lines = (
            f"{piece!r:>12} {i:>6} {at:>8}  {_draw(seen[:shown])}"
            for piece, i, at, seen in elements
        )
        return [head, *islice(lines, shown)]


def _draw(seen: list[bool]) -> str:
    return "".join("█" if one else "·" for one in seen)


def token_rows(task: Task, rows: int, step: int) -> Iterator[EncodedRow]:
    """The first `rows` rows of tokens of a step's batch."""
    for batch in task.feed.batches(step):
        for row in range(min(rows, len(batch.elements))):
            yield _row(task, batch, row)
        rows -= min(rows, len(batch.elements))


def targets_by_slot(config: ModelConfig, batch: Batch) -> list[list[Any]]:
    """The target of every element, IGNORE where there is none; real numbers are lists.

    The target of a whole sequence is at the element that the head reads, for its mean at the last;
    of several classes at once, bit c is class c.
    """
    assert batch.targets is not None
    at, targets = batch.at, batch.targets.tolist()
    if at is None and not config.one_output:
        return targets
    if at is None:
        first = "first" if config.pool == "first" else "last"
        at = pooled_at(batch.where(), len(batch.elements), first)
        if not config.outcomes.exclusive:
            targets = [sum(1 << c for c, own in enumerate(target) if own) for target in targets]
    rows, width = torch.full_like(batch.elements, IGNORE).tolist(), batch.elements.shape[1]
    for place, target in zip(at.tolist(), targets, strict=True):
        rows[place // width][place % width] = target
    return rows


def _row(task: Task, batch: Batch, row: int) -> EncodedRow:
    config, targets = task.recipe.model, targets_by_slot(task.recipe.model, batch)[row]
    reads_past = config.is_decoder_only or batch.source is not None
    stack = "decoder" if reads_past else "encoder"
    encoded = replace(
        _encode(batch, row, task.objective.piece, attention_mask(config, stack)),
        targets=targets,
        target_pieces=["" if target == IGNORE else _name(task, target) for target in targets],
    )
    if (source := batch.source) is None:
        return encoded
    return replace(
        encoded,
        source=_encode(source, row, task.objective.source_piece, attention_mask(config, "encoder")),
        cross=_see(CROSSED.mask, batch.where(), source.where(), row),
    )


def _name(task: Task, target: Any) -> str:
    if isinstance(target, int):
        return task.objective.target_name(target)
    return " ".join(f"{value:.3g}" for value in target)


def _encode(batch: Batch, row: int, piece: Callable[[int], str], mask: Mask) -> EncodedRow:
    positions, ids = batch.where(), _own(batch.elements, row)
    documents = [0] * len(ids) if positions.document is None else _own(positions.document, row)
    return EncodedRow(
        _pieces(batch, row, piece),
        ids,
        _own(positions.position, row),
        documents,
        _see(mask, positions, positions, row),
    )


def _pieces(batch: Batch, row: int, piece: Callable[[int], str]) -> list[str]:
    """The piece at each element, or the number of its patch."""
    length = batch.elements.shape[1]
    found = [piece(i) for i in batch.elements[row].tolist()]
    for part in batch.parts:
        for at, number in zip(part.at.tolist(), part.index.tolist(), strict=True):
            if at // length == row:
                found[at % length] = f"{part.name} {number}"
    return found


def _own(rows: Tensor, row: int) -> list[int]:
    """A row's numbers; a shared row serves every row."""
    return rows[min(row, len(rows) - 1)].tolist()


def _see(mask: Mask, query: Positions, key: Positions, row: int) -> list[list[bool]]:
    """For each query of a row, the keys it may attend to."""
    table = allowed(mask, query, key).as_table(query.length, key.length, query.position.device)
    if table is None:
        return [[True] * key.length for _ in range(query.length)]
    return table[min(row, len(table) - 1), 0].tolist()
