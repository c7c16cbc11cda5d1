"""Where the notes disagree: every reading is reached through its named choice and held against the
reference.

Whole tiny models run in float64 under the choice.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from glassformer.batch import Positions
from glassformer.layers import attend as attending
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention, AttentionContext, merge_heads, score_scale
from glassformer.layers.mask import Causal
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.cases import (
    IDS,
    SOURCE_IDS,
    array,
    batch_of,
    draw,
    filled,
    reference_logits,
    tiny,
)
from glassformer.verify.row import DEEP, EXACT, TIGHT, Row, at_least, at_most, row

CHOICES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Notes A, B, D", "scale", "Q Kᵀ / √d_head", {"scale": "head"}),
    ("Note C", "scale", "Q Kᵀ / √d, in words", {"scale": "model"}),
    ("Note C (T5)", "scale", "Q Kᵀ, not scaled", {"scale": "none"}),
    (
        "Note C",
        "bias placement",
        "(Q Kᵀ + B) / √d_k",
        {"position": "relative", "bias_placement": "inside"},
    ),
    (
        "Note C",
        "bias placement",
        "Q Kᵀ / √d_k + B",
        {"position": "relative", "bias_placement": "outside"},
    ),
    (
        "Note C (T5)",
        "bias placement",
        "Q Kᵀ + B",
        {"position": "buckets", "scale": "none", "max_distance": 32},
    ),
    ("Notes A, E", "sinusoid exponent", "2k/d, k = ⌊j/2⌋", {"position": "sinusoidal"}),
    ("Note C", "sinusoid exponent", "2j/d at raw dimension j", {"position": "sinusoidal_printed"}),
    ("Notes A, E", "position index", "from 0", {"position": "sinusoidal", "first_position": 0}),
    ("Notes A, C", "position index", "from 1", {"position": "sinusoidal", "first_position": 1}),
    (
        "Notes B, D, E",
        "norm placement",
        "x + f(LN(x)), then a final norm",
        {"norm_placement": "pre"},
    ),
    (
        "Notes B, C, E",
        "norm placement",
        "LN(x + f(x))",
        {"norm_placement": "post", "architecture": "encoder_decoder"},
    ),
    ("Note D", "FFN width", "W₁, W₂ in D x D, no biases", {"d_ff": 16, "bias": False}),
    ("Note E", "FFN width", "d_ff > d, with biases", {"d_ff": 64, "bias": True}),
    ("Note B", "head", "u = h Eᵀ", {"tied": True}),
    ("Note E", "head", "u = h W + b", {"tied": False, "head_bias": True}),
    ("Note D", "classification", "last element", {"pool": "last"}),
    ("Note D (BERT)", "classification", "first element", {"pool": "first"}),
    ("Note D", "classification", "mean of the elements", {"pool": "mean"}),
]
"""Note, point of disagreement, reading, and the configuration that reaches it."""


def reading_rows() -> Iterator[Row]:
    """Rows of the points where the notes disagree."""
    yield from choices()
    yield from scale()
    yield from inside_or_outside()
    yield from output_projection()
    yield from printed_sinusoid()
    yield from future_scores()
    learned = positions.LearnedPosition(12, 16)
    shape = list(learned.weight.shape)
    yield row(
        "Note B",
        "reading: E_pos",
        "E_pos is N x d",
        positions.LearnedPosition,
        shape,
        [12, 16],
        EXACT,
    )


def choices() -> Iterator[Row]:
    """The whole forward pass under every named choice."""
    for note, point, formula, values in CHOICES:
        classify = (
            {"architecture": "encoder", "head": "classify", "n_classes": 5}
            if "pool" in values
            else {}
        )
        model, reference = tiny(**(classify | values))
        crossed = values.get("architecture") == "encoder_decoder"
        batch = batch_of(IDS, SOURCE_IDS if crossed else None)
        got, expected = model(batch).logits[0], reference_logits(reference, batch)[0]
        said = ", ".join(f"{key}={value!r}" for key, value in values.items())
        yield row(note, f"reading: {point}", formula, Transformer, got, expected, DEEP, said)


def scale() -> Iterator[Row]:
    """The two forms of the usual scale are one number, and Note C's words are another."""
    d_model, heads = 32, 4
    per_head = score_scale("head", d_model // heads, d_model)
    formula = "√(d_k / h) with d_k the total = √(width of a head)"
    yield row(
        "Note E", "reading: scale", formula, score_scale, per_head, 1 / math.sqrt(d_model / heads)
    )
    formula = "√d, d the embedding width"
    got = score_scale("model", d_model // heads, d_model)
    yield row("Note C", "reading: scale", formula, score_scale, got, 1 / math.sqrt(d_model))


def inside_or_outside() -> Iterator[Row]:
    """M + S = (S' + M) / √d_k, as M is 0 or -inf."""
    q, k = draw("q", 1, 1, 6, 4), draw("k", 1, 1, 6, 4)
    allow = masks.allowed(Causal(), Positions.arange(6), Positions.arange(6))
    pattern = attending.attention_pattern(attending.attention_scores(q, k, allow, None, 0.5))[0, 0]
    flat, m = (array(q[0, 0]), array(k[0, 0])), ref.causal_mask(6)
    for note, formula, form in (
        ("Notes A, D", "softmax(M + Q Kᵀ / √d_k)", ref.scores),
        ("Note C", "softmax((Q Kᵀ + M) / √d_k)", ref.scores_inside),
    ):
        expected = ref.softmax(form(*flat, 0.5, m))
        yield row(
            note, "reading: mask placement", formula, attending.attention_pattern, pattern, expected
        )


def output_projection() -> Iterator[Row]:
    """W_Oᵀ with W_O in d x H d_k; W_O in H d_v x d; with a bias."""
    x, view = draw("x", 1, 6, 16), AttentionContext(masks.Allowed())
    for note, formula, bias in (
        ("Note A", "W_O concat(z), W_O in d x H d_k", False),
        ("Notes B, D, E", "concat(Z) W_O, W_O in H d_v x d", False),
        ("Note C", "concat(Z) W_O + b", True),
    ):
        brick = filled(Attention(16, 2, 2, 4, out_bias=bias))
        q = brick.queries(x, None)
        k, v = brick.keys_values(x, None)
        z = array(merge_heads(attending.attend(q, k, v, view.allow, None, brick.scale)))[0]
        stored = array(brick.out_proj.weight)
        columns = np.stack([stored @ concat for concat in z])
        expected = columns if note == "Note A" else z @ stored.T
        expected = expected + array(brick.out_proj.bias) if bias else expected
        said = f"out_bias={bias}"
        yield row(
            note, "reading: W_O", formula, Attention, brick(x, view)[0], expected, TIGHT, said
        )


def printed_sinusoid() -> Iterator[Row]:
    """The exponent as printed breaks the note's own claim; and frequency falls with the
    dimension."""
    steps = torch.arange(100)
    paired = positions.sinusoidal(steps, 64, dtype=torch.float64)
    printed = positions.sinusoidal(steps, 64, printed=True, dtype=torch.float64)
    name = "reading: sinusoid exponent"
    expected = where.sinusoid_printed(steps.tolist(), 64)
    formula = "sin or cos of t / 10000^(2j/d)"
    yield row("Note C", name, formula, positions.sinusoidal, printed, expected)
    formula = "paired: p_i · p_j is a function of i − j"
    said = "spread over each distance, d = 64, T = 100"
    yield at_most(
        "Note C", name, formula, positions.sinusoidal, where.spread(array(paired)), 1e-12, said
    )
    formula = "as printed: p_i · p_j is not (spread 5.6)"
    got = where.spread(array(printed))
    yield row("Note C", name, formula, positions.sinusoidal, got, 5.6, 0.05, f"measured {got:.4f}")
    angle = torch.atan2(paired[1, 0::2], paired[1, 1::2])
    formula = "ω_k = 10000^(−2k/d)"
    expected = [10000 ** (-2 * k / 64) for k in range(32)]
    name = "reading: frequency"
    yield row("Note C", name, formula, positions.sinusoidal, angle, expected)
    falls = float((angle[:-1] - angle[1:]).min())
    formula = "frequency decreases with the dimension: ω_k − ω_{k+1} > 0"
    yield at_least("Note C", name, formula, positions.sinusoidal, falls, 1e-6, "d = 64")


def future_scores() -> Iterator[Row]:
    """A score of 0 is not a weight of 0: setting future scores to zero would leak the future."""
    q, k = draw("q", 1, 1, 6, 4), draw("k", 1, 1, 6, 4)
    allow = masks.allowed(Causal(), Positions.arange(6), Positions.arange(6))
    scores = attending.attention_scores(q, k, allow, None, 0.5)
    future = attending.attention_pattern(scores)[0, 0].triu(1)
    name = "reading: future scores"
    formula = "−∞ before softmax ⇒ a_ij = 0 for j > i"
    yield row(
        "Notes A, B, D, E",
        name,
        formula,
        attending.attention_pattern,
        future,
        np.zeros((6, 6)),
        EXACT,
    )
    zeroed = attending.attention_pattern(scores.masked_fill(scores == -torch.inf, 0.0))[0, 0].triu(
        1
    )
    formula = "0 before softmax ⇒ a_ij > 0 for j > i"
    leaked = float(zeroed.sum(-1).max())
    yield at_least(
        "Note C", name, formula, attending.attention_pattern, leaked, 0.1, "shown, never done"
    )
