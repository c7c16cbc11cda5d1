"""The kit of every page: document, templates, escape, colours.

Markup is `Html`. Everything else is text, and `escape` is the one way into a page, also from the
templates in `templates`, which share the macros of `kit.html`: tables, figures, images.

Colours are those of the style sheets. A weight becomes one of 33 steps of a ramp (`shades.css`) of
one hue, so that more is always further from the page. Source: Ottosson, A perceptual color space
for image processing, 2020 (OKLab).
"""

import html
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup as Html

from glassformer.core.errors import printable

if TYPE_CHECKING:
    from jinja2 import Environment

SHEET = "".join(
    Path(__file__).with_name(name).read_text("utf-8") for name in ("style.css", "shades.css")
)
"""Style sheets of every page."""
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", SHEET)
}
"""Colours by name on a light and a dark page: ink, soft, ..., the shades s0 to s32, and the text on
each shade, t0 to t32."""
STEPS = 33
STYLE = re.sub(r"/\*.*?\*/|\n\s*", "", SHEET)

BLANKS = str.maketrans(" \n", "␣⏎")


def escape(value: object) -> Html:
    """Text as markup: special characters as entities, control characters as visible symbols."""
    return value if isinstance(value, Html) else Html(html.escape(printable(str(value))))


def document(title: str, *body: str) -> str:
    """A page with its title as heading and the style sheet."""
    name = escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="generator" content="glassformer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{name}</h1>{''.join(body)}</main></body></html>\n"
    )


def cut(text: str, most: int) -> str:
    """Text of at most `most` characters and an ellipsis."""
    return f"{text[:most]}…" if len(text) > most else text


def show_blanks(text: str) -> Html:
    """A token with visible spaces and line breaks, in its own direction."""
    return Html(f"<bdi>{escape(text.translate(BLANKS)) or '·'}</bdi>")


def decimal(value: float) -> str:
    """Two digits: .87, -.05, 1.00."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}").replace("-.00", ".00")


def render(name: str, **values: Any) -> Html:
    """Return a template of `templates` filled with values."""
    forms = {"show_blanks": show_blanks, "decimal": decimal}
    return Html(_environment().get_template(f"{name}.html").render(forms | values))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader

    folder = FileSystemLoader(Path(__file__).parent / "templates")
    return Environment(
        loader=folder, autoescape=True, finalize=escape, trim_blocks=True, lstrip_blocks=True
    )


def steps(shares: np.ndarray | float) -> np.ndarray:
    """Return the step of each share between 0 and 1, uint8."""
    return np.rint(np.clip(shares, 0, 1) * (STEPS - 1)).astype(np.uint8)


def weight_steps(weights: np.ndarray | float) -> np.ndarray:
    """Return the step of each weight on a scale of square roots, since most weights are small."""
    return steps(np.sqrt(weights))


def ramp(*, dark: bool) -> np.ndarray:
    """Return the shades of a theme from that of 0 to that of 1, uint8 [STEPS, 3]."""
    shades = bytes.fromhex("".join(COLOURS[f"s{step}"][dark][1:] for step in range(STEPS)))
    return np.frombuffer(shades, np.uint8).reshape(STEPS, 3)
