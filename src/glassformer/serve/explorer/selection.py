"""The selection of the explorer's pages in Python: its checks, and the first questions of a page.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema. Values of a page's first questions are plain,
`$name` for a value of `_context`, or `*name` for one question for each value of a list. Arguments
that a question leaves out come from the selection if it has a field of that name.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from glassformer.errors import ConfigError, suggest
from glassformer.serve.explorer.schema import (
    ARGUMENTS,
    CONTROLS,
    DEFAULTS,
    PAGES,
    SCHEMA,
    arguments,
    brief,
)

Selection = dict[str, Any]
WORD = re.compile(r"[^\W\d_]{3}").search
"""Three letters."""


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


def _attention(s: Selection, card: Mapping[str, Any]) -> dict[str, Any]:
    """The selected attention of a model card; empty: the model has none there."""
    place = s["side"], s["site"]
    return next((one for one in card["attentions"] if (one["side"], one["site"]) == place), {})


def sides(s: Selection, looked: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The queries and keys of the selected attention, as elements."""
    source = looked["source_elements"] or looked["elements"]
    queries = source if s["side"] == "encoder" else looked["elements"]
    return queries, source if s["site"] == "cross" else queries


def opened(s: Selection, looked: Mapping[str, Any]) -> Selection:
    """The selection with what its page chooses itself: a query, or a position and an outcome."""
    (queries, _), outcome = sides(s, looked), looked["outcome"]
    found, chooses = dict(s), PAGES[s["page"]].get("chooses", ())
    if "query" in chooses and s["query"] is None:
        found["query"] = 0 if queries[0]["kind"] == "class" else len(queries) - 1
    if "target" in chooses and outcome["rows"]:
        at = telling(looked) if s["position"] == -1 else s["position"] % len(looked["elements"])
        found["position"] = -1 if outcome["kind"] == "class" else at
        if s["target"] is None:
            found["target"] = outcome["rows"][found["position"]]["top"][0]["id"]
    return found


def telling(looked: Mapping[str, Any]) -> int:
    """The position of a mask; for tags, of the last word of three letters; otherwise the last
    (`telling` of pages/aimed.js)."""
    elements = looked["elements"]
    for i, one in enumerate(elements):
        if one["kind"] == "special" and "mask" in one["label"].lower():
            return i
    last = len(elements) - 1
    if looked["outcome"]["kind"] != "tags":
        return last
    words = [i for i, one in enumerate(elements) if one["kind"] == "token" and WORD(one["label"])]
    return max(words, default=last)


def questions(
    s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The first requests of the selected page for an `opened` selection."""
    yield {"op": "model"}
    yield filled("look", s)
    context = _context(s, card, looked)
    for question in PAGES[s["page"]]["questions"]:
        own = {name: value for name, value in question.items() if name != "op"}
        lists = [
            context[value[1:]]
            if value[:1] == "*"
            else [context[value[1:]] if value[:1] == "$" else value]
            for value in own.values()
        ]
        for values in product(*lists):
            yield filled(question["op"], s, **dict(zip(own, values, strict=True)))
    elements = [*looked["source_elements"], *looked["elements"]]
    for part in range(sum(one["row"] == one["column"] == 0 for one in elements)):  # first patches
        yield filled("picture", s, part=part)


def _context(s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]) -> dict[str, Any]:
    """The values that first questions name."""
    look, own, (queries, keys) = look_of(s), _attention(s, card), sides(s, looked)
    limits, positions, place = SCHEMA["limits"], SCHEMA["positions"], card["config"]["position"]
    count, outcomes, window = len(looked["elements"]), limits["outcomes"], limits["window"]
    begin = max(0, min(count - window, s["position"] - window // 2))
    site = "cross" if s["site"] == "cross" else "attention"
    patterns = [f"{own['stack']}.blocks.{layer}.{site}.pattern" for layer in range(own["layers"])]
    small = own["heads"] * len(queries) * len(keys) <= limits["exact"]
    heads = range(min(limits["bias_heads"], own["heads"]))
    return {
        "unedited": {**look, "edits": []},
        "pattern": patterns[s["layer"] : s["layer"] + 1] if small else [],
        "patterns": patterns,
        "targets": [s["target"]] if looked["outcome"]["rows"] else [],
        "window": None if s["position"] < 0 else [*range(begin, min(count, begin + window))],
        "k": min(outcomes, len(card["classes"]) or outcomes),
        "begin": 0 if "pair" in card["capabilities"] and s.get("begin", True) else -1,
        "biased": heads if place in positions["biased"] else [],
        "added": [look] if place in positions["added"] else [],
        "last": len(queries) - 1 if s["query"] is None else s["query"],
    }
