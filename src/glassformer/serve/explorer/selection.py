"""The selection of the explorer's pages in Python: its checks, and its picture without a browser.

    {"page": "head", "input": "the cat sat", "edits": [], "layer": 3, "head": 5, "query": 2, ...}

Fields, defaults and pages are those of the schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, brief, suggest
from glassformer.inspect.look import Look
from glassformer.pages.charts import THUMB, heads, matrix
from glassformer.pages.kit import cut, steps, weight_steps
from glassformer.pages.scene import Box, Scene, Text
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.schema import CONTROLS, DEFAULTS, PAGES

Selection = dict[str, Any]
BARS, BAR, ROW = 10, 420, 30
BLANKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})


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


def static_image(explorer: Explorer, look: Look, s: Selection, card: Mapping[str, Any]) -> Scene:
    """The picture that the selected page has in the schema: all heads, the likeliest outcomes, or
    the selected head."""
    place = {name: s[name] for name in ("side", "site")}
    drawing = PAGES[s["page"]].get("drawing")
    if drawing == "heads":
        request = {"op": "thumbnails", "look": look_of(s), "size": THUMB, **place}
        reply = explorer.handle(request)
        shades = steps(reply.arrays["thumbnails"] / 255)
        scene = heads(shades, [(s["layer"], s["head"])], "layer {} head {}".format)
        title = f"{s['site']}-attention of all heads"
    elif drawing == "outcomes":
        looked = explorer.handle({"op": "look", "look": look_of(s)}).header
        scene = _bars(looked["outcome"]["rows"][s["position"]]["top"][:BARS])
        title = "the likeliest next tokens"
    else:
        rows, columns = ([_visible(one.label) for one in side] for side in look.sequences(**place))
        masked = look.scores(s["layer"], s["head"], **place).isneginf().numpy()
        shades = weight_steps(look.pattern(s["layer"], s["head"], **place).numpy()).astype(int)
        scene = matrix(rows, columns, np.where(masked, -1, shades))
        title = f"{s['site']}-attention, layer {s['layer']} head {s['head']}; rows are queries"
    left, top, *_ = scene.bounds
    return Scene([*scene, Text(left, top - 26, f"{card['name']}: {title}", "ink", 18, "start")])


def _bars(top: Sequence[Mapping[str, Any]]) -> Scene:
    scene = Scene()
    for i, one in enumerate(top):
        y, long = i * ROW, BAR * one["p"] / top[0]["p"]
        scene.append(Box(0, y - 9, long, 18, "s32"))
        scene.append(Text(-10, y, cut(_visible(one["label"]), 24), "ink", anchor="end"))
        scene.append(Text(long + 8, y, f"{one['p']:.3g}", anchor="start"))
    return scene


def _visible(label: str) -> str:
    return label.translate(BLANKS)
