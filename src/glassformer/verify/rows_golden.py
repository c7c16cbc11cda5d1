"""The numbers that the notes print, and the published sizes: production gives them to the last
digit printed."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.batch import Positions
from glassformer.generate import GenerateConfig, logits
from glassformer.generate.constraints import Rows
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
from glassformer.verify.cases import array, context, draw, drawn, filled
from glassformer.verify.row import Row, at_least, measured, row

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
    yield row("example.products", scores(1.0), [102, 99])
    yield row("example.scores", scaled, [58.890, 57.158])
    yield row("example.scores.printed", scaled, [58.9, 57.2])
    yield row("example.pattern", pattern, [0.84967, 0.15033])
    yield row("example.pattern.printed", pattern, [0.85, 0.15])
    others = [scores(attention.score_scale("head", width, width))[0] for width in (1, 2, 4, 64)]
    yield at_least("example.width", min(abs(float(other) - 58.9) for other in others), 0.05)


def position_vectors() -> Iterator[Row]:
    """Note E's printed position vectors."""
    for position, printed in POSITIONS_OF_E.items():
        got = positions.sinusoidal(torch.tensor(position), 8, dtype=torch.float64)[:4]
        said = ", ".join(f"{value:g}" for value in printed)
        yield row("printed.position", got, printed, position, said)


def picked_rows() -> Iterator[Row]:
    """Notes A, B and D: rows of E."""
    ids, table = torch.tensor([[5, 4000, 10532, 2224]]), filled(TokenEmbedding(40_000, 4))
    got, weight, hot = table(ids), array(table.weight), np.zeros((4, 40_000))
    yield row("printed.rows", got, weight[ids[0]])
    hot[range(4), ids[0]] = 1
    yield row("printed.one-hot", got, hot @ weight)


def image_patches() -> Iterator[Row]:
    """Note D's patch size on the usual image, by production's reader."""
    fields = {"size": 224, "patch": 16, "channels": 3, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    reader = ImageReader(ImageConfig.parse(fields))
    cut = reader.patches(reader.normalized(np.zeros((1, 224, 224, 3), np.uint8)))
    yield row("printed.patch", cut.shape[-1], 768)
    yield row("printed.patches", cut.shape[1:], [196, 768])
    x = PatchEmbedding(cut.shape[-1], 8, class_token=False)(cut)
    yield row("printed.patches.embedded", x.shape, [1, 196, 8])
    config = presets.vit("B/16")
    yield row("printed.patches.vit", [config.max_length, config.patch_width], [196, 768])


def causal_table() -> Iterator[Row]:
    """Note E's table for "the tallest building in NYC", and a_{3,2} = 1."""
    place, printed = Positions.arange(5), np.tril(np.ones((5, 5)))
    yield row("table", masks.Causal().table(place, place), printed)
    q, k, v = drawn("qkv", 1, 1, 5, 4)
    scores = attending.attention_scores(q, k, context(masks.Causal(), 5).allow, None, 0.5)
    pattern = attending.attention_pattern(scores)
    yield row("table.pattern", pattern > 0, printed)
    yield row("table.sums", pattern.sum(-1), np.ones(5))
    only = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    only[0, 0, 2, 1] = 1
    yield row("table.one", attending.attention_values(only, v)[0, 0, 2], array(v[0, 0, 1]))


def sharpness() -> Iterator[Row]:
    """Note D: the purpose of the scaling, at random initialization."""
    width, count, evenness = 256, 16, []
    module, x = Attention(width, 1, 1, width).double(), draw("sharp", 1, count, width)
    init.initialize(module, "xavier", init.Sizes(n_layers=1, d_head=width), seed=0)
    q, (k, _) = module.queries(x, None), module.keys_values(x, None)
    for kind in ("none", "head"):
        scale = attention.score_scale(kind, width, width)
        pattern = attending.attention_pattern(attending.attention_scores(q, k, FULL, None, scale))
        entropy = torch.special.entr(pattern.detach()).sum(-1).mean()
        evenness.append(float(entropy) / math.log(count))
    yield measured("sharp", evenness[0])
    yield at_least("even", evenness[1], 0.8)


def temperature() -> Iterator[Row]:
    """Note E: the limits of τ, by the transform that generation applies."""
    u = torch.tensor([[2.0, -1.0, 0.5, 1.9]], dtype=torch.float64)
    # a spread of 3 over τ = 10⁶ bounds how far from uniform; a gap of 0.1 at τ = 0.001 leaves
    # e^-100
    flat, peak = (logits.temperature(u, tau).softmax(-1) for tau in (1e6, 1e-3))
    yield row("temperature.large", flat, [0.25] * 4)
    yield row("temperature.small", peak, [1, 0, 0, 0])
    left = logits.remaining(u, Rows([[]]), GenerateConfig.parse({"temperature": 0})).softmax(-1)
    yield row("temperature.zero", left, [1, 0, 0, 0])


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
    # Four projections 2·T·d·d and two products 2·T·T·d, for any number of heads.
    expected = [4 * 2 * 12 * 32 * 32 + 2 * 2 * 12 * 12 * 32] * 4
    yield row("cost", spent, expected, "floating-point operations")
    yield row("cost", learned, [4 * 32 * 32] * 4, "parameters")
    yield row("cost.width", ModelConfig.parse({"d_model": 512, "n_heads": 8}).head_width, 64)


def parameters() -> Iterator[Row]:
    """Published sizes of the presets."""
    for name, (config, count) in PUBLISHED.items():
        got = Transformer(config, device="meta").n_parameters
        yield row("size", got, count, name, f"{count:,}")


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
