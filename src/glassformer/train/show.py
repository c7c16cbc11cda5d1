"""Training rows exactly as they are fed: ids, positions, documents, mask, shifted targets, which tokens bear loss.

Knows: recipes and batches. Does not know: terminals.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.batch import IGNORE, Batch
from glassformer.data.batches import training_batch
from glassformer.layers.mask import allowed
from glassformer.models.transformer import attention_mask
from glassformer.train.recipe import Recipe
from glassformer.train.runfolder import Material, prepare


@dataclass(frozen=True)
class FedRow:
    """One row of a batch: for each element its piece, id, position, document, target, and the keys it may attend to."""

    pieces: list[str]
    ids: list[int]
    positions: list[int]
    documents: list[int]
    target_pieces: list[str]
    targets: list[int]
    mask: list[list[bool]]

    def as_json(self) -> dict[str, Any]:
        """Plain lists; a target of -100 bears no loss, mask[i][j] says whether element i may attend to j."""
        return {
            "pieces": self.pieces,
            "ids": self.ids,
            "positions": self.positions,
            "documents": self.documents,
            "targets": self.targets,
            "bears_loss": [target != IGNORE for target in self.targets],
            "mask": self.mask,
        }

    def as_text(self, number: int, width: int, colour: bool) -> str:
        """A table with one line for each of the first `width` elements, the mask drawn at its end."""
        bold, plain = ("\x1b[1;32m", "\x1b[0m") if colour else ("", "")
        n, bearing = len(self.ids), sum(target != IGNORE for target in self.targets)
        shown = min(n, width)
        lines = [
            f"row {number}: {n} elements, {bearing} bear loss" + (f"; the first {shown}:" if shown < n else ":"),
            f"{'piece':>12} {'id':>6} {'position':>8} {'document':>8}   {'target':>12} {'id':>6}  may attend to",
        ]
        for i in range(shown):
            loss = self.targets[i] != IGNORE
            target = (
                f"{bold}{self.target_pieces[i]!r:>12} {self.targets[i]:>6}{plain}" if loss else f"{'-':>12} {'':>6}"
            )
            drawn = "".join("█" if seen else "·" for seen in self.mask[i][:shown])
            place = f"{self.positions[i]:>8} {self.documents[i]:>8}"
            lines.append(f"{self.pieces[i]!r:>12} {self.ids[i]:>6} {place} → {target}  {drawn}")
        return "\n".join(lines)


def rows_as_fed(recipe: Recipe, rows: int, step: int) -> Iterator[FedRow]:
    """The first `rows` rows of a step's batch; the text is tokenized in a temporary folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        material = prepare(recipe, Path(folder) / "run", resume=False, say=lambda text: None)
        material.run.mkdir()
        material.store_files()
        train = material.recipe.train
        length = train.length or material.recipe.model.max_length
        batch = training_batch(material.store.split("train"), step, train.batch_size, length, train.seed)
        for row in range(min(rows, train.batch_size)):
            yield _row(material, batch, row)


def _row(material: Material, batch: Batch, row: int) -> FedRow:
    places, piece = batch.where(), material.tokenizer.piece
    side = "encoder" if material.recipe.model.architecture == "encoder" else "decoder"
    table = allowed(attention_mask(material.recipe.model, side), places, places).as_table(
        places.length, places.length, places.position.device
    )
    assert batch.targets is not None
    own = lambda t: t[min(row, len(t) - 1)].tolist()  # noqa: E731 - a shared row serves every row
    ids, targets = own(batch.elements), own(batch.targets)
    everything = [[True] * len(ids)] * len(ids)
    return FedRow(
        [piece(i) for i in ids],
        ids,
        own(places.position),
        [0] * len(ids) if places.document is None else own(places.document),
        ["" if i == IGNORE else piece(i) for i in targets],
        targets,
        everything if table is None else own(table)[0],
    )
