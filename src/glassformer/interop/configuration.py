"""`config.json` of a published model to our configuration, by the table of its family; also a
trunk with pooling and normalization, as sentence-transformers saves it.

modules.json                      ->  the parts, each with its folder
1_Pooling/config.json             ->  {"pooling_mode_mean_tokens": true, ...}
sentence_bert_config.json         ->  {"max_seq_length": 256, "do_lower_case": false}
config_sentence_transformers.json ->  {"prompts": {"query": "query: "}, ...}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import Values, read_json
from glassformer.families import FAMILIES
from glassformer.families.family import Family, Head
from glassformer.models.config import ModelConfig
from glassformer.models.weights import config_values
from glassformer.processors.config import VectorConfig

FILE, ADAPTER = "config.json", "adapter_config.json"
QUANTIZED = ("quantize_config.json", "quant_config.json")
"""Files that older programs wrote beside quantized weights."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
MODULES = "modules.json"
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


@dataclass(frozen=True)
class Published:
    """A published model by its `config.json`."""

    folder: Path
    family: Family
    head: Head
    keys: Values
    """Of `config.json`, the family's defaults among them."""
    model: ModelConfig


def published_keys(path: Path) -> Values | None:
    """The keys of a folder's `config.json`; None: they are of no published model.

    CheckpointError: a file that is missing or damaged, or a file instead of the folder.
    """
    if path.is_file():
        raise CheckpointError(
            f"{path} is a file, and a model is opened by its folder; give the one that holds its "
            f"{FILE} and safetensors."
        )
    if not (path / FILE).is_file():
        check_no_pickle(path)
        if (path / ADAPTER).is_file():
            raise CheckpointError(
                f"{path} holds an adapter and not the model that it belongs to; import both by "
                f"glassformer import MODEL --adapter {path} --run runs/mine."
            )
    keys = config_values(path)
    return keys if keys.get("model_type", "glassformer") != "glassformer" else None


def read_published(folder: Path, keys: Values) -> Published:
    """The model that `config.json` describes; CheckpointError: one that is not known here, or that
    computes something else."""
    path, kind = folder / FILE, keys.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"{path} has model_type {kind!r}, which is not known; known are {', '.join(FAMILIES)}."
        )
    family = FAMILIES[kind]
    keys = {**family.defaults, **keys}
    _check(family, keys, path)
    head = family.head(keys.get("architectures"))
    try:
        model = family.model(head, keys)
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no model of glassformer: {error}") from None
    except KeyError as error:
        raise CheckpointError(f"{path} lacks the key {error}; restore it.") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(
            f"{path} describes a model that is not known: {str(error)[:200]}."
        ) from None
    return Published(folder, family, head, keys, model)


def _check(family: Family, keys: Values, path: Path) -> None:
    """Raise CheckpointError for weights of few bits, and for keys that change the formula."""
    files = (path.parent / name for name in QUANTIZED)
    found = next((f"{file} is there" for file in files if file.is_file()), None)
    if isinstance(own := keys.get("quantization_config"), Mapping):
        found = f"{path} has a quantization_config (quant_method={own.get('quant_method')!r})"
    if found:
        raise CheckpointError(
            f"{found}: the weights are of few bits and not read; take the model in 16 or 32 bits, "
            "and use --quantize here."
        )
    for key, known in family.only.items():
        if key in keys and keys[key] not in known:
            raise CheckpointError(
                f"{path} has {key}={keys[key]!r:.100}, and models of type {family.model_type} are "
                f"known here with {' or '.join(map(repr, known))} alone."
            )
    for one, other in family.alike:
        if keys.get(one) != keys.get(other):
            raise CheckpointError(
                f"{path} has {one}={keys.get(one)!r:.100} and {other}={keys.get(other)!r:.100}, "
                "and a model of glassformer has as much on both sides."
            )


def with_pooling(of: Published) -> Published:
    """The model with the pooling of its folder, if it is a sentence-embedding model.

    CheckpointError: other parts than those three, another pooling, or a model that gives no
    vectors.
    """
    path = of.folder / MODULES
    if not path.is_file():
        return of
    if not of.model.gives_vectors:
        raise CheckpointError(f"{path} pools the vectors of a model for {of.head.task}.")
    try:
        modules = read_json(path)
        kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
        if unknown := sorted(set(kinds) - PARTS):
            raise ValueError(f"{', '.join(unknown)} is not known")
        place = str(modules[kinds.index("Pooling")]["path"])
        if not re.fullmatch(r"\w[\w.-]*", place):
            raise ValueError(f"{place!r} is no folder in it")
        pool = _pool(read_json(of.folder / place / "config.json"))
        vectors = _vectors(of, "Normalize" in kinds)
    except ConfigError as error:
        raise CheckpointError(f"{of.folder}: {error}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{path} describes no embedding that is known here: {str(error)[:200]}."
        ) from None
    processor = of.head.processor | {"vectors": vectors}
    head = replace(of.head, tensors="", unused=r"pooler\..*", without={}, processor=processor)
    fields = {"head": "pool", "pool": pool, "pooler": False}
    return replace(of, head=head, model=of.model.model_copy(update=fields))


def _vectors(of: Published, normalizes: bool) -> Values:
    """Read how texts are encoded; one longer than the model is cut, also where no file says so."""
    limits = _settings(min(of.folder.glob(LIMITS), default=of.folder / PROMPTS))
    prompts = _settings(of.folder / PROMPTS)
    longest, own = of.model.max_length, limits.get("max_seq_length")
    if own is None:
        own = _settings(of.folder / "tokenizer_config.json").get("model_max_length", longest)
    if isinstance(own, bool) or not isinstance(own, int | float) or own < 1:
        raise ValueError(f"max_seq_length={own!r:.50} is no number of tokens")
    values = {
        "max_length": int(min(own, longest)),
        "lowercase": limits.get("do_lower_case") or False,
        "normalize": normalizes,
        "prompts": {name: text or "" for name, text in (prompts.get("prompts") or {}).items()},
        "prompt": prompts.get("default_prompt_name"),
    }
    return VectorConfig.parse(values).model_dump(mode="json")


def _settings(file: Path) -> Values:
    return read_json(file) if file.is_file() else {}


def _pool(chosen: Values) -> str:
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


def check_no_pickle(folder: Path) -> None:
    """CheckpointError: the weights of a folder are in a pickle."""
    found = (path for kind in PICKLES for path in folder.glob(kind))
    if pickle := min((path.name for path in found if _is_pickle(path)), default=None):
        raise CheckpointError(
            f"{folder} has its weights in {pickle}, which may run code when it is opened; "
            "convert it to model.safetensors where you trust it, or take the model's safetensors "
            "(docs/published-models.md shows how, also for nanoGPT)."
        )


def _is_pickle(path: Path) -> bool:
    """Return whether a file may be one of torch; a .bin of CTranslate2 holds numbers only."""
    if path.suffix != ".bin" or path.name.startswith("pytorch_model"):
        return True
    with path.open("rb") as file:
        return file.read(2).startswith((b"PK", b"\x80"))
