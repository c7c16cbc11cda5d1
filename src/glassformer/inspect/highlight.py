"""A text with its tagged words in colours: for a terminal, or as an HTML page that names every tag
on hover.

Colours of the page keep a contrast of at least 4.5:1 on their ground, light and dark, and weight or
slant helps where hues are near.
"""

from collections.abc import Iterator, Sequence
from html import escape

PALETTE = (  # for a terminal (SGR), on light and on dark ground, and how letters are shaped
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
"""Tags that leave a word as it is."""

Spans = Sequence[tuple[int, int]]


def styles(tags: Sequence[str]) -> dict[str, int]:
    """The place in the palette of each tag, in the order given; those of `PLAIN` have none."""
    return {tag: i % len(PALETTE) for i, tag in enumerate(tag for tag in tags if tag not in PLAIN)}


def coloured(source: str, spans: Spans, tags: Sequence[str], names: Sequence[str]) -> str:
    """The text with escape sequences that colour each word by its tag."""
    style = styles(names)
    parts = (
        part if tag not in style else f"\x1b[{PALETTE[style[tag]][0]}m{part}\x1b[0m"
        for part, tag in _parts(source, spans, tags)
    )
    return "".join(parts)


def legend(names: Sequence[str]) -> str:
    """The tags, each in its own colour."""
    return "  ".join(f"\x1b[{PALETTE[i][0]}m{tag}\x1b[0m" for tag, i in styles(names).items())


def page(source: str, spans: Spans, tags: Sequence[str], names: Sequence[str], title: str) -> str:
    """A self-contained page: the text in colours, light or dark as the reader's system is, with a
    legend."""
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
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{escape(title)}</title><style>'
        ":root{color-scheme:light dark}"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2.5rem auto;padding:0 1rem;"
        "color:light-dark(#1d2327,#e4e7e9);background:light-dark(#fdfdfc,#14181a)}"
        "pre{font:14px/1.6 "
        "ui-monospace,Menlo,monospace;overflow-x:auto;padding:1rem;border-radius:10px;"
        "border:1px solid light-dark(#d9dee5,#333b47)}"
        f".key "
        f"span{{margin-right:1rem}}h1{{font-size:1.4rem;overflow-wrap:anywhere}}{rules}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="key">{key}</p><pre>{body}</pre></body></html>\n'
    )


def _parts(source: str, spans: Spans, tags: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The text in pieces: words with their tags, and what stands between them with none."""
    at = 0
    for (start, end), tag in zip(spans, tags, strict=True):
        if start > at:
            yield source[at:start], ""
        if end > start:
            yield source[start:end], tag
        at = max(at, end)
    yield source[at:], ""
