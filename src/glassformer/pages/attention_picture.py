"""Cross-attention as a page: words by words in large, every layer and head over tokens in small."""

from collections.abc import Iterator, Sequence

import numpy as np

from glassformer.pages.attention_image import PairAttention, weight_text
from glassformer.pages.colours import TICKS, step, steps
from glassformer.pages.images import palette
from glassformer.pages.kit import (
    Html,
    cell,
    document,
    escape,
    figure,
    folded,
    image,
    legend,
    matrix,
    paragraph,
    spaced,
    table,
)

SIDEWAYS, DENSE = 12, 24
"""Source words from which names stand upright, and from which cells show no numbers."""


def attention_html(look: PairAttention, title: str) -> str:
    """A page of a pair's cross-attention: words, alignment, and the pattern of every head."""
    texts = (
        f"<dt>{side}</dt><dd><bdi>{escape(text)}</bdi></dd>"
        for side, text in zip(("source", "target"), look.texts, strict=True)
    )
    return document(title, f'<dl class="pair">{"".join(texts)}</dl>', _words(look), _heads(look))


def _words(look: PairAttention) -> str:
    """The table of words, its legend and the alignment."""
    if not look.aligned:
        return "<h2>Words</h2><p>There are no words to compare: a side of the pair is empty.</p>"
    layer = f"layer {look.layer}, the one before the last"
    about = (
        "Rows are target words, columns source words. A number is the share of attention that the "
        "source word got while the target word was predicted, the mean over the heads of "
        f"{layer if len(look.patterns) > 1 else 'the only layer'}. Attention to tokens of no word, "
        "such as the end of the source, is under “other”."
    )
    aligned = " ".join(f"<span>{source}-{target}</span>" for source, target in look.aligned)
    names, other = [*look.words[0], "other"], np.maximum(0, 1 - look.weights.sum(1, keepdims=True))
    weights = np.concatenate([look.weights, other], 1)
    numbers = (
        [word, *(f"{weight:.4f}" for weight in row)]
        for word, row in zip(look.words[1], weights, strict=True)
    )
    kind = "side " * (len(names) > SIDEWAYS) + "dense" * (len(names) > DENSE)
    ticks = ((step(tick), f"{tick:g}") for tick in TICKS)
    return (
        f"<h2>Words</h2>{paragraph(about)}"
        f"{matrix('Attention between words', '', names, _rows(look, weights), kind)}"
        f"{legend(ticks, 'share of attention', marked='largest of its row')}"
        f"{folded('The numbers to four digits', table('Attention', ['', *names], numbers))}"
        "<h2>Alignment</h2><p>Every target word with the source word that it attended to most, as "
        "source-target, counted from 0. Attention tells where the model looked, not what it took "
        f"from there.</p><code>{aligned}</code>"
    )


def _rows(look: PairAttention, weights: np.ndarray) -> Iterator[tuple[str, str]]:
    for t, (target, row) in enumerate(zip(look.words[1], weights.tolist(), strict=True)):
        cells = ""
        for s, source in enumerate(look.words[0]):
            best = (s, t) in look.aligned
            title = f"{source} → {target}: {row[s]:.4f}{', largest of its row' * best}"
            cells += cell(weight_text(row[s]), step(row[s]), title, marked=best)
        yield target, f'{cells}<td class="rest">{weight_text(row[-1])}</td>'


def _heads(look: PairAttention) -> str:
    """Small pictures, one for every head of every layer, over tokens."""
    layers, heads = look.patterns.shape[:2]
    grids = (
        f'<div class="grid" style="--columns:{heads}">'
        f"{''.join(_figure(look, layer, head) for head in range(heads))}</div>"
        for layer in range(layers)
    )
    source, target = map(_tokens, look.tokens)
    tokens = f"<p>target {target}</p><p>source {source}</p>"
    return (
        "<h2>Every layer and head</h2><p>The same over tokens: target tokens from top to bottom, "
        "each row the prediction of its token; source tokens from left to right. Below each "
        "picture stands its largest weight. The layer used above is outlined.</p>"
        f"{folded('The tokens in their order', tokens)}{''.join(grids)}"
    )


def _tokens(pieces: Sequence[str]) -> str:
    return " ".join(f'<span class="token">{spaced(piece)}</span>' for piece in pieces)


def _figure(look: PairAttention, layer: int, head: int) -> Html:
    pattern, (source, target) = look.patterns[layer, head], look.tokens
    row, column = map(int, np.unravel_index(pattern.argmax(), pattern.shape))
    label = f"layer {layer} · head {head}"
    strongest = f"{spaced(source[column])} → {spaced(target[row])} {weight_text(pattern.max())}"
    light, dark = (palette(steps(pattern), dark=dark) for dark in (False, True))
    shape = min(2.0, max(0.5, pattern.shape[1] / pattern.shape[0]))
    picture = image(f"Attention of {label}", light, dark, f' style="aspect-ratio:{shape:.3f}"')
    caption = Html(f"{label}<small>{strongest}</small>")
    return figure(caption, picture, "used" if layer == look.layer else "")
