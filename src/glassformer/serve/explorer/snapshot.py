"""A cell of a notebook without a kernel: a page with the answers to its first questions, over an
image for where scripts cannot run.

selection ──> questions of the schema ──> answers of the handler ──> one HTML file ──> a frame
"""

import base64
import html
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
from glassformer.serve.explorer.selection import Selection, filled, opened, questions, sides
from glassformer.serve.explorer.wire import text

LARGEST = 1 << 20
"""Bytes of answers in the copy of a page; the page says which are missing."""
FRAME = (
    '<div style="display:grid">'
    '<img src="data:image/png;base64,{png}" alt="{title}" style="grid-area:1/1;max-width:100%">'
    '<iframe title="{title}" sandbox="allow-scripts allow-forms allow-downloads" srcdoc="{page}" '
    'style="grid-area:1/1;z-index:1;width:100%;height:{height}px;border:0"></iframe></div>'
)
"""A page over an image, which remains where frames are removed; the page is sandboxed."""
BARS, BAR, ROW = 10, 420, 30
BLANKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})


def snapshot(explorer: Explorer, s: Selection, card: Mapping[str, Any]) -> str:
    """The selected page as an HTML file with the answers to its first questions.

    GlassformerError: the look of the selection has an error.
    """
    looked = explorer.handle(filled("look", s)).header
    state = opened(s, looked)
    asked = dict.fromkeys(map(text, questions(state, card, looked)))
    title = f"{card['name']} · glassformer"
    return explorer.document(state, asked, title, [s["page"]], LARGEST)[0]


def cell(page: str, png: bytes, title: str, height: int) -> str:
    """A page in a frame of that many pixels, for a cell of a notebook."""
    image, title = base64.b64encode(png).decode(), html.escape(title)
    return FRAME.format(png=image, title=title, page=html.escape(page), height=height)


def static_image(explorer: Explorer, look: Look, s: Selection, card: Mapping[str, Any]) -> Scene:
    """The picture that the selected page has in the schema: all heads, the likeliest outcomes, or
    the selected head."""
    looked = explorer.handle(filled("look", s)).header
    drawing = PAGES[s["page"]].get("drawing")
    if drawing == "heads":
        reply = explorer.handle(filled("thumbnails", s, size=THUMB))
        shades = steps(reply.arrays["thumbnails"] / 255)
        scene = heads(shades, [(s["layer"], s["head"])], "layer {} head {}".format)
        title = f"{s['site']}-attention of all heads"
    elif drawing == "outcomes":
        scene = _bars(looked["outcome"]["rows"][s["position"]]["top"][:BARS])
        title = "the likeliest next tokens"
    else:
        rows, columns = ([*map(_visible, side)] for side in sides(s, looked))
        place = {name: s[name] for name in ("layer", "head", "side", "site")}
        masked = look.scores(**place).isneginf().numpy()
        shades = weight_steps(look.pattern(**place).numpy()).astype(int)
        scene = matrix(rows, columns, np.where(masked, -1, shades))
        title = f"{s['site']}-attention, layer {s['layer']} head {s['head']}; rows are queries"
    left, top, *_ = scene.bounds
    return Scene([*scene, Text(left, top - 26, f"{card['name']}: {title}", "ink", 18, "start")])


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
