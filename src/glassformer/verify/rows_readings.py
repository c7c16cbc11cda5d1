"""Where the notes disagree: every reading is reached through its named choice and compared with the
reference.

Small whole models run in float64 under the choice.
"""

import json
import math
from collections.abc import Iterator

import numpy as np
import torch

from glassformer.layers import attend as attending
from glassformer.layers import attention, mask
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention
from glassformer.verify import reference as ref
from glassformer.verify.cases import (
    IDS,
    SOURCE_IDS,
    array,
    batch_of,
    context,
    draw,
    drawn,
    filled,
    flat,
    reference_logits,
    reference_of,
    tiny,
)
from glassformer.verify.row import Row, at_least, measured, read_table, row

CHOICES = [line | {"fields": json.loads(line["fields"])} for line in read_table("choices.tsv")]
"""Note, point of disagreement, reading, and the fields of a configuration that reach it."""


def position_table() -> Iterator[Row]:
    """One row for each position, each as wide as the model (Note B prints 1 x N)."""
    table = positions.LearnedPosition(12, 16)
    yield row("reading.positions", table.weight.shape, [12, 16])


def choices() -> Iterator[Row]:
    """The whole forward pass under every named choice."""
    classify = {"architecture": "encoder", "head": "classify", "n_classes": 5}
    for note, point, reading, fields in map(dict.values, CHOICES):
        model, reference = tiny(**(classify if "pool" in fields else {}) | fields)
        batch = batch_of(IDS, SOURCE_IDS if "architecture" in fields else None)
        got, expected = model(batch).logits, reference_logits(reference, batch)[0]
        said = ", ".join(f"{key}={value!r}" for key, value in fields.items())
        yield row("reading", got, expected, note, point, reading, said)


def scale() -> Iterator[Row]:
    """The two forms of the usual scale are one number, and Note C's words are another."""
    d_model, heads = 32, 4
    got = attention.score_scale("head", d_model // heads, d_model)
    yield row("reading.scale.head", got, 1 / math.sqrt(d_model / heads))
    got = attention.score_scale("model", d_model // heads, d_model)
    yield row("reading.scale.model", got, 1 / math.sqrt(d_model))


def masked_scores() -> tuple[torch.Tensor, ref.Array, ref.Array]:
    """Production's causal scores of small queries and keys, and these queries and keys."""
    q, k = drawn("qk", 1, 1, 6, 4)
    allow = context(mask.Causal(), 6).allow
    return attending.attention_scores(q, k, allow, None, 0.5), flat(q), flat(k)


def inside_or_outside() -> Iterator[Row]:
    """M + S = (S' + M) / √d_k, as M is 0 or -inf."""
    scores, q, k = masked_scores()
    pattern = attending.attention_pattern(scores)
    for placement in ("outside", "inside"):
        s = ref.scores(q, k, 0.5, ref.causal_mask(6), inside=placement == "inside")
        yield row(f"reading.mask.{placement}", pattern, ref.softmax(s))


def output_projection() -> Iterator[Row]:
    """W_Oᵀ with W_O in d x H d_k; W_O in H d_v x d; with a bias."""
    x, view = draw("x", 1, 6, 16), context(mask.Everything(), 6)
    for form in ("columns", "rows", "bias"):
        module = filled(Attention(16, 2, 2, 4, out_bias=form == "bias"))
        reference = reference_of(module, d_head=4)
        seen, stored = (flat(x), flat(x), np.zeros((6, 6))), array(module.out_proj.weight)
        expected = reference.attention("it", *seen)
        if form == "columns":
            expected = np.stack([stored @ column for column in reference.mixed("it", *seen)])
        yield row(f"reading.output.{form}", module(x, view), expected)


def printed_sinusoid() -> Iterator[Row]:
    """The exponent as printed breaks the note's own claim; frequency falls with the
    dimension."""
    paired, printed = (
        positions.sinusoidal(torch.arange(100), 64, printed=kind, dtype=torch.float64)
        for kind in (False, True)
    )
    yield row("reading.sinusoid", printed, ref.sinusoid(range(100), 64, printed=True))
    yield measured("reading.sinusoid.paired", ref.spread(array(paired)))
    got = ref.spread(array(printed))
    yield row("reading.sinusoid.printed", got, 5.6, f"{got:.4f}")
    angle = torch.atan2(paired[1, 0::2], paired[1, 1::2])
    yield row("reading.frequency", angle, [10000 ** (-2 * k / 64) for k in range(32)])
    yield at_least("reading.frequency.falls", float((angle[:-1] - angle[1:]).min()), 1e-6)


def future_scores() -> Iterator[Row]:
    """A score of 0 is not a weight of 0: setting future scores to zero would leak the future."""
    scores, _, _ = masked_scores()
    zeroed = scores.where(scores.isfinite(), 0.0)
    future, leaked = (attending.attention_pattern(s).triu(1)[0, 0] for s in (scores, zeroed))
    yield row("reading.future", future, np.zeros((6, 6)))
    yield at_least("reading.future.zeroed", float(leaked.sum(-1).max()), 0.1)


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
