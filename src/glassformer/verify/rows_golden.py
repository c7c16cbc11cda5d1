"""The numbers that the notes print, and the published sizes: production gives them to the last
digit printed."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.batch import Positions
from glassformer.generate import GenerateConfig, logits
from glassformer.layers import attend as attending
from glassformer.layers import attention, init
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention
from glassformer.layers.embed import PatchEmbedding, TokenEmbedding
from glassformer.layers.tap import Tape, recording
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.models import presets
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.verify.cases import array, context, draw, filled
from glassformer.verify.row import EXACT, LATER, TIGHT, Claim, Row

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


def worked_example() -> Iterator[Row]:
    """Note D's scores 102 and 99."""
    q = torch.tensor([[[[6.0, 3.0, 1.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[15.0, 3.0, 3.0], [14.0, 4.0, 3.0]]]], dtype=torch.float64)

    def scores(scale: float) -> torch.Tensor:
        return attending.attention_scores(q, k, FULL, None, scale)[0, 0, 0]

    scaled = scores(attention.score_scale("head", 3, 3))
    pattern = attending.attention_pattern(scaled[None, None, None])[0, 0, 0]
    of_scores, of_pattern = attending.attention_scores, attending.attention_pattern
    claim, said = Claim("Note D", "golden: worked example"), "D_K = 3"
    yield claim("q₁ k₁ᵀ = 102, q₁ k₂ᵀ = 99", of_scores, scores(1.0), [102, 99], EXACT)
    yield claim(
        "102 / √3 = 58.890, 99 / √3 = 57.158", of_scores, scaled, [58.890, 57.158], 5e-4, said
    )
    yield claim("58.9, 57.2 as printed", of_scores, scaled, [58.9, 57.2], 0.05, said)
    yield claim("softmax: .84967, .15033", of_pattern, pattern, [0.84967, 0.15033], 5e-6, said)
    yield claim("softmax: .85, .15 as printed", of_pattern, pattern, [0.85, 0.15], 0.005)
    widths = (1, 2, 4, 64)
    others = [scores(attention.score_scale("head", width, width))[0] for width in widths]
    far = min(abs(float(other) - 58.9) for other in others)
    said = "D_K = 1, 2, 4, 64 give other numbers"
    yield claim.at_least("true for D_K = 3 only", attention.score_scale, far, 0.05, said)


def position_vectors() -> Iterator[Row]:
    """Note E's printed position vectors."""
    claim = Claim("Note E", "golden: position vectors")
    for position, printed in POSITIONS_OF_E.items():
        got = positions.sinusoidal(torch.tensor(position), 8, dtype=torch.float64)[:4]
        yield claim(
            f"p_{position} = [{', '.join(f'{value:g}' for value in printed)}], d = 8",
            positions.sinusoidal,
            got,
            printed,
            0.005,
        )


def picked_rows() -> Iterator[Row]:
    """Notes A, B and D: rows of E."""
    ids, table = torch.tensor([[5, 4000, 10532, 2224]]), filled(TokenEmbedding(40_000, 4))
    got, claim, weight = table(ids), Claim("Note B", "golden: row picking"), array(table.weight)
    yield claim(
        "E[[5, 4000, 10532, 2224]] picks those rows", TokenEmbedding, got, weight[ids[0]], EXACT
    )
    hot = np.zeros((4, 40_000))
    hot[range(4), ids[0]] = 1
    yield claim.by("Notes A, D")(
        "one-hot(i) E = row i, |V| = 40,000", TokenEmbedding, got, hot @ weight, EXACT
    )


def image_patches() -> Iterator[Row]:
    """Note D's patch size on the usual image, by production's reader."""
    claim = Claim("Note D", "golden: patches")
    fields = {"size": 224, "patch": 16, "channels": 3, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    reader = ImageReader(ImageConfig.parse(fields))
    cut = reader.patches(reader.normalized(np.zeros((1, 224, 224, 3), np.uint8)))
    yield claim("16 · 16 · 3 = 768", ImageReader, cut.shape[-1], 768, EXACT)
    vit = claim.by(LATER, "ViT, Dosovitskiy et al. 2021")
    x = PatchEmbedding(cut.shape[-1], 8, class_token=False)(cut)
    yield vit(
        "a 224 x 224 image is 196 patches of 768 numbers",
        ImageReader,
        cut.shape[1:],
        [196, 768],
        EXACT,
    )
    yield vit("one vector for each patch", PatchEmbedding, x.shape, [1, 196, 8], EXACT)
    config = presets.vit("B/16")
    got = [config.max_length, config.patch_width]
    yield vit("ViT-B/16 reads 196 patches of 768 numbers", presets.vit, got, [196, 768], EXACT)


def causal_table() -> Iterator[Row]:
    """Note E's picture for "the tallest building in NYC", and a_{3,2} = 1."""
    place, printed = Positions.arange(5), np.tril(np.ones((5, 5)))
    claim, table = Claim("Note E", "golden: causal table"), masks.Causal().table(place, place)
    yield claim(
        "the / tallest / building / in / NYC: row i sees columns 1 .. i",
        masks.Causal,
        table,
        printed,
        EXACT,
    )
    q, k, v = (draw(letter, 1, 1, 5, 4) for letter in "qkv")
    scores = attending.attention_scores(q, k, context(masks.Causal(), 5).allow, None, 0.5)
    pattern = attending.attention_pattern(scores)
    yield claim(
        "a_ij > 0 exactly where the table has an entry",
        attending.attention_pattern,
        pattern > 0,
        printed,
        EXACT,
    )
    sums = claim.by("Notes A, E")
    yield sums("Σ_j a_ij = 1", attending.attention_pattern, pattern.sum(-1), np.ones(5))
    only = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    only[0, 0, 2, 1] = 1
    got = attending.attention_values(only, v)[0, 0, 2]
    yield claim("a_{3,2} = 1 ⇒ o₃ = v₂", attending.attention_values, got, array(v[0, 0, 1]), EXACT)


def sharpness() -> Iterator[Row]:
    """Note D: the purpose of the scaling, at random initialization."""
    width, count, evenness = 256, 16, []
    module, x = Attention(width, 1, 1, width).double(), draw("sharp", 1, count, width)
    init.initialize(module, "xavier", init.Sizes(n_layers=1, d_head=width), seed=0)
    q, (k, _) = module.queries(x, None), module.keys_values(x, None)
    for kind in ("none", "head"):
        scale = attention.score_scale(kind, width, width)
        pattern = attending.attention_pattern(attending.attention_scores(q, k, FULL, None, scale))
        evenness.append(
            float(torch.special.entr(pattern.detach()).sum(-1).mean()) / math.log(count)
        )
    said = f"mean entropy / log T, D_K = {width}, T = {count}; 0 one key, 1 uniform"
    claim = Claim("Note D", "golden: scaling")
    yield claim.at_most(
        "without 1/√D_K the pattern is sharp", attending.attention_pattern, evenness[0], 0.2, said
    )
    yield claim.at_least(
        "with 1/√D_K it is near uniform", attending.attention_pattern, evenness[1], 0.8, said
    )


def temperature() -> Iterator[Row]:
    """Note E: the limits of τ, by the transform that generation applies."""
    u = torch.tensor([[2.0, -1.0, 0.5, 1.9]], dtype=torch.float64)
    claim = Claim("Note E", "golden: temperature")
    # a spread of 3 over τ = 10⁶ bounds how far from uniform; a gap of 0.1 at τ = 0.001 leaves
    # e^-100
    flat, peak = (logits.temperature(u, tau).softmax(-1) for tau in (1e6, 1e-3))
    yield claim("τ large: uniform", logits.temperature, flat, [0.25] * 4, 1e-6, "τ = 10⁶")
    yield claim("τ small: arg max", logits.temperature, peak, [1, 0, 0, 0], TIGHT, "τ = 0.001")
    left = logits.remaining(u, [[]], GenerateConfig.parse({"temperature": 0})).softmax(-1)
    yield claim("τ small: arg max", logits.remaining, left, [1, 0, 0, 0], EXACT, "τ = 0")


def cost() -> Iterator[Row]:
    """Note E: h heads of width d/h cost as much as one of width d."""
    x, view = draw("x", 1, 12, 32), context(masks.Everything(), 12)
    spent, learned = [], []
    for heads in (1, 2, 4, 8):
        module = filled(Attention(32, heads, heads, 32 // heads))
        # The tape makes attention write its two products out: a fused kernel is not counted.
        with FlopCounterMode(display=False) as counter, recording(Tape(module, keep=("pattern",))):
            module(x, view)
        spent.append(counter.get_total_flops())
        learned.append(sum(parameter.numel() for parameter in module.parameters()))
    claim = Claim("Note E", "golden: cost of heads")
    formula = "cost of h heads = cost of one head at full width"
    # four projections 2·T·d·d and two products 2·T·T·d, whatever the number of heads
    expected = [4 * 2 * 12 * 32 * 32 + 2 * 2 * 12 * 12 * 32] * 4
    said = "floating-point operations, h = 1, 2, 4, 8"
    yield claim(formula, Attention, spent, expected, EXACT, said)
    said = "parameters, h = 1, 2, 4, 8"
    yield claim(formula, Attention, learned, [4 * 32 * 32] * 4, EXACT, said)
    width = ModelConfig.parse({"d_model": 512, "n_heads": 8}).head_width
    yield claim("d_head = d_model / H", ModelConfig, width, 64, EXACT)


def parameters() -> Iterator[Row]:
    """Published sizes of the presets."""
    claim = Claim("Published sizes", "golden: parameters")
    for name, (config, count) in PUBLISHED.items():
        got = Transformer(config, device="meta").n_parameters
        yield claim(f"{name}: {count:,} parameters", Transformer, got, count, EXACT)


GROUPS = (
    worked_example,
    position_vectors,
    picked_rows,
    image_patches,
    causal_table,
    sharpness,
    temperature,
    cost,
    parameters,
)
"""Functions of the rows, in order."""
