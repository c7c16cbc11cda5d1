"""Where the notes disagree: every reading is reached through its named choice and compared with the
reference.

Small whole models run in float64 under the choice.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from glassformer.layers import attend as attending
from glassformer.layers import attention, mask
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.cases import (
    IDS,
    SOURCE_IDS,
    array,
    batch_of,
    context,
    draw,
    filled,
    flat,
    reference_logits,
    reference_of,
    tiny,
)
from glassformer.verify.row import DEEP, EXACT, LATER, TIGHT, Claim, Row

CHOICES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Notes A, B, D, E", "scale", "Q Kᵀ / √d_head", {"scale": "head"}),
    ("Note C", "scale", "Q Kᵀ / √d, in words", {"scale": "model"}),
    (LATER, "scale", "Q Kᵀ, not scaled", {"scale": "none"}),
    (
        "Note C",
        "bias placement",
        "(Q Kᵀ + B) / √d_k",
        {"position": "relative", "bias_placement": "inside"},
    ),
    (
        LATER,
        "bias placement",
        "Q Kᵀ / √d_k + B",
        {"position": "relative", "bias_placement": "outside"},
    ),
    (
        LATER,
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
    (
        "Note C",
        "position combination",
        "[x; Pos]",
        {"position": "sinusoidal", "position_combination": "concatenate", "tied": False},
    ),
    (
        "Note C",
        "residual connections",
        "without: LN(f(x))",
        {"norm_placement": "post", "residual": False},
    ),
    (
        "Note C",
        "residual connections",
        "without: f(LN(x))",
        {"norm_placement": "pre", "residual": False},
    ),
    ("Note D", "FFN width", "W₁, W₂ in D x D, no biases", {"d_ff": 16, "bias": False}),
    ("Note E", "FFN width", "d_ff > d, with biases", {"d_ff": 64, "bias": True}),
    ("Note B", "head", "u = h Eᵀ", {"tied": True}),
    ("Note E", "head", "u = h W + b", {"tied": False, "head_bias": True}),
    ("Note D", "classification", "last element", {"pool": "last"}),
    (LATER, "classification", "first element", {"pool": "first"}),
    (LATER, "classification", "mean of the elements", {"pool": "mean"}),
]
"""Note, point of disagreement, reading, and the configuration that reaches it."""


def position_table() -> Iterator[Row]:
    """One row for each position, each as wide as the model (Note B prints 1 x N)."""
    claim, table = Claim("Notes B, D", "reading: E_pos"), positions.LearnedPosition(12, 16)
    yield claim("E_pos is N x d", positions.LearnedPosition, table.weight.shape, [12, 16], EXACT)


def choices() -> Iterator[Row]:
    """The whole forward pass under every named choice."""
    classify = {"architecture": "encoder", "head": "classify", "n_classes": 5}
    for note, point, formula, values in CHOICES:
        model, reference = tiny(**(classify if "pool" in values else {}) | values)
        batch = batch_of(IDS, SOURCE_IDS if "architecture" in values else None)
        got, expected = model(batch).logits, reference_logits(reference, batch)[0]
        claim = Claim(note, f"reading: {point}")
        claim = claim.by(note, ", ".join(f"{key}={value!r}" for key, value in values.items()))
        yield claim(formula, Transformer, got, expected, DEEP)


def scale() -> Iterator[Row]:
    """The two forms of the usual scale are one number, and Note C's words are another."""
    claim, d_model, heads = Claim("Note E", "reading: scale"), 32, 4
    got = attention.score_scale("head", d_model // heads, d_model)
    yield claim(
        "√(d_k / h) with d_k the total = √(width of a head)",
        attention.score_scale,
        got,
        1 / math.sqrt(d_model / heads),
    )
    got = attention.score_scale("model", d_model // heads, d_model)
    yield claim.by("Note C")(
        "√d, d the embedding width", attention.score_scale, got, 1 / math.sqrt(d_model)
    )


def masked_scores() -> tuple[torch.Tensor, ref.Array, ref.Array]:
    """Production's causal scores of small queries and keys, and these queries and keys."""
    q, k = draw("q", 1, 1, 6, 4), draw("k", 1, 1, 6, 4)
    allow = context(mask.Causal(), 6).allow
    return attending.attention_scores(q, k, allow, None, 0.5), flat(q), flat(k)


def inside_or_outside() -> Iterator[Row]:
    """M + S = (S' + M) / √d_k, as M is 0 or -inf."""
    scores, q, k = masked_scores()
    pattern = attending.attention_pattern(scores)
    claim = Claim("Notes A, B, D", "reading: mask placement")
    for note, formula, inside in (
        ("Notes A, B, D", "softmax(M + Q Kᵀ / √d_k)", False),
        ("Note C", "softmax((Q Kᵀ + M) / √d_k)", True),
    ):
        expected = ref.softmax(ref.scores(q, k, 0.5, ref.causal_mask(6), inside=inside))
        yield claim.by(note)(formula, attending.attention_pattern, pattern, expected)


def output_projection() -> Iterator[Row]:
    """W_Oᵀ with W_O in d x H d_k; W_O in H d_v x d; with a bias."""
    x, view, claim = draw("x", 1, 6, 16), context(mask.Everything(), 6), Claim("", "reading: W_O")
    for note, formula, bias in (
        ("Note A", "W_O concat(z), W_O in d x H d_k", False),
        ("Notes B, D, E", "concat(Z) W_O, W_O in H d_v x d", False),
        ("Note C", "concat(Z) W_O + b", True),
    ):
        module = filled(Attention(16, 2, 2, 4, out_bias=bias))
        reference = reference_of(module, d_head=4)
        seen, stored = (flat(x), flat(x), np.zeros((6, 6))), array(module.out_proj.weight)
        expected = reference.attention("it", *seen)
        if note == "Note A":
            expected = np.stack([stored @ column for column in reference.mixed("it", *seen)])
        said = f"out_bias={bias}"
        yield claim.by(note)(formula, Attention, module(x, view), expected, TIGHT, said)


def printed_sinusoid() -> Iterator[Row]:
    """The exponent as printed breaks the note's own claim; frequency falls with the
    dimension."""
    steps, claim = torch.arange(100), Claim("Note C", "reading: sinusoid exponent")
    paired, printed = (
        positions.sinusoidal(steps, 64, printed=kind, dtype=torch.float64) for kind in (False, True)
    )
    expected = where.sinusoid(range(100), 64, printed=True)
    yield claim("sin or cos of t / 10000^(2j/d)", positions.sinusoidal, printed, expected)
    said = "spread over each distance, d = 64, T = 100"
    yield claim.at_most(
        "paired: p_i · p_j is a function of i − j",
        positions.sinusoidal,
        where.spread(array(paired)),
        TIGHT,
        said,
    )
    got = where.spread(array(printed))
    yield claim(
        "as printed: p_i · p_j is not (spread 5.6)",
        positions.sinusoidal,
        got,
        5.6,
        0.05,
        f"measured {got:.4f}",
    )
    angle = torch.atan2(paired[1, 0::2], paired[1, 1::2])
    claim = Claim("Note C", "reading: frequency")
    expected = [10000 ** (-2 * k / 64) for k in range(32)]
    yield claim("ω_k = 10000^(−2k/d)", positions.sinusoidal, angle, expected)
    falls = float((angle[:-1] - angle[1:]).min())
    yield claim.at_least(
        "frequency decreases with the dimension: ω_k − ω_{k+1} > 0",
        positions.sinusoidal,
        falls,
        1e-6,
        "d = 64",
    )


def future_scores() -> Iterator[Row]:
    """A score of 0 is not a weight of 0: setting future scores to zero would leak the future."""
    scores, _, _ = masked_scores()
    zeroed = scores.where(scores.isfinite(), 0.0)
    claim = Claim("Notes A to E", "reading: future scores")
    future, leaked = (attending.attention_pattern(s).triu(1)[0, 0] for s in (scores, zeroed))
    yield claim(
        "−∞ before softmax ⇒ a_ij = 0 for j > i",
        attending.attention_pattern,
        future,
        np.zeros((6, 6)),
        EXACT,
    )
    most = float(leaked.sum(-1).max())
    yield claim.by("Note C").at_least(
        "0 before softmax ⇒ a_ij > 0 for j > i",
        attending.attention_pattern,
        most,
        0.1,
        "shown, never done",
    )


GROUPS = (
    choices,
    scale,
    inside_or_outside,
    output_projection,
    printed_sinusoid,
    future_scores,
    position_table,
)
"""Functions of the rows, in order."""
