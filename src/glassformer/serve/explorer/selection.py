"""What is selected on the explorer's pages, in Python: its names, what each may be, what a page
asks about it first.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

The same names as `static/state.js` has, and the address of a page.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError, suggest
from glassformer.serve.explorer.page import contents
from glassformer.serve.explorer.requests import brief

Selection = dict[str, Any]
"""What is selected, by name; plain values."""
DEFAULTS: Mapping[str, Any] = {
    "page": "",
    "lesson": "",
    "input": None,
    "edits": [],
    "checkpoint": None,
    "side": "",
    "site": "self",
    "layer": 0,
    "head": 0,
    "query": None,
    "key": None,
    "position": -1,
    "target": None,
    "against": None,
    "step": 0,
}
"""What is selected where nothing was said."""
OF_PAGES = (
    *(
        "b",
        "begin",
        "curve",
        "domain",
        "each",
        "least",
        "mean",
        "method",
        "metric",
        "opacity",
        "pair",
        "picks",
    ),
    *(
        "point",
        "scale",
        "seed",
        "share",
        "shelf",
        "smooth",
        "temperature",
        "top_k",
        "top_p",
        "view",
        "was",
        "words",
    ),
)
"""What single pages keep beside it, as their controls have it."""
THUMB, WINDOW, BEST, EXACT, HEADS = 64, 40, 8, 1 << 18, 16
"""What pages ask for: pixels of a thumbnail, positions and outcomes of the lens, exact numbers,
heads with a bias."""
BIASED, UNPLACED = ("alibi", "relative", "buckets"), ("none", "rotary", "rotary_2d")
"""Kinds of positions that are added to the scores, and those of which no vector is added to the
elements."""


def named(values: Mapping[str, Any]) -> None:
    """ConfigError: a name that nothing selected has."""
    for name in values:
        if name not in DEFAULTS and name not in OF_PAGES:
            raise ConfigError(
                f"Nothing selected is called {name!r}; {suggest(str(name), (*DEFAULTS, *OF_PAGES))}"
            )


def checked(s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]) -> None:
    """ConfigError: a page, head or place that this model and input do not have; see the ops `model`
    and `look`."""
    pages = contents()
    if not isinstance(s["page"], str) or s["page"] not in pages:
        raise ConfigError(f"There is no page {brief(s['page'])}; {suggest(str(s['page']), pages)}")
    families = pages[s["page"]].families
    if families is not None and card["family"] not in families:
        raise ConfigError(
            f"The page {s['page']} is for models of {', '.join(families)}, and this is one of "
            f"{card['family']}; "
            "choose another page."
        )
    own = next(
        (one for one in card["attentions"] if (one["side"], one["site"]) == (s["side"], s["site"])),
        None,
    )
    if own is None:
        there = " or ".join(
            f"side={one['side']!r}, site={one['site']!r}" for one in card["attentions"]
        )
        raise ConfigError(
            f"This model has no attention side={s['side']!r}, site={s['site']!r}; it has {there}."
        )
    queries, keys = sides(s, looked)
    least = {"layer": 0, "head": 0, "query": 0, "key": 0, "position": -len(looked["elements"])}
    most = {"layer": own["layers"], "head": own["heads"], "query": len(queries), "key": len(keys)}
    most["position"] = len(looked["elements"])
    for name, begin in least.items():
        value, none = s[name], name in ("query", "key")
        if (value is None and none) or (type(value) is int and begin <= value < most[name]):
            continue
        raise ConfigError(
            f"There is no {name} {brief(value)} here; give {begin} to "
            f"{most[name] - 1}{', or None' if none else ''}."
        )


def sides(s: Selection, looked: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The elements that ask and those that answer in the selected attention."""
    source = looked["source_elements"] or looked["elements"]
    queries = source if s["side"] == "encoder" else looked["elements"]
    return queries, source if s["site"] == "cross" else queries


def look_of(s: Selection) -> dict[str, Any]:
    """Which look it is, as requests name it."""
    return {name: s[name] for name in ("input", "edits", "checkpoint")}


def head_of(s: Selection) -> dict[str, Any]:
    """Which head of which look."""
    return {"look": look_of(s), **{name: s[name] for name in ("side", "site", "layer", "head")}}


