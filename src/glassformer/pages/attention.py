"""Cross-attention as a page and as a PNG: words by words large, every layer and head small."""

from pathlib import Path

import numpy as np

from glassformer.inspect.alignment import CrossAttention
from glassformer.pages.charts import heads, matrix
from glassformer.pages.images import write_png
from glassformer.pages.kit import decimal, document, render, weight_steps
from glassformer.pages.scene import Scene, Text

LARGEST = 3000
"""Most pixels of a side of the matrix of words; its cells shrink to fit."""
EMPTY = "There are no words to compare: a side of the pair is empty."


def attention_html(look: CrossAttention, title: str) -> str:
    """Return a page of a pair's cross-attention: words, alignment, the pattern of every head."""
    names, weights = _table(look)
    layer = f"layer {look.best_layer}, the one before the last"
    about = (
        "Rows are target words, columns source words. A number is the share of attention that the "
        "source word got while the target word was predicted, the mean over the heads of "
        f"{layer if len(look.patterns) > 1 else 'the only layer'}. Attention to tokens of no word, "
        "such as the end of the source, is under “other”. The largest of each row is ringed."
    )
    rows = zip(look.target.words, weights.tolist(), strict=True)
    body = render(
        "attention",
        look=look,
        about=about,
        head=["", *names],
        rows=([word, *(f"{weight:.4f}" for weight in row)] for word, row in rows),
        words=_word_scene(look).svg("Attention between words"),
        heads=_head_scene(look).svg("Attention of every layer and head"),
    )
    return document(title, body)


def attention_png(look: CrossAttention, path: Path) -> None:
    """Write the image of a pair's cross-attention; its ringed cells are the alignment.

    CheckpointError: the file cannot be written.
    """
    words = _word_scene(look)
    below = _head_scene(look, words.bounds[3] + 60)
    write_png(Scene([*words, *below]).image(scale=2), path)


def _weight(weight: float) -> str:
    """Two digits, as .43; a dot below half a hundredth."""
    return "·" if weight < 0.005 else decimal(weight)


def _table(look: CrossAttention) -> tuple[list[str], np.ndarray]:
    """Return the columns of the matrix and its weights, the last those of tokens of no word."""
    words = look.words().double().numpy()
    return [*look.source.words, "other"], np.c_[words, np.maximum(0, 1 - words.sum(1))]


def _word_scene(look: CrossAttention) -> Scene:
    names, weights = _table(look)
    pairs = {(t, s) for s, t in look.align()}
    if not pairs:
        return Scene([Text(0, 0, EMPTY)])

    def about(t: int, s: int) -> tuple[str, str]:
        weight, best = weights[t, s], ", largest of its row" * ((t, s) in pairs)
        return _weight(weight), f"{names[s]} → {look.target.words[t]}: {weight:.4f}{best}"

    steps = weight_steps(weights)
    return matrix(look.target.words, names, steps, about=about, marked=pairs, side=LARGEST)


def _head_scene(look: CrossAttention, top: float = 0) -> Scene:
    patterns = look.patterns.double().numpy()

    def title(layer: int, head: int) -> str:
        pattern = patterns[layer, head]
        row, column = map(int, np.unravel_index(pattern.argmax(), pattern.shape))
        pair = f"{look.source.pieces[column]} → {look.target.pieces[row]}"
        return f"layer {layer} · head {head}: at most {_weight(pattern.max())}, {pair}"

    best = [(look.best_layer, head) for head in range(patterns.shape[1])]
    return heads(weight_steps(patterns), best, title, top)
