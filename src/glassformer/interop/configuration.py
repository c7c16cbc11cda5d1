"""`config.json` of a published model to our configuration, by the table of its family."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError
from glassformer.interop.families import FAMILIES
from glassformer.interop.family import Family, Head, Named
from glassformer.interop.llama2c import keys_in
from glassformer.interop.tensors import check_no_pickle
from glassformer.models.config import LARGEST, ModelConfig
from glassformer.models.weights import config_values

FILE = "config.json"


@dataclass(frozen=True)
class Published:
    """A published model by its `config.json`."""

    path: Path
    """The folder, or the one file of a model of llama2.c."""
    family: Family
    head: Head
    keys: Mapping[str, Any]
    """Of `config.json`, the family's defaults among them."""
    model: ModelConfig

    @property
    def folder(self) -> Path:
        """Where the other files are."""
        return self.path.parent if self.path.is_file() else self.path


def published_keys(path: Path) -> dict[str, Any] | None:
    """The keys of a folder's `config.json`, or of the header of a llama2.c file; None: they are of
    no published model. CheckpointError: a file that is missing, or damaged."""
    if path.is_file():
        return keys_in(path)
    if not (path / FILE).is_file():
        check_no_pickle(path)
    keys = config_values(path)
    return keys if keys.get("model_type", "glassformer") != "glassformer" else None


def published(place: Path, keys: Mapping[str, Any]) -> Published:
    """The model that `config.json` describes; CheckpointError: one that is not known here, or that
    computes something else."""
    path, kind = place if place.is_file() else place / FILE, keys.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"{path} has model_type {kind!r}, which is not known; known are {', '.join(FAMILIES)}."
        )
    if isinstance(packed := keys.get("quantization_config"), Mapping):
        raise CheckpointError(
            f"{path} has a quantization_config (quant_method={packed.get('quant_method')!r}): its "
            "weights are of few bits and not read; take the model in 16 or 32 bits, and use "
            "--quantize here."
        )
    family = FAMILIES[kind]
    keys = {**family.defaults, **keys}
    _check_only(family, keys, path)
    head = family.head(keys.get("architectures"))
    try:
        model = model_of(family, head, keys)
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no model of glassformer: {error}") from None
    except KeyError as error:
        raise CheckpointError(f"{path} lacks the key {error}; restore it.") from None
    except (ValueError, TypeError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(
            f"{path} describes a model that is not known: {str(error)[:200]}."
        ) from None
    return Published(place, family, head, keys, model)


def model_of(family: Family, head: Head, keys: Mapping[str, Any]) -> ModelConfig:
    """The configuration that these keys describe; KeyError: one is missing. ConfigError,
    ValueError, TypeError: a value that cannot be."""
    fields = {**family.fixed, **_fields(family, keys), **_classes(head, keys), **head.fields}
    for computed in family.computed:
        fields |= computed.read(keys)
    fields |= {name: fields[other] for name, other in head.same.items()}
    return ModelConfig.parse(fields)


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


def _fields(family: Family, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that keys of `config.json` have; KeyError: one is missing. ValueError: a value
    without a name here."""
    found = {}
    for name, key in family.fields.items():
        key, names = (key.key, key.names) if isinstance(key, Named) else (key, None)
        value = keys.get(key)
        if value is None:
            if ModelConfig.model_fields[name].is_required() or not _may_be_left_out(name):
                raise KeyError(key)
            continue
        if names is not None and (not isinstance(value, str) or value not in names):
            raise ValueError(f"{key}={value!r:.100}; known are {', '.join(names)}")
        found[name] = value if names is None else names[value]
    return found


def _distinct(names: list[str]) -> list[str]:
    """Names of classes, the number behind those that occur before (ImageNet has two cranes)."""
    seen: set[str] = set()
    found = []
    for number, name in enumerate(names):
        found.append(f"{name} ({number})" if name in seen else name)
        seen.add(name)
    return found


def _may_be_left_out(name: str) -> bool:
    """Whether null is a value of a field, or a probability that has no use in a trained model."""
    return ModelConfig.model_fields[name].default is None or "dropout" in name


def _classes(head: Head, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Names of the classes; ValueError: numbers are predicted, not classes."""
    if head.fields.get("head") not in ("classify", "tag"):
        return {}
    count, names = keys.get("num_labels", 2), keys.get("id2label")
    kind = keys.get("problem_type")
    if isinstance(names, dict) and names:
        named = _distinct([str(names[str(index)]) for index in range(len(names))])
    elif not (isinstance(count, int) and 0 < count <= LARGEST):
        raise ValueError(f"num_labels={count!r:.50}, which is no number of classes")
    else:
        named = [f"LABEL_{index}" for index in range(count)]
    if kind == "regression" or len(named) == 1:
        shown = "problem_type='regression'" if kind == "regression" else "num_labels=1"
        raise ValueError(f"{shown}, a number in place of classes, which no task here predicts")
    return {
        "classes": named,
        "n_classes": len(named),
        "multi_label": kind == "multi_label_classification",
    }
