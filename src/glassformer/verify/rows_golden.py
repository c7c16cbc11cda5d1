"""The numbers that the notes print, and the published sizes: the production must give them to the
last digit printed."""

import math
from collections.abc import Iterator

import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.batch import Positions
from glassformer.layers import attend as attending
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention, AttentionContext, score_scale
from glassformer.layers.embed import PatchEmbedding, TokenEmbedding
from glassformer.layers.tap import Tape, recording
from glassformer.models import presets
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.verify.cases import draw, filled
from glassformer.verify.row import EXACT, Row, at_least, at_most, row

FULL = masks.Allowed()
POSITIONS_OF_E = {
    0: [0, 1, 0, 1],
    25: [-0.13, 0.99, 0.60, -0.80],
    50: [-0.26, 0.96, -0.96, 0.28],
    75: [-0.39, 0.92, 0.94, 0.35],
    100: [-0.51, 0.86, -0.54, -0.84],
}
"""Note E: the first four of eight values at five positions, to two digits."""
PUBLISHED = {
    "GPT-2 small, tied head": (presets.gpt2("small"), 124_439_808),
    "BERT-base with pooler, without MLM head": (presets.bert("base"), 109_482_240),
    "ViT-B/16, 1,000 classes": (presets.vit("B/16"), 86_567_656),
    "T5-small": (presets.t5("small"), 60_506_624),
}
"""Published numbers of parameters."""


def golden_rows() -> Iterator[Row]:
    """Rows of the numbers in the texts."""
    yield from worked_example()
    for position, printed in POSITIONS_OF_E.items():
        got = positions.sinusoidal(torch.tensor(position), 8, dtype=torch.float64)[:4]
        formula = f"p_{position} = [{', '.join(f'{value:g}' for value in printed)}], d = 8"
        yield row(
            "Note E", "golden: position vectors", formula, positions.sinusoidal, got, printed, 0.005
        )
    yield from rows_of_embeddings()
    yield from causal_table()
    yield from sharpness()
    yield from temperature()
    yield from cost()
    for name, (config, count) in PUBLISHED.items():
        got = Transformer(config, device="meta").n_parameters
        formula = f"{name}: {count:,} parameters"
        yield row("Published sizes", "golden: parameters", formula, Transformer, got, count, EXACT)


