"""Every field of a recipe: its type, its default and its own description."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from glassformer.core.errors import ConfigError, suggest
from glassformer.core.record import Record, uses
from glassformer.recipe.pipelines import pipeline_of
from glassformer.recipe.recipe import SECTIONS, Recipe

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COMMON: list[str] = TABLE["all"]
"""Fields that most recipes set."""
OF_INPUT: dict[str, list[str]] = TABLE["inputs"]
"""Fields that most recipes of an input set beside them."""


@dataclass(frozen=True)
class FieldRow:
    """One field in a list."""

    section: str
    name: str
    type: str
    default: Any
    description: str
    only: str
    """The only tasks or inputs that it is for; empty: all."""

    @property
    def path(self) -> str:
        """The name by which a recipe and the command line set it."""
        return f"{self.section}.{self.name}"


def field_rows(section: str | None = None) -> Iterator[FieldRow]:
    """The fields of a section and of those inside it, or of all; ConfigError: no such section."""
    known = sections()
    if section is not None and section not in known:
        raise ConfigError(f"There is no section {section!r}; {suggest(section, known)}")
    for path, (record, _) in known.items():
        if section is None or f"{path}.".startswith(f"{section}."):
            yield from rows_of(path, record)


def task_rows(task: str) -> Iterator[FieldRow]:
    """The fields that most recipes of a task set, with the task's own defaults; ConfigError: no
    such task."""
    inputs = pipeline_of(task).inputs
    rows, recipe = {row.path: row for row in field_rows()}, Recipe.parse({"task": task})
    for path in (*COMMON, *OF_INPUT[inputs[0]]):
        value: Any = recipe
        for key in path.split("."):
            value = getattr(value, key, None)
        yield replace(rows[path], default=rows[path].default if value is None else value)


def sections() -> dict[str, tuple[type[Record], str]]:
    """Every section by its full name, each followed by those inside it, with its description."""
    found: dict[str, tuple[type[Record], str]] = {}

    def add(path: str, record: type[Record], about: str) -> None:
        found[path] = record, about
        for name, inside in record.records().items():
            add(f"{path}.{name}", inside, record.model_fields[name].description or "")

    for name, record in SECTIONS.items():
        add(name, record, " ".join((record.__doc__ or "").split()))
    return found


def rows_of(section: str, record: type[Record]) -> Iterator[FieldRow]:
    """Return the fields of one section, without those inside it."""
    for name, field in record.model_fields.items():
        if name not in record.records():
            default = field.get_default(call_default_factory=True, validated_data={})
            text = " ".join((field.description or "").split())
            only = ", ".join(name for names in uses(field).values() for name in names)
            yield FieldRow(section, name, _type(field.annotation), default, text, only)


def show(value: Any) -> str:
    """A default as a recipe writes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _type(annotation: Any) -> str:
    """A type in words: `int`, `list of str`, `fused or reference`, `int or null`."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        return _type(inside[0])
    if origin is Literal:
        return " or ".join(map(str, inside))
    if origin in (Union, UnionType):
        return " or ".join(map(_type, inside))
    if origin is tuple and inside[-1] is not Ellipsis:
        return f"[{', '.join(map(_type, inside))}]"
    if origin in (tuple, list):
        several = "mappings" if get_origin(inside[0]) is dict else _type(inside[0])
        return f"list of {several}"
    if origin is dict:
        return f"mapping of {_type(inside[0])} to {_type(inside[1])}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
