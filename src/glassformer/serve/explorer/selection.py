"""The selection of the explorer's pages in Python, and its checks.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError, suggest
from glassformer.serve.explorer.schema import (
    ARGUMENTS,
    CONTROLS,
    DEFAULTS,
    PAGES,
    arguments,
    brief,
)

Selection = dict[str, Any]


def look_of(s: Mapping[str, Any]) -> dict[str, Any]:
    """The look of a selection, as requests have it."""
    return {name: s[name] for name in ("input", "edits", "checkpoint")}


def filled(op: str, s: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """A request of an op for a selection."""
    has, found = {**CONTROLS, **s, "look": look_of(s)}, dict[str, Any](op=op)
    for name, spec in arguments(op).items():
        if ARGUMENTS.get(name) is spec and name in has:
            found[name] = spec.get("default") if has[name] is None else has[name]
    return found | given


def check_names(values: Mapping[str, Any]) -> None:
    """Raise ConfigError for a name that is no field of a selection."""
    for name in values:
        if name not in DEFAULTS and name not in CONTROLS:
            hint = suggest(str(name), (*DEFAULTS, *CONTROLS))
            raise ConfigError(f"Nothing selected is called {name!r}; {hint}")


def check(s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]) -> None:
    """Raise ConfigError for a page, head or position that this model and input do not have."""
    page = PAGES.get(s["page"]) if isinstance(s["page"], str) else None
    if page is None:
        raise ConfigError(f"There is no page {brief(s['page'])}; {suggest(str(s['page']), PAGES)}")
    if page["needs"] and not {*page["needs"]} & {*card["capabilities"]}:
        raise ConfigError(
            f"The page {s['page']} needs a model with {' or '.join(page['needs'])}; "
            f"choose another page."
        )
    own = _attention(s, card)
    if not own:
        there = " or ".join(f"side={a['side']!r}, site={a['site']!r}" for a in card["attentions"])
        raise ConfigError(
            f"This model has no attention side={s['side']!r}, site={s['site']!r}; it has {there}."
        )
    queries, keys = map(len, sides(s, looked))
    elements = len(looked["elements"])
    ends = {"layer": own["layers"], "head": own["heads"], "query": queries, "key": keys}
    for name, end in (ends | {"position": elements}).items():
        value, least = s[name], -elements if name == "position" else 0
        none = DEFAULTS[name] is None
        if (value is None and none) or (type(value) is int and least <= value < end):
            continue
        raise ConfigError(
            f"There is no {name} {brief(value)} here; give {least} to "
            f"{end - 1}{', or None' if none else ''}."
        )


def _attention(s: Selection, card: Mapping[str, Any]) -> dict[str, Any]:
    """The selected attention of a model card; empty: the model has none there."""
    place = s["side"], s["site"]
    return next((one for one in card["attentions"] if (one["side"], one["site"]) == place), {})


def sides(s: Selection, looked: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The queries and keys of the selected attention, as elements."""
    source = looked["source_elements"] or looked["elements"]
    queries = source if s["side"] == "encoder" else looked["elements"]
    return queries, source if s["site"] == "cross" else queries
