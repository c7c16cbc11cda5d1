"""Sentence-embedding models: a trunk, a pooling and a normalization, as sentence-transformers saves
them.

    modules.json            the parts, each with its folder
    1_Pooling/config.json   {"pooling_mode_mean_tokens": true, ...}
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError
from glassformer.files import read_json
from glassformer.interop.configuration import Published

FILE = "modules.json"
PARTS = {"Transformer", "Pooling", "Normalize"}
POOLS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}


def with_pooling(of: Published) -> Published:
    """The model with the pooling of its folder, if it is a sentence-embedding model.

    CheckpointError: other parts than those three, another pooling, or a model that gives no
    vectors.
    """
    path = of.folder / FILE
    if not path.is_file():
        return of
    if not of.model.gives_vectors:
        raise CheckpointError(f"{path} pools the vectors of a model for {of.head.task}.")
    try:
        pool = _pool(read_json(of.folder / _folder(read_json(path)) / "config.json"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{path} describes no embedding that is known here: {str(error)[:200]}."
        ) from None
    head = replace(of.head, tensors="", unused=r"pooler\..*", without={})
    fields = {"head": "pool", "pool": pool, "pooler": False}
    return replace(of, head=head, model=of.model.model_copy(update=fields))


def _folder(modules: Any) -> Path:
    """The folder of the pooling; ValueError: an unknown part, or a folder elsewhere."""
    kinds = [str(one["type"]).rsplit(".", 1)[-1] for one in modules]
    if unknown := sorted(set(kinds) - PARTS):
        raise ValueError(f"{', '.join(unknown)} is not known")
    place = str(modules[kinds.index("Pooling")]["path"])
    if not re.fullmatch(r"\w[\w.-]*", place):
        raise ValueError(f"{place!r} is no folder in it")
    return Path(place)


def _pool(chosen: Mapping[str, Any]) -> str:
    """The pooling of these settings; ValueError: another one, or several together."""
    names = [name for name, own in chosen.items() if name.startswith("pooling_mode") and own]
    if len(names) != 1 or names[0] not in POOLS:
        raise ValueError(f"{' and '.join(names) or 'no pooling'} is not known")
    return POOLS[names[0]]
