"""One word in several sentences as a readable HTML page: how its vectors move apart, layer by
layer.

    sentences    numbered, the word marked
    curve        the similarity of every two occurrences through the layers
    layers       a small picture of each: where the occurrences lie, and every similarity as a number

Nothing is loaded from anywhere and nothing is scripted; it is light or dark as the reader's system
is.
"""

import math
from html import escape

import numpy as np

from glassformer.errors import ConfigError, counted
from glassformer.inspect import ramp
from glassformer.inspect.contextual import Contexts, Occurrence
from glassformer.inspect.picture import STYLE as PAGE
from glassformer.inspect.wordmap import dots_svg

STYLE = """
ol { list-style: none; margin: 1.2rem 0 0; padding: 0; }
ol li { display: grid; grid-template-columns: 2.2rem 1fr; gap: .6rem; padding: .28rem 0; overflow-wrap: anywhere; }
.n { display: inline-block; min-width: 1.7rem; height: 1.7rem; padding: 0 .3rem; border-radius: .85rem;
  background: var(--mark); color: var(--card); font: 600 .85rem/1.7rem system-ui, sans-serif; text-align: center;
  justify-self: start; }
mark { background: none; color: var(--mark); font-weight: 650; border-bottom: 2px solid var(--mark); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .strong { fill: var(--ink); font-weight: 600; }
.curve { max-width: 46rem; min-width: 32rem; }
.rule { stroke: var(--line); } .pair { fill: none; stroke: var(--soft); stroke-opacity: .35; }
.mean { fill: none; stroke: var(--mark); stroke-width: 3; } .dot { fill: var(--mark); }
.cards { display: grid; gap: 1.2rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--card-width)), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1rem 1rem;
  margin: 0; min-width: 0; }
.card h3 { font-weight: 600; font-size: 1rem; margin: 0; } .card p { font-size: .875rem; margin: .1rem 0 .6rem; }
.card .wide { padding: .2rem; margin: .6rem -.2rem 0; }
.map { background: var(--paper); border-radius: .4rem; max-width: 26rem; margin: 0 auto; }
.map rect { fill: var(--mark); } .map text { fill: var(--card); font-weight: 600; text-anchor: middle; }
.map .small { fill: var(--ink); font: 10px system-ui, sans-serif; text-anchor: start; }
.card table { border-spacing: 2px; margin: 0 auto; }
.card td { min-width: 2.5rem; height: 2rem; font-size: .8125rem; border-radius: .25rem; }
.card th { padding: 0 .35rem; text-align: center; font-size: .8125rem; color: var(--soft); }
.card caption { text-align: left; font-size: .8125rem; color: var(--soft); padding-bottom: .3rem; }
.many td { min-width: .9rem; width: .9rem; height: .9rem; font-size: 0; border-radius: .1rem; }
.many th { font-size: .625rem; padding: 0 .1rem; }
"""

MOST = 64
NUMBERED = 12
"""From more occurrences on, a cell shows its number only when asked, and dots of the map are
small."""
LINES = 28
"""From more occurrences on, the curve of each two is not drawn, but the least and the most."""


def contexts_html(look: Contexts, title: str) -> str:
    """A self-contained HTML document of a word's occurrences; ConfigError for more than MOST."""
    if len(look.occurrences) > MOST:
        raise ConfigError(
            f"{len(look.occurrences)} occurrences are too many for a picture; give at most {MOST}."
        )
    name = f"“{escape(look.word)}” in {len(look.occurrences)} contexts"
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{PAGE}{STYLE}{_shades(dark=False)}"
        f"@media (prefers-color-scheme: dark){{{_shades(dark=True)}}}</style></head>"
    )
    sentences = "".join(_sentence(number, one) for number, one in enumerate(look.occurrences, 1))
    intro = f"<h1>{name}</h1><p>{_said(look)} The model is {escape(title)}.</p><ol>{sentences}</ol>"
    return f"{head}<body><main>{intro}{_curve(look)}{_cards(look)}</main></body></html>\n"


def _shades(*, dark: bool) -> str:
    shades = ramp.ramp(dark=dark)
    return "".join(
        f".s{i}{{background:{ramp.css(c)};color:{ramp.css(ramp.ink(c))}}}"
        for i, c in enumerate(shades)
    )


def _sentence(number: int, one: Occurrence) -> str:
    before, word, after = (
        escape(part)
        for part in (one.text[: one.begin], one.text[one.begin : one.end], one.text[one.end :])
    )
    return f'<li><span class="n">{number}</span><bdi>{before}<mark>{word}</mark>{after}</bdi></li>'


def _said(look: Contexts) -> str:
    """What there is to see, in words."""
    first, last = look.pairs(0).mean(), look.pairs(-1).mean()
    static = "Before the first layer the word has one vector, whatever stands around it"
    if look.pairs(0).min() < 1 - 1e-3:
        spelled = " and ".join(
            sorted({"·".join(one.pieces).replace(" ", "␣") for one in look.occurrences})
        )
        static = (
            f"The word is not the same tokens everywhere ({escape(spelled)}), so that it "
            f"begins with several vectors"
        )
    sees = (
        " This model reads from left to right: only what stands before the word can change it."
        if look.causal
        else ""
    )
    return (
        f"{static}: a mean similarity of {_number(first)}. After "
        f"{counted(len(look.vectors) - 1, 'layer')} of "
        f"attention each context has made its own of it: {_number(last)}.{sees}"
    )


