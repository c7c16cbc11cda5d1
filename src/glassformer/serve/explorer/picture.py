"""A picture of a selection, drawn without a browser: all heads, one head, or the likeliest next
tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.inspect.look import Look
from glassformer.pages.charts import THUMB, heads, matrix
from glassformer.pages.colours import steps, weight_steps
from glassformer.pages.kit import cut
from glassformer.pages.scene import Box, Scene, Text
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.schema import PAGES
from glassformer.serve.explorer.selection import Selection, look_of

BARS, BAR, ROW = 10, 420, 30
BLANKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})


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
