"""The selection of the explorer's pages in Python, and its checks.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.core.errors import ConfigError, brief, suggest
from glassformer.inspect.look import Look
from glassformer.serve.explorer.schema import CONTROLS, DEFAULTS, PAGES

Selection = dict[str, Any]


def look_of(s: Mapping[str, Any]) -> dict[str, Any]:
    """The look of a selection, as requests have it."""
    return {name: s[name] for name in ("input", "edits", "checkpoint")}


def check_names(values: Mapping[str, Any]) -> None:
    """Raise ConfigError for a name that is no field of a selection."""
    for name in values:
        if name not in DEFAULTS and name not in CONTROLS:
            hint = suggest(str(name), (*DEFAULTS, *CONTROLS))
            raise ConfigError(f"Nothing selected is called {name!r}; {hint}")


def check(s: Selection, card: Mapping[str, Any], look: Look) -> None:
    """Raise ConfigError for a page, head or position that this model and input do not have."""
    page = PAGES.get(s["page"]) if isinstance(s["page"], str) else None
    if page is None:
        raise ConfigError(f"There is no page {brief(s['page'])}; {suggest(str(s['page']), PAGES)}")
    if page["needs"] and not {*page["needs"]} & {*card["capabilities"]}:
        raise ConfigError(
            f"The page {s['page']} needs a model with {' or '.join(page['needs'])}; "
            f"choose another page."
        )
    place = {name: s[name] for name in ("side", "site")}
    own = next((one for one in card["attentions"] if place.items() <= one.items()), None)
    if own is None:
        there = " or ".join(f"side={a['side']!r}, site={a['site']!r}" for a in card["attentions"])
        raise ConfigError(
            f"This model has no attention side={s['side']!r}, site={s['site']!r}; it has {there}."
        )
    queries, keys = map(len, look.sequences(**place))
    elements = len(look.elements)
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