def aimed(s: Selection, looked: Mapping[str, Any]) -> dict[str, Any]:
    """Where and about which outcome is asked: what is selected, else the likeliest at the end."""
    rows = looked["outcome"]["rows"]
    if not rows:
        return {}
    whole = looked["outcome"]["kind"] == "class"
    position = -1 if whole else s["position"] % len(looked["elements"])
    top = rows[0 if whole else position]["top"]
    return {
        "position": position,
        "target": top[0]["id"] if s["target"] is None else s["target"],
        "against": s["against"],
    }


def questions(
    s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What the selected page asks when it opens with an `opened` selection."""
    look, (queries, keys) = look_of(s), sides(s, looked)
    attention = {"look": look, "side": s["side"], "site": s["site"]}
    thumbs = {"op": "thumbs", **attention, "size": THUMB}
    asked: list[dict[str, Any]] = [{"op": "model"}, {"op": "look", "look": look}]
    aim = aimed(s, looked)
    match s["page"]:
        case "attention":
            asked.append(thumbs)
        case "head":
            row = {**head_of(s), "query": s["query"]}
            asked += [
                thumbs,
                {"op": "head", **head_of(s)},
                {"op": "row", **row},
                {"op": "step", **row},
            ]
            asked.append({"op": "look", "look": {**look, "edits": []}})
            if card["heads"] * len(queries) * len(keys) <= EXACT:
                asked.append({"op": "raw", "look": look, "point": f"{place_of(s, card)}.pattern"})
        case "flow" if aim:
            begin = max(0, min(len(looked["elements"]) - WINDOW, aim["position"] - WINDOW // 2))
            places = list(range(begin, begin + min(WINDOW, len(looked["elements"]))))
            k = min(BEST, len(card["classes"]) or BEST)
            lens = {"look": look, "k": k, "positions": None if aim["position"] < 0 else places}
            asked += [
                {"op": "ledger", "look": look, **aim},
                {"op": "lens", **lens, "target": aim["target"]},
            ]
        case "explain" if aim:
            method = s.get("method", "gradient_x_input")
            asked.append({"op": "attribute", "look": look, "method": method, **aim})
        case "next":
            begin = 0 if card["family"] == "translate" and s.get("begin", True) else -1
            sampling = {
                "temperature": s.get("temperature", 1),
                "top_k": s.get("top_k"),
                "top_p": s.get("top_p"),
            }
            asked.append({"op": "next", "look": look, "position": begin, **sampling})
        case "image":
            asked.append({"op": "row", **head_of(s), "query": s["query"]})
            points = [place_of({**s, "layer": layer}, card) for layer in range(card["layers"])]
            asked += [
                thumbs,
                *({"op": "raw", "look": look, "point": f"{point}.pattern"} for point in points),
            ]
        case "tokens" if card["config"]["position"] in BIASED:
            row = {**head_of(s), "query": len(queries) - 1 if s["query"] is None else s["query"]}
            asked += [
                {"op": "step", **row, "head": head} for head in range(min(HEADS, card["heads"]))
            ]
        case "tokens" if card["config"]["position"] not in UNPLACED:
            asked += [
                {"op": "points", "look": look},
                {"op": "raw", "look": look, "point": "embed.positions"},
            ]
        case "export":
            asked.append({"op": "points", "look": look})
        case "train":
            asked.append({"op": "curves"})
    return asked + [
        {"op": "picture", "look": look, "part": part} for part in range(pictures(looked))
    ]


def opened(s: Selection, looked: Mapping[str, Any]) -> Selection:
    """The selection with what a page would choose by itself, so that it asks what was foreseen."""
    whole, (queries, _) = looked["outcome"]["kind"] == "class", sides(s, looked)
    query = (
        {"query": 0 if queries[0]["kind"] == "class" else len(queries) - 1}
        if s["query"] is None
        else {}
    )
    aim = {} if whole or s["page"] not in ("flow", "explain") else aimed(s, looked)
    return {**s, **(query if s["page"] in ("head", "image") else {}), **aim}


def pictures(looked: Mapping[str, Any]) -> int:
    """How many pictures and recordings there are in an input."""
    elements = [*looked["source_elements"], *looked["elements"]]
    return sum(
        e["kind"] in ("image", "audio") and not e["row"] and not e["column"] for e in elements
    )


def place_of(s: Selection, card: Mapping[str, Any]) -> str:
    """Where the points of the selected attention are: decoder.blocks.3.attention."""
    stack = next(
        one["stack"]
        for one in card["attentions"]
        if (one["side"], one["site"]) == (s["side"], s["site"])
    )
    return f"{stack}.blocks.{s['layer']}.{'cross' if s['site'] == 'cross' else 'attention'}"
