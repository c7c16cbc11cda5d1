"""`config.json` of a published model to our configuration, by the table of its family."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.families import FAMILIES
from glassformer.families.family import Family, Head
from glassformer.interop.tensors import check_no_pickle
from glassformer.models.config import ModelConfig
from glassformer.models.weights import config_values

FILE, ADAPTER = "config.json", "adapter_config.json"
QUANTIZED = ("quantize_config.json", "quant_config.json")
"""Files that older programs wrote beside quantized weights."""


@dataclass(frozen=True)
class Published:
    """A published model by its `config.json`."""

    folder: Path
    family: Family
    head: Head
    keys: Mapping[str, Any]
    """Of `config.json`, the family's defaults among them."""
    model: ModelConfig


def published_keys(path: Path) -> dict[str, Any] | None:
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


def published(folder: Path, keys: Mapping[str, Any]) -> Published:
    """The model that `config.json` describes; CheckpointError: one that is not known here, or that
    computes something else."""
    path, kind = folder / FILE, keys.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"{path} has model_type {kind!r}, which is not known; known are {', '.join(FAMILIES)}."
        )
    _check_not_quantized(path, keys)
    family = FAMILIES[kind]
    keys = {**family.defaults, **keys}
    _check_only(family, keys, path)
    head = family.head(keys.get("architectures"))
    try:
        model = family.model(head, keys)
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no model of glassformer: {error}") from None
    except KeyError as error:
        raise CheckpointError(f"{path} lacks the key {error}; restore it.") from None
    except (ValueError, TypeError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(
            f"{path} describes a model that is not known: {str(error)[:200]}."
        ) from None
    return Published(folder, family, head, keys, model)


def _check_not_quantized(path: Path, keys: Mapping[str, Any]) -> None:
    found = [f"{file} is there" for name in QUANTIZED if (file := path.parent / name).is_file()]
    if isinstance(own := keys.get("quantization_config"), Mapping):
        found = [f"{path} has a quantization_config (quant_method={own.get('quant_method')!r})"]
    if found:
        raise CheckpointError(
            f"{found[0]}: the weights are of few bits and not read; take the model in 16 or 32 "
            "bits, and use --quantize here."
        )


def _check_only(family: Family, keys: Mapping[str, Any], path: Path) -> None:
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
