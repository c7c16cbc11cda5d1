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
    drawing, selected = PAGES[s["page"]].get("drawing"), (s["layer"], s["head"])
    kind = "cross-attention" if s["site"] == "cross" else "attention"
    if drawing == "heads":
        reply = handle(filled("thumbnails", s, size=THUMB))
        scene = heads(steps(reply.arrays["thumbnails"] / 255), [selected])
        return _titled(scene, f"{card['name']}: {kind} of all heads")
    if drawing == "outcomes":
        top = looked["outcome"]["rows"][s["position"]]["top"][:BARS]
        return _titled(_bars(top), f"{card['name']}: the likeliest next tokens")
    try:
        reply = handle(filled("head", s))
        roots, causal = reply.arrays["pattern"], reply.header["mask"] == "causal"
        hidden = reply.arrays.get("masked", np.triu(np.full(roots.shape, causal), 1)) > 0
    except GlassformerError:  # too large to be sent as a whole
        reply = handle(filled("thumbnails", s, size=256))
        roots, hidden = reply.arrays["thumbnails"][selected], False
    rows, columns = ([one["label"].translate(BLANKS) for one in side] for side in sides(s, looked))
    scene = matrix(rows, columns, np.where(hidden, -1, steps(roots / 255).astype(int)))
    note = "rows: queries; columns: keys; each row sums to 1"
    return _titled(scene, f"{card['name']}: {kind}, layer {s['layer']} head {s['head']}", note)


def _titled(scene: Scene, title: str, note: str = "") -> Scene:
    """Return a scene with a title above and a note below."""
    left, top, _, bottom = scene.bounds
    words = [Text(left, top - 26, title, "ink", 18, "start")]
    words += [Text(left, bottom + 20, note, anchor="start")] * bool(note)
    return Scene([*scene, *words])


def _bars(top: Sequence[Mapping[str, Any]]) -> Scene:
    scene = Scene()
    for i, one in enumerate(top):
        y, long = i * ROW, max(1, round(BAR * one["p"] / top[0]["p"]))
        scene.append(Box(0, y - 9, long, 18, "s32"))
        scene.append(Text(-10, y, cut(one["label"].translate(BLANKS), 24), "ink", anchor="end"))
        scene.append(Text(long + 8, y, f"{one['p']:.3g}", anchor="start"))
    return scene
