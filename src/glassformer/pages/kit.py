"""The kit of every page: document, templates, escape, tables, figures, images.

Builders return markup (`Html`). Everything else is text, and `escape` is the one way into a page,
also from the templates in `templates`, which call the builders by name.
"""

import html
import re
from collections.abc import Iterable, Sequence
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


def paragraph(text: object, kind: str = "about") -> Html:
    """A paragraph."""
    return Html(f'<p class="{kind}">{escape(text)}</p>')


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], kind: str = "rows"
) -> Html:
    """A table of text or markup; it scrolls by itself if it is wider than the page."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td dir=auto>{escape(value)}</td>' for value in row)}</tr>" for row in rows
    )
    return wide(
        f'<table class="{kind}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    )


def figure(caption: object, content: str, kind: str = "card") -> Html:
    """Content with a caption."""
    text = escape(caption)
    return Html(f'<figure class="{kind}"><figcaption>{text}</figcaption>{content}</figure>')


def folded(summary: str, content: str) -> Html:
    """Content to open."""
    return Html(f"<details><summary>{escape(summary)}</summary>{content}</details>")


def image(alt: str, source: str) -> Html:
    """Return an image by its address."""
    return Html(f'<img src="{source}" alt="{escape(alt)}">')


def cut(text: str, most: int) -> str:
    """Text of at most `most` characters and an ellipsis."""
    return f"{text[:most]}…" if len(text) > most else text


def spaced(text: str) -> Html:
    """A token with visible spaces and line breaks, in its own direction."""
    return Html(f"<bdi>{escape(text.translate(BLANKS)) or '·'}</bdi>")


def decimal(value: float) -> str:
    """Two digits: .87, -.05, 1.00."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}").replace("-.00", ".00")


def wide(content: str) -> Html:
    """Return content that scrolls if it is wider than the page."""
    return Html(f'<div class="wide">{content}</div>')


def render(name: str, **values: Any) -> Html:
    """Return a template of `templates` filled with values."""
    builders = (paragraph, table, figure, folded, image, spaced, decimal, wide)
    named = {builder.__name__: builder for builder in builders}
    return Html(_environment().get_template(f"{name}.html").render(named | values))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader

    folder = FileSystemLoader(Path(__file__).parent / "templates")
    return Environment(
        loader=folder, autoescape=True, finalize=escape, trim_blocks=True, lstrip_blocks=True
    )
