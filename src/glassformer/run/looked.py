"""`gf.look`: one look at a run, at the folder of one, or at a model alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate.advance import check_ids
from glassformer.inspect import look as looks
from glassformer.inspect.edit import Edit
from glassformer.inspect.look import Look
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import ids_of
from glassformer.run.folder import load
from glassformer.run.run import Run


def look(
    what: Run | nn.Module | str | Path,
    given: Any,
    edits: Sequence[Edit] = (),
    checkpoint: int | None = None,
) -> Look:
    """One forward pass, to be looked into, of a run (see `Run.look`), of a run folder, or of a
    model.

    With `checkpoint`, of the run as it was at that step; who looks there often opens it once, by
    `load`. A model alone is given token ids or a `Batch` of one row, and its elements and outcomes
    are called by their numbers. Errors: those of `load` and of `Run.look`.
    """
    match what:
        case Run():
            return (what if checkpoint is None else what.at(checkpoint)).look(given, edits)
        case str() | Path():
            return load(what, checkpoint=checkpoint).look(given, edits)
        case Transformer() if checkpoint is not None:
            raise ConfigError(
                f"checkpoint={checkpoint} was given, and a model alone has none; look at its "
                f"run instead."
            )
        case Transformer():
            return looks.look(
                what, given if isinstance(given, Batch) else _batch(what, given), edits=edits
            )
        case _:  # a compiled model, for example, which has no points
            raise ConfigError(
                f"A look is at a run, at its folder or at a Transformer, not at "
                f"{type(what).__name__}."
            )


def _batch(model: Transformer, given: Any) -> Batch:
    ids = ids_of(given)
    if not ids:
        raise ConfigError(
            f"A model alone reads token ids or a Batch, not {given!r:.40}; look at its run instead."
        )
    check_ids(ids, model, "The input")
    return Batch(torch.tensor([ids]))
