"""Sentence-embedding models: a trunk, a pooling and a normalization, as sentence-transformers saves
them.

    modules.json                         the parts, each with its folder
    1_Pooling/config.json                {"pooling_mode_mean_tokens": true, ...}
    sentence_bert_config.json            {"max_seq_length": 256, "do_lower_case": false}
    config_sentence_transformers.json    {"prompts": {"query": "query: "}, ...}
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import read_json
from glassformer.interop.configuration import Published
from glassformer.processors.config import VectorConfig

FILE = "modules.json"
PARTS = {"Transformer", "Pooling", "Normalize"}
POOLS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}
NEW_POOLS = {"mean": "mean", "cls": "first", "lasttoken": "last"}
"""By `pooling_mode`, of folders written since 2026."""
LIMITS = "sentence_*_config.json"
PROMPTS = "config_sentence_transformers.json"


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
        modules = read_json(path)
        pool = _pool(read_json(of.folder / _folder(modules) / "config.json"))
        vectors = _vectors(of, any(_kind(one) == "Normalize" for one in modules))
    except ConfigError as error:
        raise CheckpointError(f"{of.folder}: {error}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{path} describes no embedding that is known here: {str(error)[:200]}."
        ) from None
    processor = {**of.head.processor, "vectors": vectors}
    head = replace(of.head, tensors="", unused=r"pooler\..*", without={}, processor=processor)
    fields = {"head": "pool", "pool": pool, "pooler": False}
    return replace(of, head=head, model=of.model.model_copy(update=fields))


def _folder(modules: Any) -> Path:
    """The folder of the pooling; ValueError: an unknown part, or a folder elsewhere."""
    kinds = [_kind(one) for one in modules]
    if unknown := sorted(set(kinds) - PARTS):
        raise ValueError(f"{', '.join(unknown)} is not known")
    place = str(modules[kinds.index("Pooling")]["path"])
    if not re.fullmatch(r"\w[\w.-]*", place):
        raise ValueError(f"{place!r} is no folder in it")
    return Path(place)


def _kind(module: Mapping[str, Any]) -> str:
    return str(module["type"]).rsplit(".", 1)[-1]


def _vectors(of: Published, normalizes: bool) -> dict[str, Any]:
    """How texts are read. A text longer than the model is cut, where nothing else is said too."""
    limits = _settings(min(of.folder.glob(LIMITS), default=of.folder / PROMPTS))
    prompts = _settings(of.folder / PROMPTS)
    longest, own = of.model.max_length, limits.get("max_seq_length")
    if own is None:
        own = _settings(of.folder / "tokenizer_config.json").get("model_max_length", longest)
    if isinstance(own, bool) or not isinstance(own, int | float) or own < 1:
        raise ValueError(f"max_seq_length={own!r:.50} is no number of tokens")
    given = prompts.get("prompts") or {}
    values = {
        "max_length": int(min(own, longest)),
        "lowercase": limits.get("do_lower_case") or False,
        "normalize": normalizes,
        "prompts": {name: text or "" for name, text in given.items()},
        "prompt": prompts.get("default_prompt_name"),
    }
    return VectorConfig.parse(values).model_dump(mode="json")


def _settings(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _pool(chosen: Mapping[str, Any]) -> str:
    """The pooling of these settings; ValueError: another one, or several together."""
    if chosen.get("include_prompt") is False:
        raise ValueError("a pooling without the prompt (include_prompt) is not known")
    if "pooling_mode" in chosen:
        if (mode := str(chosen["pooling_mode"])) not in NEW_POOLS:
            raise ValueError(f"the pooling {mode!r:.50} is not known")
        return NEW_POOLS[mode]
    names = [name for name, own in chosen.items() if name.startswith("pooling_mode") and own]
    if len(names) != 1 or names[0] not in POOLS:
        raise ValueError(f"{' and '.join(names) or 'no pooling'} is not known")
    return POOLS[names[0]]
