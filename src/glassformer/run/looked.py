"""`gf.look`: one look at a run, at the folder of one, or at a model alone.

Knows: runs, looks. Does not know: what a look is asked for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.inspect import look as looks
from glassformer.inspect.edit import Edit
from glassformer.inspect.look import Look
from glassformer.models.transformer import Transformer
from glassformer.run.folder import load
from glassformer.run.run import Run


def look(what: Run | Transformer | str | Path, given: Any, edits: Sequence[Edit] = ()) -> Look:
    """One forward pass, to be looked into, of a run (see `Run.look`), of a run folder, or of a model.

    A model alone is given token ids or a `Batch` of one row, and its elements and outcomes are called by their numbers.
    Errors: those of `load` and of `Run.look`.
    """
    if isinstance(what, Transformer):
        return looks.look(
            what, given if isinstance(given, Batch) else Batch(torch.as_tensor([*given])[None]), edits=edits
        )
    return (load(what) if isinstance(what, str | Path) else what).look(given, edits)