def worked_example() -> Iterator[Row]:
    """Note D's scores 102 and 99."""
    q = torch.tensor([[[[6.0, 3.0, 1.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[15.0, 3.0, 3.0], [14.0, 4.0, 3.0]]]], dtype=torch.float64)
    name, note = "golden: worked example", "Note D"
    raw = attending.attention_scores(q, k, FULL, None, 1.0)
    yield row(
        note,
        name,
        "q₁ k₁ᵀ = 102, q₁ k₂ᵀ = 99",
        attending.attention_scores,
        raw[0, 0, 0],
        [102, 99],
        EXACT,
    )
    scores = attending.attention_scores(q, k, FULL, None, score_scale("head", 3, 3))
    flat = scores[0, 0, 0]
    formula = "102 / √3 = 58.890, 99 / √3 = 57.158"
    yield row(
        note, name, formula, attending.attention_scores, flat, [58.890, 57.158], 5e-4, "D_K = 3"
    )
    formula = "58.9, 57.2 as printed"
    yield row(note, name, formula, attending.attention_scores, flat, [58.9, 57.2], 0.05, "D_K = 3")
    pattern = attending.attention_pattern(scores)[0, 0, 0]
    formula = "softmax: .84967, .15033"
    yield row(
        note,
        name,
        formula,
        attending.attention_pattern,
        pattern,
        [0.84967, 0.15033],
        5e-6,
        "D_K = 3",
    )
    yield row(
        note,
        name,
        "softmax: .85, .15 as printed",
        attending.attention_pattern,
        pattern,
        [0.85, 0.15],
        0.005,
    )
    others = [abs(102 * score_scale("head", width, width) - 58.9) for width in (1, 2, 4, 64)]
    formula = "true for D_K = 3 only"
    yield at_least(
        note, name, formula, score_scale, min(others), 0.05, "D_K = 1, 2, 4, 64 give other numbers"
    )


def rows_of_embeddings() -> Iterator[Row]:
    """Notes A, B and D: rows of E, patches of 768 numbers."""
    ids = [5, 4000, 10532, 2224]
    brick = filled(TokenEmbedding(40_000, 4))
    got = brick(torch.tensor([ids]))[0]
    formula = "E[[5, 4000, 10532, 2224]] picks those rows"
    yield row(
        "Note B",
        "golden: row picking",
        formula,
        TokenEmbedding,
        got,
        brick.weight[ids].detach(),
        EXACT,
    )
    hot = torch.nn.functional.one_hot(torch.tensor(ids), 40_000).double() @ brick.weight
    formula = "one-hot(i) E = row i, |V| = 40,000"
    yield row(
        "Notes A, B", "golden: row picking", formula, TokenEmbedding, got, hot.detach(), EXACT
    )
    width = presets.vit("B/16").patch_width
    yield row("Note D", "golden: patches", "16 · 16 · 3 = 768", PatchEmbedding, width, 768, EXACT)
    taken = PatchEmbedding(width, 8, class_token=False)(torch.zeros(1, 196, 16 * 16 * 3)).shape[1]
    formula = "a 224 x 224 image is 196 patches of 768 numbers"
    yield row("Note D", "golden: patches", formula, PatchEmbedding, taken, (224 // 16) ** 2, EXACT)


def causal_table() -> Iterator[Row]:
    """Note E's picture for "the tallest building in NYC", and a_{3,2} = 1."""
    place = Positions.arange(5)
    printed = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    table = masks.Causal().table(place, place)[0]
    name = "golden: causal table"
    formula = "the / tallest / building / in / NYC: row i sees columns 1 .. i"
    yield row("Note E", name, formula, masks.Causal, table, printed, EXACT)
    q, k, v = (draw(letter, 1, 1, 5, 4) for letter in "qkv")
    pattern = attending.attention_pattern(
        attending.attention_scores(q, k, masks.allowed(masks.Causal(), place, place), None, 0.5)
    )
    seen = (pattern[0, 0] > 0).double()
    formula = "a_ij > 0 exactly where the table has an entry"
    yield row("Note E", name, formula, attending.attention_pattern, seen, printed, EXACT)
    ones = torch.ones(5, dtype=torch.float64)
    yield row(
        "Notes A, E", name, "Σ_j a_ij = 1", attending.attention_pattern, pattern[0, 0].sum(-1), ones
    )
    only = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    only[0, 0, 2, 1] = 1
    got = attending.attention_values(only, v)[0, 0, 2]
    yield row(
        "Note E", name, "a_{3,2} = 1 ⇒ o₃ = v₂", attending.attention_values, got, v[0, 0, 1], EXACT
    )


def sharpness() -> Iterator[Row]:
    """Note D: what the scaling is for, at random initialization."""
    width, count = 256, 16
    q, k = draw("sharp q", 1, 1, count, width), draw("sharp k", 1, 1, count, width)
    evenness = []
    for kind in ("none", "head"):
        scores = attending.attention_scores(q, k, FULL, None, score_scale(kind, width, width))
        pattern = attending.attention_pattern(scores)[0, 0]
        evenness.append(float(torch.special.entr(pattern).sum(-1).mean()) / math.log(count))
    said = f"mean entropy / log T, D_K = {width}, T = {count}; 0 one key, 1 uniform"
    formula, name = "without 1/√D_K the pattern is sharp", "golden: scaling"
    yield at_most("Note D", name, formula, attending.attention_pattern, evenness[0], 0.2, said)
    formula = "with 1/√D_K it is near uniform"
    yield at_least("Note D", name, formula, attending.attention_pattern, evenness[1], 0.8, said)


def temperature() -> Iterator[Row]:
    """Note E: the limits of τ."""
    u = torch.tensor([[[[2.0, -1.0, 0.5, 1.9]]]], dtype=torch.float64)
    name = "golden: temperature"
    # |u|/τ = 2e-6 bounds how far from uniform; a gap of 0.1 at τ = 0.001 leaves e^-100.
    flat = attending.attention_pattern(u / 1e6)[0, 0, 0]
    yield row(
        "Note E",
        name,
        "τ large: uniform",
        attending.attention_pattern,
        flat,
        [0.25] * 4,
        1e-6,
        "τ = 10⁶",
    )
    peak = attending.attention_pattern(u / 1e-3)[0, 0, 0]
    yield row(
        "Note E",
        name,
        "τ small: arg max",
        attending.attention_pattern,
        peak,
        [1, 0, 0, 0],
        1e-12,
        "τ = 0.001",
    )


def cost() -> Iterator[Row]:
    """Note E: h heads of width d/h cost as much as one of width d."""
    x, view = draw("x", 1, 12, 32), AttentionContext(FULL)
    spent, learned = [], []
    for heads in (1, 2, 4, 8):
        brick = filled(Attention(32, heads, heads, 32 // heads))
        # The tape makes the brick write its two products out: the counter doesn't know what is in a
        # fused kernel.
        with FlopCounterMode(display=False) as counter, recording(Tape(brick, keep=("pattern",))):
            brick(x, view)
        spent.append(counter.get_total_flops())
        learned.append(sum(parameter.numel() for parameter in brick.parameters()))
    formula, name = "cost of h heads = cost of one head at full width", "golden: cost of heads"
    # four projections 2·T·d·d and two products 2·T·T·d, whatever the number of heads
    expected = [4 * 2 * 12 * 32 * 32 + 2 * 2 * 12 * 12 * 32] * 4
    said = "floating-point operations, h = 1, 2, 4, 8"
    yield row("Note E", name, formula, Attention, spent, expected, EXACT, said)
    yield row(
        "Note E",
        name,
        formula,
        Attention,
        learned,
        [4 * 32 * 32] * 4,
        EXACT,
        "parameters, h = 1, 2, 4, 8",
    )
    width = ModelConfig.parse({"d_model": 512, "n_heads": 8}).head_width
    formula = "d_head = d_model / H"
    yield row("Notes A, E", name, formula, ModelConfig, width, 64, EXACT)
