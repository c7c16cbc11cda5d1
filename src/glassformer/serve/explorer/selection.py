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
    if (page := s["page"]) not in [*PAGES]:
        raise ConfigError(f"There is no page {brief(page)}; {suggest(str(page), PAGES)}")
    if (needs := PAGES[page]["needs"]) and not {*needs} & {*card["capabilities"]}:
        raise ConfigError(
            f"The page {page} needs a model with {' or '.join(needs)}; choose another page."
        )
    place = {name: s[name] for name in ("side", "site")}
    own = next((one for one in card["attentions"] if place.items() <= one.items()), None)
    if own is None:
        there = " or ".join(f"side={a['side']!r}, site={a['site']!r}" for a in card["attentions"])
        raise ConfigError(
            f"This model has no attention side={s['side']!r}, site={s['site']!r}; it has {there}."
        )
    queries, keys = (range(len(side)) for side in look.sequences(**place))
    found = {"layer": range(own["layers"]), "head": range(own["heads"]), "query": queries}
    found |= {"key": keys, "position": range(-(n := len(look.elements)), n)}
    for name, places in found.items():
        value, none = s[name], DEFAULTS[name] is None
        if (value is None and none) or (type(value) is int and value in places):
            continue
        raise ConfigError(
            f"There is no {name} {brief(value)} here; give {places[0]} to "
            f"{places[-1]}{', or None' * none}."
        )
