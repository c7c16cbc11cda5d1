"""One word in several sentences as a page: similarity of its vectors through the layers.

sentences  -> numbered, the word marked
curve      -> similarity of the occurrences through the layers
layers     -> a map of the occurrences, and every similarity as a number
"""

import math

import numpy as np

from glassformer.core.errors import ConfigError, amount
from glassformer.inspect.contextual import Contexts
from glassformer.pages.charts import line_chart, matrix, scatter
from glassformer.pages.kit import Html, decimal, document, render, steps

MOST = 64
"""Most occurrences of a page."""
CAPTION = (
    "Cosine similarity after each layer: mean of all pairs (thick), the least and the most similar "
    "two (thin)"
)


def contexts_html(look: Contexts, title: str) -> str:
    """A page on a word's occurrences; ConfigError for more than MOST."""
    n = len(look.occurrences)
    if n > MOST:
        raise ConfigError(f"{n} occurrences are too many for a page; give at most {MOST}.")
    # the least similarity, rounded down to a tenth
    low = min(0.9, math.floor(look.similarities.min() * 10) / 10)
    points, shares = look.maps()
    places = points / max(1e-9, np.abs(points).max())
    layers = zip(look.similarities, look.pairs.mean(1), places, shares, strict=True)
    cards = [_card(i, low, *layer) for i, layer in enumerate(layers)]
    summary, pairs = f"{_summary(look)} The model is {title}.", look.pairs.round(6)
    lines = {"mean": pairs.mean(1), "least": pairs.min(1), "most": pairs.max(1)}
    curves = {name: [*enumerate(line.tolist())] for name, line in lines.items()}
    curve = line_chart(CAPTION, curves, "mean")
    body = render("word_contexts", look=look, cards=cards, summary=summary, curve=curve, low=low)
    return document(f"“{look.word}” in {n} contexts", body)


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
        f"{amount(len(look.similarities) - 1, 'layer')} the mean is {decimal(last.mean())}."
        f"{sees if look.causal else ''}"
    )


def _card(
    layer: int, low: float, table: np.ndarray, mean: float, points: np.ndarray, share: float
) -> tuple[str, str, Html, Html]:
    """Return title, summary, map and similarities of a layer."""
    title = f"Layer {layer}" if layer else "Layer 0, static"
    spread = f"{share:.0%} of the spread is in this plane." if points.any() else "All in one place."
    names, shades = [str(i + 1) for i in range(len(table))], steps((table - low) / (1 - low))
    similarities = matrix(
        names,
        names,
        shades,
        about=lambda i, j: (decimal(table[i, j]), f"{i + 1} and {j + 1}: {table[i, j]:.4f}"),
    )
    drawing = similarities.svg(f"{title}: cosine similarities")
    summary = f"Mean similarity {decimal(mean)}. {spread}"
    return title, summary, scatter(points, f"{title}: map"), drawing
