"""A copy of a page without a kernel or network: page, selection, answers to its first questions.

selection ──> questions of the schema ──> answers of the handler ──> one HTML file
    ──> a frame in a notebook
"""

import base64
import html
import sys
from collections.abc import Sequence
from typing import Any

from glassformer.errors import ConfigError
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.page import document
from glassformer.serve.explorer.schema import ARGUMENTS
from glassformer.serve.explorer.selection import Selection, filled, opened, questions
from glassformer.serve.explorer.wire import Reply, text

LARGEST = 1 << 20
"""Bytes of answers in the copy of one page; the page says which are missing."""
FRAME = (
    '<div style="display:grid">'
    '<img src="data:image/png;base64,{png}" alt="{title}" style="grid-area:1/1;max-width:100%">'
    '<iframe title="{title}" sandbox="allow-scripts allow-forms allow-downloads" srcdoc="{page}" '
    'style="grid-area:1/1;z-index:1;width:100%;height:{height}px;border:0"></iframe></div>'
)
"""A page over an image, which remains where frames are removed; the page is sandboxed."""


def snapshot(
    explorer: Explorer, s: Selection, more: Sequence[dict[str, Any]] = (), *, alone: bool = False
) -> bytes:
    """The selected page as an HTML file with the answers to its first questions and to `more`;
    `alone`: no other page.

    GlassformerError: the look of the selection has an error.
    """
    card = explorer.handle({"op": "model"}).header
    looked = explorer.handle(filled("look", s)).header
    state, room = opened(s, looked), LARGEST if alone else sys.maxsize

    def limited(request: Any) -> Reply:
        nonlocal room
        reply = explorer.handle(request)
        room -= sum(array.nbytes for array in reply.arrays.values())
        if room < 0:
            raise ConfigError(
                "The answers are too large for a cell; open the run with `glassformer inspect`."
            )
        return reply

    wanted = list(dict.fromkeys(map(text, [*questions(state, card, looked), *more])))
    wanted = wanted[: ARGUMENTS["document.questions"]["maxItems"]]
    title, pages = f"{card['name']} · glassformer", [s["page"]] if alone else []
    reply = document(limited, explorer.stream, state, wanted, title, pages)
    return reply.arrays["html"].tobytes()


def cell(page: str, png: bytes, title: str, height: int) -> str:
    """A page in a frame of that many pixels, for a cell of a notebook."""
    image, title = base64.b64encode(png).decode(), html.escape(title)
    return FRAME.format(png=image, title=title, page=html.escape(page), height=height)