def _curve(look: Contexts) -> str:
    """Similarity through the layers: every two occurrences thin, their mean strong and with
    numbers."""
    values = np.stack([look.pairs(layer) for layer in range(len(look.vectors))])
    low, width, height = _lowest(look), 640, 240
    step = width / max(1, len(values) - 1)

    def y(value: float) -> float:
        return height * (1 - (value - low) / (1 - low))

    def path(line: np.ndarray) -> str:
        return " ".join(f"{i * step:.1f},{y(value):.1f}" for i, value in enumerate(line))

    ticks = np.linspace(low, 1, 5)
    rules = "".join(
        f'<line class="rule" x1="0" x2="{width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text x="-10" y="{y(tick) + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        for tick in ticks
    )
    several = (
        values.T if len(look.occurrences) <= LINES else np.stack([values.min(1), values.max(1)])
    )
    thin = "".join(f'<polyline class="pair" points="{path(line)}"/>' for line in several)
    mean = values.mean(1)
    every = math.ceil(len(values) / 13)
    dots = "".join(
        f'<circle class="dot" cx="{i * step:.1f}" cy="{y(value):.1f}" r="4.5"/>'
        for i, value in enumerate(mean)
    )
    words = "".join(
        f'<text class="strong" x="{i * step:.1f}" '
        f'y="{y(mean[i]) - 12:.1f}">{_number(mean[i])}</text>'
        f'<text x="{i * step:.1f}" y="{height + 22}">{i or "static"}</text>'
        for i in range(0, len(mean), every)
    )
    told = ", ".join(f"layer {i} {_number(value)}" for i, value in enumerate(mean))
    thin_is = (
        "each two occurrences"
        if len(look.occurrences) <= LINES
        else "the least and the most alike two"
    )
    return (
        "<h2>Through the layers</h2><p>How alike the word's vectors are, after each layer: the "
        "strong line is the mean "
        f"of all pairs, thin lines are {thin_is}.</p>"
        f'<div class="wide"><svg class="curve" viewBox="-48 -24 {width + 72} {height + 56}" '
        f'role="img" '
        f'aria-label="Mean similarity: {told}">{rules}{thin}'
        f'<polyline class="mean" points="{path(mean)}"/>{dots}<g '
        f'text-anchor="middle">{words}</g></svg></div>'
    )


def _cards(look: Contexts) -> str:
    """The section of the small pictures."""
    low = _lowest(look)
    points, shares = look.maps()
    radius = max(1e-9, float(np.abs(points).max()))
    cards = "".join(
        _card(layer, table, points[layer] / radius, float(shares[layer]), low)
        for layer, table in enumerate(look.similarities)
    )
    n = len(look.occurrences)
    width = max(17.5, 2.65 * n + 5) if n <= NUMBERED else max(24, 1.03 * n + 3.6)
    steps = [low + (1 - low) * share for share in (0, 0.25, 0.5, 0.75, 1)]
    legend = "".join(f'<b class="s{_step(value, low)}">{_number(value)}</b>' for value in steps)
    return (
        "<h2>Layer by layer</h2><p>Where the occurrences lie: the plane in which they are "
        "spread most (their principal "
        "components), at one scale for all layers, so that a larger distance is a smaller "
        "similarity. Below it the "
        "cosine similarity of every two; 1 is the same direction.</p>"
        f'<div class="legend">{legend}<span>similarity</span></div>'
        f'<div class="cards" style="--card-width:{width:.1f}rem">{cards}</div>'
    )


def _card(layer: int, table: np.ndarray, points: np.ndarray, share: float, low: float) -> str:
    title = f"Layer {layer}" if layer else "Layer 0, static"
    shown = (
        f"{share:.0%} of the spread is in this plane."
        if np.abs(points).max() > 0
        else "All in one place."
    )
    numbers = range(1, len(table) + 1)
    head = "".join(f'<th scope="col">{number}</th>' for number in numbers)
    rows = "".join(
        f'<tr><th scope="row">{i}</th>'
        + "".join(
            f'<td class="s{_step(value, low)}" title="{i} and {j}: '
            f'{value:.4f}">{_number(value)}</td>'
            for j, value in zip(numbers, row, strict=True)
        )
        + "</tr>"
        for i, row in zip(numbers, table, strict=True)
    )
    dots = dots_svg(points, title, few=len(table) <= NUMBERED)
    kind = ' class="many"' if len(table) > NUMBERED else ""
    return (
        f'<section class="card"><h3>{title}</h3><p>{shown}</p>{dots}<div class="wide"><table{kind}>'
        f"<caption>Cosine similarities, "
        f"{title.lower()}</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _lowest(look: Contexts) -> float:
    """Where the scale of colours begins: the least similarity, rounded down to a tenth, at most
    .9."""
    return min(0.9, math.floor(float(look.similarities.min()) * 10) / 10)


def _step(value: float, low: float) -> int:
    return round(min(1.0, max(0.0, (value - low) / (1 - low))) * (ramp.STEPS - 1))


def _number(value: float) -> str:
    """Two digits, as .87, -.05 and 1.00."""
    return (
        f"{value:.2f}".replace("-0.00", "0.00").replace("0.", ".", 1)
        if abs(value) < 0.995
        else f"{value:.2f}"
    )
