"""A family of published models as one table of a TOML file: its configuration, tensors and heads.

    like     "llama"                          | the table of what this one does not say
    class    "Bert"                           | names of classes begin so; `heads` has the rest
    fields   d_model       hidden_size        | of ModelConfig and of config.json, both ways
    tensors  decoder.norm  ln_f               | a module here and there; weight and bias follow
             q_proj  c_attn  transposed 1/3   | and how their tensor becomes ours

`#` is the number of a block. Names in `tensors`, and those of a head that begin with a dot, follow
the family's `prefix`, which only a model with a head has.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from glassformer.core.axes import Tensor, Tensors
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import Values
from glassformer.families.computed import ACTIVATIONS, COMPUTED, Computed
from glassformer.families.transforms import Transform, transform
from glassformer.models.config import ModelConfig
from glassformer.models.fields import LARGEST


@dataclass(frozen=True)
class Head:
    """A class of published models: what it is for, and what it adds to the trunk."""

    task: str
    input: str
    fields: Values = field(default_factory=dict)
    tensors: str = ""
    """As those of the family; names are absolute unless they begin with a dot."""
    unused: str = ""
    """Expression for tensors that this class has and its task does not read."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Fields that have the value of another one."""
    without: Mapping[str, Values] = field(default_factory=dict)
    """Fields of a model whose file lacks a tensor, by its name."""
    processor: Values = field(default_factory=dict)
    """Fields of the recipe's section `processor`."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a module here and there, and how a tensor of theirs becomes ours."""

    ours: re.Pattern[str]
    theirs: str
    how: Transform
    prefixed: bool = True
    """Whether their name follows the prefix."""

    def source(self, name: str, model: ModelConfig) -> str | None:
        """Their name of a parameter of ours, without the prefix; None: the line is of another."""
        found = self.ours.fullmatch(name)
        if not found or any(getattr(model, of) != own for of, own in self.how.when.items()):
            return None
        theirs = self.theirs.replace("#", found["block"] if "block" in found.groupdict() else "")
        return theirs if self.how.whole_name else f"{theirs}.{found['part']}"


@dataclass(frozen=True)
class Stored:
    """A tensor of a published class, and our parameters in it, in the order of its parts."""

    name: str
    """Name in a file of the class, with the prefix."""
    how: Transform
    ours: tuple[str, ...]

    def read(self, theirs: Tensor, shape: Sequence[int], model: ModelConfig) -> Tensors:
        """The parameters by their names, each of this shape; ValueError: it has no such parts."""
        value = self.how.read(theirs, tuple(shape), model)
        return dict(zip(self.ours, value.chunk(self.how.parts), strict=True))

    def write(self, ours: Tensors, model: ModelConfig) -> Tensor:
        """The tensor of these parameters."""
        return self.how.write(torch.cat([ours[name] for name in self.ours]), model)


