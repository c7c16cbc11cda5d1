"""The kit of every page: document, escape, tables, matrices, figures, images, sounds.

Builders return markup (`Html`). Everything else is text, and `escape` is the one way into a page.
"""

import html
import re
from collections.abc import Iterable, Sequence

from glassformer.errors import printable
from glassformer.pages.tables import read_file

STYLE = re.sub(r"/\*.*?\*/|\n\s*", "", read_file("style.css") + read_file("shades.css"))

BLANKS = str.maketrans(" \n", "␣⏎")


class Html(str):
    """Markup: `escape` returns it unchanged."""


def escape(value: object) -> Html:
    """Text as markup: special characters as entities, control characters as visible symbols."""
    return value if isinstance(value, Html) else Html(html.escape(printable(str(value))))


def document(title: str, *body: str, style: str = "") -> str:
    """A page with its title as heading, the style sheet and rules of its own."""
    name = escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="generator" content="glassformer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}{style}</style></head>"
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
    return _wide(caption, names, body, kind)


def matrix(
    caption: str,
    corner: str,
    columns: Sequence[str],
    rows: Iterable[tuple[str, Iterable[str]]],
    kind: str,
) -> Html:
    """A table of shaded `cell`s between the names of its rows and columns."""
    names = "".join(_heading("col", name) for name in columns)
    body = "".join(f"<tr>{_heading('row', name)}{''.join(cells)}</tr>" for name, cells in rows)
    return _wide(caption, f"<th>{escape(corner)}</th>{names}", body, f"matrix {kind}")


def cell(text: str, step: int, title: str, marked: bool = False) -> str:
    """A cell of a matrix in a shade of the ramp; `title` is shown on hover."""
    mark = " marked" if marked else ""
    return f'<td class="s{step}{mark}" title="{escape(title)}">{escape(text)}</td>'


def legend(shades: Iterable[tuple[int, str]], text: str, marked: str = "") -> Html:
    """Shades by name, and the meaning of a marked cell."""
    shown = "".join(f'<b class="s{step}">{escape(name)}</b>' for step, name in shades)
    ring = f'<span class="marked">ringed</span>{escape(marked)}' if marked else ""
    return Html(f'<div class="legend">{shown}<span>{escape(text)}</span>{ring}</div>')


def figure(caption: object, content: str, kind: str = "card") -> Html:
    """Content with a caption."""
    text = escape(caption)
    return Html(f'<figure class="{kind}"><figcaption>{text}</figcaption>{content}</figure>')


def folded(summary: str, content: str) -> Html:
    """Content to open."""
    return Html(f"<details><summary>{escape(summary)}</summary>{content}</details>")


def image(alt: str, light: str, dark: str = "", attributes: str = "") -> Html:
    """An image by its address, and by another one on dark pages."""
    source = f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">' if dark else ""
    shown = f'<img src="{light}" alt="{escape(alt)}"{attributes}>'
    return Html(f"<picture>{source}{shown}</picture>" if dark else shown)


def cut(text: str, most: int) -> str:
    """Text of at most `most` characters and an ellipsis."""
    return f"{text[:most]}…" if len(text) > most else text


def spaced(text: str) -> Html:
    """A token with visible spaces and line breaks, in its own direction."""
    return Html(f"<bdi>{escape(text.translate(BLANKS)) or '·'}</bdi>")


def decimal(value: float) -> str:
    """Two digits: .87, -.05, 1.00."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}").replace("-.00", ".00")


def _heading(scope: str, name: str) -> str:
    return f'<th scope="{scope}" title="{escape(name)}"><bdi>{escape(name)}</bdi></th>'


def _wide(caption: str, head: str, body: str, kind: str) -> Html:
    top = f"<thead><tr>{head}</tr></thead>"
    return Html(
        f'<div class="wide"><table class="{kind}"><caption>{escape(caption)}</caption>'
        f"{top}<tbody>{body}</tbody></table></div>"
    )
