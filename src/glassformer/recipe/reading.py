"""Recipes in files, and overrides on top of them.

recipe = read_recipe("lm", ["train.steps=200", "model.n_layers=6"])
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from glassformer.core.errors import ConfigError
from glassformer.core.files import Values
from glassformer.core.record import Record
from glassformer.recipe import yaml_text
from glassformer.recipe.named import recipe_file
from glassformer.recipe.recipe import SECTIONS, Recipe

GONE = (("data", "workers"),)
"""Sections and fields of earlier versions, which recipes in files may still have."""


def read_recipe(path: str | Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a name or a YAML file (None: all defaults) with `section.key=value` overrides;
    see `recipe_file` and `_meant`."""
    values = read_yaml(recipe_file(path)) if path is not None else {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or (key != "task" and not key.partition(".")[2]):
            raise ConfigError(
                f"{override!r} is no override; write section.key=value, for example "
                "train.steps=500, or task=NAME."
            )
        values = replace_value(values, key, _meant(key, text))
    return Recipe.parse(values)


def _meant(key: str, text: str) -> Any:
    """The value that an override gives to a field, which reads a text by its own type.

    `12:30` and `a: b.txt` stay texts; `[a, b]`, `{a: b}` and quoted texts are YAML, their
    parts texts; nothing, `null` and `~` are null where the field may be null.
    """
    if text in ("", "null", "~"):
        *sections, name = key.split(".")
        records: Mapping[str, type[Record]] = SECTIONS
        fields = {}
        for section in sections:
            record = records.get(section, Record)
            records, fields = record.records(), record.model_fields
        return text if name in fields and fields[name].annotation is str else None
    if text[:1] in ("[", "{", "'", '"'):
        with suppress(yaml.YAMLError):
            return yaml_text.parse(text)
    return text


def replace_value(values: Values, key: str, value: Any) -> Values:
    """Recipe values with the task or `section.key` replaced; ConfigError: not a key."""
    section, *inside = key.split(".")
    if not all(inside) or bool(inside) == (section == "task"):
        raise ConfigError(
            f"{key!r} is no field of a recipe; write section.key, for example train.steps, or task."
        )
    if not inside:
        return values | {key: value}
    changed = holder = dict(values)
    for name in (section, *inside[:-1]):
        content = holder.get(name)
        if not isinstance(content, dict | None):
            raise ConfigError(f"The section {name} must hold key: value lines, not {content!r}.")
        holder[name] = holder = dict(content or {})
    holder[inside[-1]] = value
    return changed


def read_yaml(path: Path) -> Values:
    """The mapping in a YAML file; a ConfigError if there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            values = yaml_text.parse(file.read(yaml_text.MOST_CHARACTERS + 1))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The recipe {path} cannot be read ({error}); give a YAML text file."
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or f"{error}".partition("\n")[0]
        raise ConfigError(
            f"The recipe {path} is not valid YAML{line} ({problem}); write section: and indented "
            "key: value."
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"The recipe {path} holds {type(values).__name__}, not sections; `glassformer recipe "
            f"copy lm my.yaml` writes one."
        )
    for section, field in GONE:
        if isinstance(content := values.get(section), dict):
            content.pop(field, None)
    return {str(section): content for section, content in values.items()}
