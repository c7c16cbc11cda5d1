"""The keys of a published model's `config.json` as fields of our configuration."""

from collections.abc import Mapping
from typing import Any

from glassformer.families.family import Family, Head, Named
from glassformer.models.config import ModelConfig
from glassformer.models.fields import LARGEST


def model_of(family: Family, head: Head, keys: Mapping[str, Any]) -> ModelConfig:
    """The configuration that these keys describe; KeyError: one is missing. ConfigError,
    ValueError, TypeError: a value that cannot be."""
    fields = {**family.fixed, **_fields(family, keys), **_classes(head, keys), **head.fields}
    for computed in family.computed:
        fields |= computed.read(keys)
    fields |= {name: fields[other] for name, other in head.same.items()}
    return ModelConfig.parse(fields)


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
        one = f"id2label={names!r:.100}" if names else "num_labels=1"
        shown = "problem_type='regression'" if kind == "regression" else one
        raise ValueError(f"{shown}, a number in place of classes, which no task here predicts")
    return {
        "classes": named,
        "n_classes": len(named),
        "multi_label": kind == "multi_label_classification",
    }


def _distinct(names: list[str]) -> list[str]:
    """Names of classes, the number behind those that occur before (ImageNet has two cranes)."""
    seen: set[str] = set()
    found = []
    for number, name in enumerate(names):
        found.append(f"{name} ({number})" if name in seen else name)
        seen.add(name)
    return found