@dataclass(frozen=True)
class Family:
    """The table of a family; see the module."""

    model_type: str
    """As config.json names it."""
    prefix: str
    """Of the trunk's tensors in a model with a head."""
    fixed: Values
    """Fields that every model of the family has."""
    fields: str
    """Lines of a field and its key in config.json."""
    tensors: str
    heads: Mapping[str, Head]
    """By the name of the class in `architectures`; the first is taken where none is named."""
    library: str = "transformers"
    """The program that has the classes of `heads`."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other classes, by the one that reads their files."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory={"activation": ACTIVATIONS}.copy)
    """Values of fields by their names in config.json; of several, the first is written."""
    computed: Sequence[Computed] = ()
    defaults: Values = field(default_factory=dict)
    """Keys that a config.json may leave out."""
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Keys whose other values change the formula, with those that are known here."""
    at_least: Mapping[str, int] = field(default_factory=dict)
    """Fields that a model which is exported needs as much of."""
    alike: Sequence[tuple[str, str]] = ()
    """Pairs of keys that must have equal values."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """Second names of tensors, and the first."""
    unused: str = ""
    """Expression for tensors that are no parameters."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Parts of names that its modules have since transformers 5, by those in files."""

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The lines of `tensors`."""
        return rows_of(self.tensors)

    @cached_property
    def keys(self) -> dict[str, str]:
        """The keys of `fields`."""
        return dict(map(str.split, filter(str.strip, self.fields.splitlines())))

    def model(self, head: Head, keys: Values) -> ModelConfig:
        """The configuration that the keys of a `config.json` describe; KeyError: one is missing.
        ConfigError, ValueError, TypeError: a value that cannot be."""
        fields = {**self.fixed, **self._read(keys), **_classes(head, keys), **head.fields}
        for computed in self.computed:
            fields |= computed.read(keys)
        fields |= {name: fields[other] for name, other in head.same.items()}
        return ModelConfig.parse(fields)

    def _read(self, keys: Values) -> Values:
        found = {}
        for name, key in self.keys.items():
            value, names = keys.get(key), self.names.get(name)
            if value is None:
                # null is a value, or a probability has no use in a trained model
                if ModelConfig.model_fields[name].default is not None and "dropout" not in name:
                    raise KeyError(key)
                continue
            if names is not None and (not isinstance(value, str) or value not in names):
                raise ValueError(f"{key}={value!r:.100}; known are {', '.join(names)}")
            found[name] = value if names is None else names[value]
        return found

    def layout(
        self, head: Head, names: Iterable[str], model: ModelConfig, there: Collection[str] = ()
    ) -> dict[str, Stored]:
        """The tensors that hold these parameters of a model, by their names without the prefix.

        there: Names in a file, where a table has several for a parameter; else the first is taken.
        ConfigError: a parameter without a line.
        """
        rows = *rows_of(head.tensors, absolute=True), *self.rows
        headed = any(not row.prefixed for row in rows) and self.prefix
        found: dict[str, list[tuple[Row, str]]] = {}
        for name in names:
            known = [(row, theirs) for row in rows if (theirs := row.source(name, model))]
            if not known:
                raise ConfigError(
                    f"Models of type {self.model_type} have no tensor for the weight {name}, which "
                    "would be lost; add a line to the table of the family, or use a model without "
                    "it."
                )
            row, theirs = next((one for one in known if one[1] in there), known[0])
            found.setdefault(theirs, []).append((row, name))
        for own in found.values():
            own.sort(key=lambda one: one[0].how.part)
        return {
            theirs: Stored(
                f"{self.prefix}.{theirs}" if headed and own[0][0].prefixed else theirs,
                own[0][0].how,
                tuple(name for _, name in own),
            )
            for theirs, own in found.items()
        }

    def module_name(self, name: str) -> str:
        """The name that a tensor of a file has in the class."""
        for theirs, now in self.renamed.items():
            name = name.replace(theirs, now)
        return name

    def head(self, names: object) -> Head:
        """The head of the class that config.json names; CheckpointError: it is not known."""
        found = [*map(str, names)] if isinstance(names, list) else []
        for name in found or [*self.heads]:
            if (own := self.aliases.get(name, name)) in self.heads:
                return self.heads[own]
        raise CheckpointError(
            f"Models of class {', '.join(found)!s:.200} are not known; of type "
            f"{self.model_type}, those of class {' or '.join(self.heads)} are."
        )


def _classes(head: Head, keys: Values) -> Values:
    """Names of the classes, of equal ones with a number; ValueError: numbers are predicted."""
    if head.fields.get("head") not in ("classify", "tag"):
        return {}
    count, names = keys.get("num_labels", 2), keys.get("id2label")
    kind = keys.get("problem_type")
    if isinstance(names, dict) and names:
        classes = [str(names[str(index)]) for index in range(len(names))]
        first = {one: i for i, one in reversed([*enumerate(classes)])}  # ImageNet has two cranes
        classes = [one if first[one] == i else f"{one} ({i})" for i, one in enumerate(classes)]
    elif not (isinstance(count, int) and 0 < count <= LARGEST):
        raise ValueError(f"num_labels={count!r:.50}, which is no number of classes")
    else:
        classes = [f"LABEL_{index}" for index in range(count)]
    if kind == "regression" or len(classes) == 1:
        one = f"id2label={names!r:.100}" if names else "num_labels=1"
        shown = "problem_type='regression'" if kind == "regression" else one
        raise ValueError(f"{shown}, a number in place of classes, which no task here predicts")
    return {
        "classes": classes,
        "n_classes": len(classes),
        "multi_label": kind == "multi_label_classification",
    }


def read_families(*names: str) -> dict[str, Family]:
    """The families of TOML files of this folder, by their `model_type`."""
    tables: dict[str, Values] = {}
    for name in names:
        text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
        for kind, table in tomllib.loads(text).items():
            tables[kind] = tables.get(table.pop("like", ""), {}) | table
    return {kind: _family(kind, **table) for kind, table in tables.items()}


def _family(kind: str, heads: Values, computed: Sequence[str] = (), **table: Any) -> Family:
    name = table.pop("class")
    for keys in ("defaults", "only"):  # TOML has no null
        table[keys] = json.loads(json.dumps(table.get(keys, {})).replace('"null"', "null"))
    return Family(
        kind,
        heads={f"{name}{rest}": Head(**head) for rest, head in heads.items()},
        computed=[COMPUTED[one] for one in computed],
        **table,
    )


def rows_of(table: str, absolute: bool = False) -> tuple[Row, ...]:
    """The lines of a table of tensors; `absolute`: names without a dot in front have no prefix."""
    rows = []
    for ours, theirs, *how in map(str.split, filter(str.strip, table.splitlines())):
        pattern = re.escape(ours).replace(r"\#", r"(?P<block>\d+)")
        change = transform(how)
        if not change.whole_name:
            pattern += r"\.(?P<part>weight|bias)"
        prefixed = not absolute or theirs.startswith(".")
        rows.append(Row(re.compile(pattern), theirs.removeprefix("."), change, prefixed))
    return tuple(rows)
