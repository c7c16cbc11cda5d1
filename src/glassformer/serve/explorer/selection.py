"""The selection of the explorer's pages in Python: its checks, and the first questions of a page.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError, suggest
from glassformer.serve.explorer.requests import brief
from glassformer.serve.explorer.schema import (
    CONTROLS,
    DEFAULTS,
    PAGES,
    SCHEMA,
    first_questions,
    look_of,
)

Selection = dict[str, Any]


def named(values: Mapping[str, Any]) -> None:
    """Raise ConfigError for a name that is no field of a selection."""
    for name in values:
        if name not in DEFAULTS and name not in CONTROLS:
            hint = suggest(str(name), (*DEFAULTS, *CONTROLS))
            raise ConfigError(f"Nothing selected is called {name!r}; {hint}")


def checked(s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]) -> None:
    """Raise ConfigError for a page, head or position that this model and input do not have."""
    page = PAGES.get(s["page"]) if isinstance(s["page"], str) else None
    if page is None:
        raise ConfigError(f"There is no page {brief(s['page'])}; {suggest(str(s['page']), PAGES)}")
    if page["needs"] and not {*page["needs"]} & {*card["capabilities"]}:
        raise ConfigError(
            f"The page {s['page']} needs a model with {' or '.join(page['needs'])}; "
            f"choose another page."
        )
    own = attention_of(s, card)
    if own is None:
        there = " or ".join(f"side={a['side']!r}, site={a['site']!r}" for a in card["attentions"])
        raise ConfigError(
            f"This model has no attention side={s['side']!r}, site={s['site']!r}; it has {there}."
        )
    queries, keys = sides(s, looked)
    elements = len(looked["elements"])
    counts = {**own, "queries": len(queries), "keys": len(keys), "elements": elements}
    for name, field in SCHEMA["state"].items():
        if "below" not in field:
            continue
        value, none, most = s[name], field.get("nullable", False), counts[field["below"]]
        least = -elements if field["minimum"] == "elements" else field["minimum"]
        if (value is None and none) or (type(value) is int and least <= value < most):
            continue
        raise ConfigError(
            f"There is no {name} {brief(value)} here; give {least} to "
            f"{most - 1}{', or None' if none else ''}."
        )


def attention_of(s: Selection, card: Mapping[str, Any]) -> dict[str, Any] | None:
    """The selected attention of a model card; None: the model has none there."""
    place = s["side"], s["site"]
    return next((one for one in card["attentions"] if (one["side"], one["site"]) == place), None)


def sides(s: Selection, looked: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The queries and keys of the selected attention, as elements."""
    source = looked["source_elements"] or looked["elements"]
    queries = source if s["side"] == "encoder" else looked["elements"]
    return queries, source if s["site"] == "cross" else queries


def opened(s: Selection, looked: Mapping[str, Any]) -> Selection:
    """The selection with the query and the outcome that a page would choose itself."""
    queries, rows, whole = (
        sides(s, looked)[0],
        looked["outcome"]["rows"],
        looked["outcome"]["kind"] == "class",
    )
    found = dict(s)
    if s["query"] is None and s["page"] in ("head", "image"):
        found["query"] = 0 if queries[0]["kind"] == "class" else len(queries) - 1
    if rows and s["page"] in ("flow", "explain"):
        position = -1 if whole else s["position"] % len(looked["elements"])
        target = rows[0 if whole else position]["top"][0]["id"]
        found |= {"position": position, "target": target if s["target"] is None else s["target"]}
    return found


def questions(
    s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The first requests of the selected page for an `opened` selection."""
    elements = [*looked["source_elements"], *looked["elements"]]
    media = (one for one in elements if one["kind"] in ("image", "audio"))
    parts = sum(not one["row"] and not one["column"] for one in media)
    look = look_of(s)
    return [
        {"op": "model"},
        {"op": "look", "look": look},
        *first_questions(s["page"], s, _context(s, card, looked)),
        *({"op": "picture", "look": look, "part": part} for part in range(parts)),
    ]


def _context(s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]) -> dict[str, Any]:
    """The values that first questions name."""
    look, own, (queries, keys) = look_of(s), attention_of(s, card), sides(s, looked)
    assert own is not None
    limits, positions, place = SCHEMA["limits"], SCHEMA["positions"], card["config"]["position"]
    count, outcomes = len(looked["elements"]), limits["outcomes"]
    begin = max(0, min(count - limits["window"], s["position"] - limits["window"] // 2))
    site = "cross" if s["site"] == "cross" else "attention"
    patterns = [f"{own['stack']}.blocks.{layer}.{site}.pattern" for layer in range(own["layers"])]
    small = own["heads"] * len(queries) * len(keys) <= limits["exact"]
    heads = range(min(limits["bias_heads"], own["heads"]))
    return {
        "unedited": {**look, "edits": []},
        "pattern": patterns[s["layer"] : s["layer"] + 1] if small else [],
        "patterns": patterns,
        "targets": [s["target"]] if looked["outcome"]["rows"] else [],
        "window": None
        if s["position"] < 0
        else list(range(begin, min(count, begin + limits["window"]))),
        "k": min(outcomes, len(card["classes"]) or outcomes),
        "begin": 0 if "pair" in card["capabilities"] and s.get("begin", True) else -1,
        "biased": heads if place in positions["biased"] else [],
        "added": [look] if place in positions["added"] else [],
        "last": len(queries) - 1 if s["query"] is None else s["query"],
    }
