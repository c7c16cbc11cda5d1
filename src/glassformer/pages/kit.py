"""The kit of every page: document, templates, escape.

Markup is `Html`. Everything else is text, and `escape` is the one way into a page, also from the
templates in `templates`, which share the macros of `kit.html`: tables, figures, images.
"""

import html
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup as Html

from glassformer.core.errors import printable
from glassformer.pages.colours import SHEET

if TYPE_CHECKING:
    from jinja2 import Environment

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
