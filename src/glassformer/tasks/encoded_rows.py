"""Training rows exactly as they are fed: ids, positions, documents, mask, shifted targets, which
tokens bear loss."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from glassformer.axes import Tensor
from glassformer.batch import IGNORE, Batch, Positions
from glassformer.layers.heads import pool
from glassformer.layers.mask import Mask, allowed
from glassformer.layers.stack import SOURCE_MASK
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import attention_mask
from glassformer.tasks.task import Task


@dataclass(frozen=True)
class EncodedRow:
    """One row of a batch: for each element its piece, id, position, document, target, and the keys
    it may attend to.

    Of a pair, `source` is the encoder's row, without targets, and `cross` the source elements that
    each element sees.
    """

    pieces: list[str]
    ids: list[int]
    positions: list[int]
    documents: list[int]
    target_pieces: list[str]
    targets: list[Any]
    """Of each element an id, or the numbers that are learned for it; IGNORE: none."""
    mask: list[list[bool]]
    source: "EncodedRow | None" = None
    cross: list[list[bool]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain lists; a target of -100 bears no loss, mask[i][j] says whether element i may attend
        to j."""
        pair = (
            {}
            if self.source is None
            else {"source": self.source.as_json(), "cross_mask": self.cross}
        )
        return {
            "pieces": self.pieces,
            "ids": self.ids,
            "positions": self.positions,
            "documents": self.documents,
            "targets": self.targets,
            "bears_loss": [target != IGNORE for target in self.targets],
            "mask": self.mask,
            **pair,
        }

    def as_text(self, number: int, width: int, colour: bool) -> str:
        """A table with one line for each of the first `width` elements, the mask drawn at its
        end."""
        bold, plain = ("\x1b[1;32m", "\x1b[0m") if colour else ("", "")
        n, bearing = len(self.ids), sum(target != IGNORE for target in self.targets)
        shown = min(n, width)
        lines = [
            f"row {number}: {n} elements, {bearing} bear loss"
            + (f"; the first {shown}:" if shown < n else ":")
        ]
        across = 0 if self.source is None else min(len(self.source.ids), width)
        if self.source is not None:
            lines += [
                "  the source, which the encoder reads:",
                *self.source._source_lines(across),
                "  the target:",
            ]
        seen_in_source = "".ljust(max(0, shown - 12)) + "  in the source" if across else ""
        lines.append(
            f"{'piece':>12} {'id':>6} {'position':>8} {'document':>8}   {'target':>12} "
            f"{'id':>6}  may attend to" + seen_in_source
        )
        for i in range(shown):
            loss = self.targets[i] != IGNORE
            own = self.targets[i] if isinstance(self.targets[i], int) else ""
            target = (
                f"{bold}{self.target_pieces[i]!r:>12} {own:>6}{plain}"
                if loss
                else f"{'-':>12} {'':>6}"
            )
            drawn = _drawn(self.mask[i][:shown]) + (
                f"  {_drawn(self.cross[i][:across])}" if self.cross else ""
            )
            place = f"{self.positions[i]:>8} {self.documents[i]:>8}"
            lines.append(f"{self.pieces[i]!r:>12} {self.ids[i]:>6} {place} → {target}  {drawn}")
        return "\n".join(lines)

    def _source_lines(self, shown: int) -> list[str]:
        head = f"{'piece':>12} {'id':>6} {'position':>8}  may attend to"
        elements = zip(self.pieces, self.ids, self.positions, self.mask, strict=True)
        lines = [
            f"{piece!r:>12} {i:>6} {at:>8}  {_drawn(seen[:shown])}"
            for piece, i, at, seen in elements
        ]
        return [head, *lines[:shown]]


def _drawn(seen: list[bool]) -> str:
    return "".join("█" if one else "·" for one in seen)


def token_rows(task: Task, rows: int, step: int) -> Iterator[EncodedRow]:
    """The first `rows` rows of tokens of a step's batch."""
    for batch in task.batches(step):
        for row in range(min(rows, len(batch.elements))):
            yield _row(task, batch, row)
        rows -= min(rows, len(batch.elements))


Piece = Callable[[int], str]


def targets_by_slot(config: ModelConfig, batch: Batch) -> list[list[Any]]:
    """The target of every element, IGNORE where there is none; that of a whole stands at the
    element it is read from. Real numbers are lists.

    The mean has no such element: there it stands at the last one. Of several classes at once, bit c
    is class c.
    """
    assert batch.targets is not None
    slots = torch.full_like(batch.elements, IGNORE)
    if batch.at is not None and batch.targets.is_floating_point():
        rows, width = slots.tolist(), slots.shape[1]
        for at, values in zip(batch.at.tolist(), batch.targets.tolist(), strict=True):
            rows[at // width][at % width] = values
        return rows
    if batch.at is not None:
        slots.view(-1)[batch.at] = batch.targets
        return slots.tolist()
    if config.head != "classify":
        return batch.targets.tolist()
    index = torch.arange(slots.numel(), dtype=torch.float32).view(*slots.shape, 1)
    at = (
        pool(index, batch.where(), "first" if config.pool == "first" else "last")
        .long()
        .flatten()
        .tolist()
    )
    rows, width = slots.tolist(), slots.shape[1]
    for place, target in zip(at, batch.targets.tolist(), strict=True):
        number = (
            sum(1 << c for c, own in enumerate(target) if own) if config.multi_label else target
        )
        rows[place // width][place % width] = number
    return rows


def _row(task: Task, batch: Batch, row: int) -> EncodedRow:
    config, positions = task.recipe.model, batch.where()
    ids, targets = _own(batch.elements, row), targets_by_slot(config, batch)[row]
    source, cross = None, None
    if batch.source is not None:
        source = _source_row(config, batch.source, row, task.source_piece)
        cross = _seen(SOURCE_MASK, positions, batch.source.where(), row)
    mask = attention_mask(config, "encoder" if config.architecture == "encoder" else "decoder")
    return EncodedRow(
        _pieces(batch, row, task.piece),
        ids,
        _own(positions.position, row),
        [0] * len(ids) if positions.document is None else _own(positions.document, row),
        ["" if i == IGNORE else _target_name(task, i) for i in targets],
        targets,
        _seen(mask, positions, positions, row),
        source,
        cross,
    )


def _target_name(task: Task, target: Any) -> str:
    if isinstance(target, int):
        return task.target_name(target)
    return " ".join(f"{value:.3g}" for value in target)


def _source_row(config: ModelConfig, batch: Batch, row: int, piece: Piece) -> EncodedRow:
    positions, ids = batch.where(), _own(batch.elements, row)
    seen = _seen(attention_mask(config, "encoder"), positions, positions, row)
    return EncodedRow(
        _pieces(batch, row, piece), ids, _own(positions.position, row), [0] * len(ids), [], [], seen
    )


def _pieces(batch: Batch, row: int, piece: Piece) -> list[str]:
    """What stands at each element: a piece, or a patch by its number."""
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


def _seen(mask: Mask, query: Positions, key: Positions, row: int) -> list[list[bool]]:
    """For each query of a row, the keys it may attend to."""
    table = allowed(mask, query, key).as_table(query.length, key.length, query.position.device)
    if table is None:
        return [[True] * key.length for _ in range(query.length)]
    return table[min(row, len(table) - 1), 0].tolist()
