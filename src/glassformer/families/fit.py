"""Published classes that a model fits, and the fields that keep it from fitting others.

A model fits a class if `config.json`, written by the table of the class and read again, describes
the same model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import Values
from glassformer.families import FAMILIES
from glassformer.families.family import Family, Head
from glassformer.models.config import ModelConfig

BIASES = ("attention_bias", "bias", "head_bias")
"""Fields of biases, which may also be there and be 0."""


@dataclass(frozen=True)
class Fit:
    """A class for a model, with its `config.json`; or the fields in which they differ."""

    family: Family
    name: str
    head: Head
    keys: Values
    differences: tuple[str, ...]


def fits(model: ModelConfig, task: str) -> list[Fit]:
    """Every class for the task, the nearest first."""
    found = [
        _fit(family, name, replace(head, fields={**head.fields, **less}), model)
        for family in FAMILIES.values()
        if family.library == "transformers"
        for name, head in family.heads.items()
        if head.task == task
        # also without what a file may lack
        for less in ({}, *head.without.values())
    ]
    return sorted(found, key=lambda fit: len(fit.differences))


def nearest(model: ModelConfig, task: str, only: Mapping[str, Values] | None = None) -> Fit | None:
    """The class in which the model differs least, at best not at all; None: the task has none.

    only: The classes that a program knows, with the values of fields that it computes.
    """
    found = fits(model, task)
    if only is not None:
        values, found = _explicit(model), [fit for fit in found if fit.name in only]
        for i, fit in enumerate(found):
            known = only[fit.name]
            others = [name for name in known if values[name] != known[name]]
            own = [one for one in fit.differences if one.partition("=")[0] not in others]
            own += [f"{name}={values[name]!r} (not {known[name]!r})" for name in others]
            found[i] = replace(fit, differences=tuple(own))
    return min(found, key=lambda fit: len(fit.differences), default=None)


def _fit(family: Family, name: str, head: Head, model: ModelConfig) -> Fit:
    try:
        keys, unnamed = keys_of(family, name, head, model)
        read = family.model(head, keys)
    except (ConfigError, CheckpointError, ValueError, KeyError) as problem:
        return Fit(family, name, head, {}, (str(problem),))
    ours, theirs = effective(model), effective(read)
    few = (
        f"{one}={ours[one]} (not {least} or more)"
        for one, least in family.at_least.items()
        if ours[one] < least
    )
    differences = (
        f"{one}={own!r} (not {theirs[one]!r})"
        for one, own in ours.items()
        if one not in unnamed and own != theirs.get(one, own)
        if not (one in BIASES and theirs[one])  # which may be 0
    )
    return Fit(family, name, head, keys, (*unnamed.values(), *few, *differences))


def keys_of(
    family: Family, name: str, head: Head, model: ModelConfig
) -> tuple[Values, dict[str, str]]:
    """`config.json` of a model as one of this class, and a sentence for each field of whose value
    it has no name."""
    unnamed: dict[str, str] = {}
    values = _explicit(model)
    keys: Values = {"model_type": family.model_type, "architectures": [name]}
    keys |= {key: known[0] for key, known in family.only.items() if known[0] is not None}
    for field, key in family.keys.items():
        keys[key] = value = values[field]
        if names := family.names.get(field):
            known = [theirs for theirs, ours in names.items() if ours == value]
            if not known:
                choices = " or ".join(dict.fromkeys(names.values()))
                unnamed[field] = f"{field}={value!r} (not {choices})"
            keys[key] = (known or [*names])[0]
    for computed in family.computed:
        keys |= computed.write(model)
    for one, other in family.alike:
        keys[one] = keys[other] = keys.get(other, keys.get(one))
    return keys | _keys_of_classes(model), unnamed


def _keys_of_classes(model: ModelConfig) -> Values:
    """The fields of `config.json` of a model's classes; {}: it has none."""
    if not model.class_count:
        return {}
    names = model.classes or tuple(f"LABEL_{i}" for i in range(model.class_count))
    problem = {} if model.outcomes.exclusive else {"problem_type": "multi_label_classification"}
    return {
        "num_labels": len(names),
        "id2label": {str(i): one for i, one in enumerate(names)},
        "label2id": {one: i for i, one in enumerate(names)},
        **problem,
    }


def _explicit(model: ModelConfig) -> Values:
    """The fields, those that follow from others written out."""
    widths = {"d_head": model.head_width, "d_ff": model.ff_width, "n_kv_heads": model.kv_heads}
    return model.model_dump() | widths | {"n_encoder_layers": model.depth("encoder")}


def effective(model: ModelConfig) -> Values:
    """The fields that change what a model computes, with the values of their defaults."""
    values = _explicit(model)
    dense = {"masked_lm": "gelu", "classify": "tanh", "pool": "tanh"}.get(model.head)
    values["head_activation"] = model.head_activation or dense
    kind, words, one = model.position, model.predicts_words, model.one_output
    without_effect = (
        # the number of classes is that of id2label, and perhaps not known before training
        (True, "init dropout attention_dropout modality_order classes n_classes"),
        (kind != "rotary", "rotary_factor rotary_wavelengths"),
        (not kind.startswith("rotary"), "rotary_base"),
        (not kind.startswith("sinusoidal"), "first_position"),
        (kind not in ("relative", "buckets"), "max_distance"),
        (kind != "buckets", "n_buckets"),
        (kind not in ("relative", "buckets", "alibi"), "bias_placement"),
        (not model.reads_patches, "patch_width grid patch"),
        (not model.predicts_next, "head_bias head_scale"),
        (not words, "tied"),
        (not one, "pooler"),
        (not (one or model.reads_patches), "pool"),
        (not (model.pooler or (words and not model.predicts_next)), "head_activation"),
    )
    left_out = {name for unused, names in without_effect if unused for name in names.split()}
    return {name: value for name, value in values.items() if name not in left_out}
