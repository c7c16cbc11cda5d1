"""A text with its tagged words in colours: for a terminal, or as a page with each tag on hover.

Colours of the page have a contrast of at least 4.5:1, light and dark; weight or slant helps where
hues are near.
"""

from collections.abc import Iterator, Sequence

from glassformer.pages.kit import document, escape

PALETTE = (  # terminal (SGR), colour on a light and on a dark page, style of letters
    ("1;34", "#0b4fb3", "#7db8ff", "font-weight:600"),
    ("33", "#8a4b00", "#f0b35e", ""),
    ("1;35", "#8b1a8b", "#f09cf0", "font-weight:600"),
    ("36", "#00626b", "#5fd3dd", ""),
    ("32", "#1d6b1d", "#84d684", "font-style:italic"),
    ("34", "#3a45c4", "#a9b2ff", ""),
    ("0", "#1d2327", "#e4e7e9", ""),
    ("4", "#5a3e00", "#e2cfa0", "text-decoration:underline dotted"),
    ("35", "#a1205e", "#ff9cc8", ""),
    ("31", "#b3261e", "#ff9d94", "font-weight:600"),
    ("32", "#33691e", "#a5d66f", ""),
    ("2", "#5b656d", "#9aa5ad", "font-style:italic"),
    ("36", "#005f73", "#8fd8e8", ""),
)
PLAIN = frozenset({"operator", "layout", "O"})
"""Tags without a colour."""

Spans = Sequence[tuple[int, int]]


def styles(tags: Sequence[str]) -> dict[str, int]:
    """Index into the palette of each tag, in the order given; tags of `PLAIN` have none."""
    return {tag: i % len(PALETTE) for i, tag in enumerate(tag for tag in tags if tag not in PLAIN)}


def coloured(source: str, spans: Spans, tags: Sequence[str], names: Sequence[str]) -> str:
    """The text for a terminal, each word in the colour of its tag."""
    style = styles(names)
    parts = (
        part if tag not in style else f"\x1b[{PALETTE[style[tag]][0]}m{part}\x1b[0m"
        for part, tag in _parts(source, spans, tags)
    )
    return "".join(parts)


def legend(names: Sequence[str]) -> str:
    """The tags for a terminal, each in its colour."""
    return "  ".join(f"\x1b[{PALETTE[i][0]}m{tag}\x1b[0m" for tag, i in styles(names).items())


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
        f".t{i}{{color:light-dark({light},{dark});{shape}}}"
        for i, (_, light, dark, shape) in enumerate(PALETTE)
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
