"""The selection of the explorer's pages in Python: its checks, and the first requests of a page.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema.
"""

from collections.abc import Iterator, Mapping
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


def opened(s: Selection, looked: Mapping[str, Any]) -> Selection:
    """Return the selection with the query, or the position and outcome, that its page needs."""
    (queries, _), outcome, found = sides(s, looked), looked["outcome"], dict(s)
    chooses = PAGES[s["page"]].get("chooses", ())
    if "query" in chooses and s["query"] is None:
        found["query"] = 0 if queries[0]["kind"] == "class" else len(queries) - 1
    if "target" in chooses and outcome["rows"]:
        last = informative(looked) if s["position"] == -1 else s["position"]
        at = -1 if outcome["kind"] == "class" else last % len(looked["elements"])
        found["position"] = at
        if s["target"] is None:
            found["target"] = outcome["rows"][at]["top"][0]["id"]
    return found


def informative(looked: Mapping[str, Any]) -> int:
    """Position of a mask; of tags, of the last word of three letters; otherwise the last."""
    elements, tags = looked["elements"], looked["outcome"]["kind"] == "tags"
    masks, words = [], []
    for i, one in enumerate(elements):
        if one["kind"] == "special" and "mask" in one["label"].lower():
            masks.append(i)
        if one["kind"] == "token" and sum(map(str.isalpha, one["label"])) > 2:
            words.append(i)
    return masks[0] if masks else words[-1] if tags and words else len(elements) - 1


def questions(
    s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the first requests of the selected page for an `opened` selection."""
    look, own, (queries, keys) = look_of(s), _attention(s, card), sides(s, looked)
    place, positions, limits = card["config"]["position"], SCHEMA["positions"], SCHEMA["limits"]
    site = "cross" if s["site"] == "cross" else "attention"
    raws = [f"{own['stack']}.blocks.{layer}.{site}.pattern" for layer in range(own["layers"])]
    count, window, k = len(looked["elements"]), limits["window"], limits["outcomes"]
    begin = max(0, min(count - window, s["position"] - window // 2))
    some = None if s["position"] < 0 else [*range(begin, min(count, begin + window))]
    begins = "pair" in card["capabilities"] and s.get("begin", True)
    given = {
        "lens": {"k": min(k, len(card["classes"]) or k), "positions": some, "target": s["target"]},
        "next": {"position": 0 if begins else -1},
    }
    for op in ("model", "look", *PAGES[s["page"]]["asks"]):
        if "target" not in arguments(op) or looked["outcome"]["rows"]:
            yield filled(op, s, **given.get(op, {}))
    match s["page"]:
        case "tokens" if place in positions["biased"]:
            last = len(queries) - 1 if s["query"] is None else s["query"]
            for head in range(min(limits["bias_heads"], own["heads"])):
                yield filled("step", s, head=head, query=last)
        case "tokens" if place in positions["added"]:
            yield filled("points", s)
            yield filled("raw", s, point="embed.positions")
        case "head":
            yield filled("look", s, look={**look, "edits": []})
            if own["heads"] * len(queries) * len(keys) <= limits["exact"]:
                yield filled("raw", s, point=raws[s["layer"]])
        case "image":
            for point in raws:
                yield filled("raw", s, point=point)
    elements = [*looked["source_elements"], *looked["elements"]]
    for part in range(sum(one["row"] == one["column"] == 0 for one in elements)):  # first patches
        yield filled("picture", s, part=part)
