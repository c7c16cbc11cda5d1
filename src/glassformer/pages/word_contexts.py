"""One word in several sentences as a page: similarity of its vectors through the layers.

sentences    numbered, the word marked
curve        similarity of each two occurrences through the layers
layers       for each, where the occurrences lie, and every similarity as a number
"""

import math

import numpy as np

from glassformer.errors import ConfigError, counted
from glassformer.inspect.contextual import Contexts, Occurrence
from glassformer.pages.charts import Axes, scatter, ticks
from glassformer.pages.colours import linear_step
from glassformer.pages.kit import (
    Html,
    cell,
    decimal,
    document,
    escape,
    figure,
    legend,
    matrix,
    paragraph,
)

MOST = 64
"""Most occurrences of a page."""
NUMBERED = 12
"""Most occurrences whose similarities are printed in cells and whose dots are large."""
LINES = 28
"""Most occurrences with a curve for each two; of more, the least and the most are drawn."""


def contexts_html(look: Contexts, title: str) -> str:
    """A page on a word's occurrences; ConfigError for more than MOST."""
    n = len(look.occurrences)
    if n > MOST:
        raise ConfigError(f"{n} occurrences are too many for a page; give at most {MOST}.")
    sentences = "".join(map(_sentence, look.occurrences))
    return document(
        f"“{look.word}” in {n} contexts",
        paragraph(f"{_summary(look)} The model is {title}."),
        f'<ol class="sentences">{sentences}</ol>',
        _curve(look),
        _cards(look),
    )


def _sentence(one: Occurrence) -> str:
    before, word, after = (
        escape(one.text[part])
        for part in (slice(one.begin), slice(one.begin, one.end), slice(one.end, None))
    )
    return f"<li><bdi>{before}<mark>{word}</mark>{after}</bdi></li>"


def _summary(look: Contexts) -> str:
    """Mean similarity before and after the layers, in words."""
    first, last = look.pairs[0], look.pairs[-1]
    static = "Before the first layer the word has one vector, whatever stands around it"
    if first.min() < 1 - 1e-3:
        spelled = {"·".join(one.pieces).replace(" ", "␣") for one in look.occurrences}
        static = (
            f"The word is not the same tokens everywhere ({' and '.join(sorted(spelled))}), so "
            "that it begins with several vectors"
        )
    sees = " This model reads from left to right: only text before the word can change it."
    return (
        f"{static}: a mean similarity of {decimal(first.mean())}. After "
        f"{counted(len(look.similarities) - 1, 'layer')} the mean is {decimal(last.mean())}."
        f"{sees if look.causal else ''}"
    )


def _curve(look: Contexts) -> str:
    """Similarity through the layers: each two occurrences thin, their mean thick with numbers."""
    values, low = look.pairs, _lowest(look)
    mean, few = values.mean(1), len(look.occurrences) <= LINES
    axes = Axes((0, max(1, len(values) - 1)), (low, 1))
    for line in values.T if few else (values.min(1), values.max(1)):
        axes.line(enumerate(line), "faint")
    axes.line(enumerate(mean), "thick")
    axes.dots(enumerate(mean), lambda layer, value: f"layer {layer}: {value:.4f}")
    names = [(i, str(i or "static")) for i in range(0, len(mean), math.ceil(len(mean) / 13))]
    for i, _ in names:
        axes.text(i, mean[i], decimal(mean[i]), "strong", up=12)
    told = ", ".join(f"layer {i} {decimal(value)}" for i, value in enumerate(mean))
    thin = "each two occurrences" if few else "the least and the most similar two"
    caption = f"Cosine similarity after each layer: mean of all pairs (thick), {thin} (thin)"
    chart = axes.svg(f"Mean similarity: {told}", names, ticks(low, 1))
    return f"<h2>Through the layers</h2>{figure(caption, chart)}"


def _cards(look: Contexts) -> str:
    """A card for each layer: its map and its similarities."""
    low, (points, shares) = _lowest(look), look.maps()
    places = points / max(1e-9, float(np.abs(points).max()))
    layers = zip(look.similarities, places, shares, strict=True)
    cards = "".join(_card(i, *layer, low) for i, layer in enumerate(layers))
    n = len(look.occurrences)
    width = max(17.5, 2.65 * n + 5) if n <= NUMBERED else max(24, 1.03 * n + 3.6)
    shades = ((linear_step(i / 4), decimal(low + (1 - low) * i / 4)) for i in range(5))
    return (
        "<h2>Layer by layer</h2><p>Each map is the plane in which the occurrences are spread most "
        "(their principal components), at one scale for all layers, so that a larger distance is a "
        "smaller similarity. Below it is the cosine similarity of each two; 1 is the same "
        f"direction.</p>{legend(shades, 'similarity')}"
        f'<div class="cards" style="--least:{width:.1f}rem">{cards}</div>'
    )


def _card(layer: int, table: np.ndarray, points: np.ndarray, share: float, low: float) -> str:
    title, few = f"Layer {layer}" if layer else "Layer 0, static", len(table) <= NUMBERED
    spread = f"{share:.0%} of the spread is in this plane." if points.any() else "All in one place."
    numbers = [str(i + 1) for i in range(len(table))]
    rows = (
        (i, [_similarity(i, j, value, low) for j, value in zip(numbers, row, strict=True)])
        for i, row in zip(numbers, table, strict=True)
    )
    similarities = matrix("Cosine similarities", "", numbers, rows, "few" if few else "many")
    return Html(
        f'<section class="card"><h3>{title}</h3>{paragraph(spread)}'
        f"{scatter(points, title, few=few)}{similarities}</section>"
    )


def _similarity(i: str, j: str, value: float, low: float) -> str:
    return cell(decimal(value), linear_step((value - low) / (1 - low)), f"{i} and {j}: {value:.4f}")


def _lowest(look: Contexts) -> float:
    """Lower end of the scale: the least similarity, rounded down to a tenth, at most .9."""
    return min(0.9, math.floor(float(look.similarities.min()) * 10) / 10)
