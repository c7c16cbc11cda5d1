"""A picture of a selection, drawn without a browser: all heads, one head, or the likeliest next
tokens, from the answers of the handler."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.pages.charts import THUMB, heads, matrix
from glassformer.pages.colours import steps
from glassformer.pages.kit import cut
from glassformer.pages.scene import Box, Scene, Text
from glassformer.serve.explorer.schema import PAGES
from glassformer.serve.explorer.selection import Selection, filled, sides
from glassformer.serve.explorer.wire import Reply

BARS, BAR, ROW = 10, 420, 30
BLANKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})


def static_image(
    handle: Callable[[Any], Reply], s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> Scene:
    """Return the picture that the selected page has in the schema: all heads, the likeliest
    outcomes, or the selected head."""
    drawing = PAGES[s["page"]].get("drawing")
    if drawing == "heads":
        roots = handle(filled("thumbnails", s, size=THUMB)).arrays["thumbnails"]
        scene = heads(steps(roots / 255), [(s["layer"], s["head"])], "layer {} head {}".format)
        title = f"{s['site']}-attention of all heads"
    elif drawing == "outcomes":
        top = looked["outcome"]["rows"][s["position"]]["top"][:BARS]
        scene, title = _bars(top), "the likeliest next tokens"
    else:
        rows, columns = ([*map(_visible, side)] for side in sides(s, looked))
        scene = matrix(rows, columns, _head(handle, s))
        title = f"{s['site']}-attention, layer {s['layer']} head {s['head']}; rows are queries"
    left, top, *_ = scene.bounds
    return Scene([*scene, Text(left, top - 26, f"{card['name']}: {title}", "ink", 18, "start")])


def _head(handle: Callable[[Any], Reply], s: Selection) -> np.ndarray:
    """Return the steps of the selected head, -1 where a query sees no key."""
    try:
        reply = handle(filled("head", s))
        roots, causal = reply.arrays["pattern"], reply.header["mask"] == "causal"
        hidden = reply.arrays.get("masked", np.triu(np.full(roots.shape, causal), 1)) > 0
    except GlassformerError:  # too large to be sent as a whole
        reply = handle(filled("thumbnails", s, size=256))
        roots, hidden = reply.arrays["thumbnails"][s["layer"], s["head"]], False
    return np.where(hidden, -1, steps(roots / 255).astype(int))


def _bars(top: Sequence[Mapping[str, Any]]) -> Scene:
    scene = Scene()
    for i, one in enumerate(top):
        y, long = i * ROW, BAR * one["p"] / top[0]["p"]
        scene.append(Box(0, y - 9, long, 18, "s32"))
        scene.append(Text(-10, y, cut(_visible(one), 24), "ink", anchor="end"))
        scene.append(Text(long + 8, y, f"{one['p']:.3g}", anchor="start"))
    return scene


def _visible(element: Mapping[str, Any]) -> str:
    return element["label"].translate(BLANKS)
