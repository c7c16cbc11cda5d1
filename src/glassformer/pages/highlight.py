"""A text with its tagged words in colours: for a terminal, or as a page with each tag on hover.

Colours of the page have a contrast of at least 4.5:1, light and dark; weight or slant helps where
hues are near.
"""

from collections.abc import Iterator, Sequence

from glassformer.pages.kit import document, escape
from glassformer.pages.tables import read_table

PALETTE = read_table("tags.tsv")
"""Styles of tags: SGR parameters of a terminal, colour on a light and a dark page, CSS."""
PLAIN = frozenset({"operator", "layout", "O"})
"""Tags without a colour."""

Spans = Sequence[tuple[int, int]]


def styles(tags: Sequence[str]) -> dict[str, int]:
    """Index into the palette of each tag, in the order given; tags of `PLAIN` have none."""
    coloured = (tag for tag in tags if tag not in PLAIN)
    return {tag: i % len(PALETTE) for i, tag in enumerate(coloured)}


def coloured(source: str, spans: Spans, tags: Sequence[str], names: Sequence[str]) -> str:
    """The text for a terminal, each word in the colour of its tag."""
    style = styles(names)
    return "".join(
        part if tag not in style else f"\x1b[{PALETTE[style[tag]]['terminal']}m{part}\x1b[0m"
        for part, tag in _parts(source, spans, tags)
    )


def legend(names: Sequence[str]) -> str:
    """The tags for a terminal, each in its colour."""
    return "  ".join(
        f"\x1b[{PALETTE[i]['terminal']}m{tag}\x1b[0m" for tag, i in styles(names).items()
    )


def highlight_html(
    source: str, spans: Spans, tags: Sequence[str], names: Sequence[str], title: str
) -> str:
    """A page of the text in colours, with a legend and the tag of each word on hover."""
    style = styles(names)
    body = "".join(
        escape(part)
        if tag not in style
        else f'<span class="t{style[tag]}" title="{escape(tag)}">{escape(part)}</span>'
        for part, tag in _parts(source, spans, tags)
    )
    key = " ".join(f'<span class="t{i}">{escape(tag)}</span>' for tag, i in style.items())
    rules = "".join(
        f".t{i}{{color:light-dark({style['light']},{style['dark']});{style['letters']}}}"
        for i, style in enumerate(PALETTE)
    )
    return document(title, f'<p class="key">{key}</p><pre>{body}</pre>', style=rules)


def _parts(source: str, spans: Spans, tags: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The text in pieces: words with their tags, and text between them with the tag ""."""
    at = 0
    for (start, end), tag in zip(spans, tags, strict=True):
        if start > at:
            yield source[at:start], ""
        if end > start:
            yield source[start:end], tag
        at = max(at, end)
    yield source[at:], ""
