"""Cost of a model before it is built: parameters by matrix, operations, memory."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from glassformer.layers.stem import REACH, steps_of
from glassformer.models.account import Account, weights_of
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer


@dataclass(frozen=True)
class Matrix:
    """One parameter: its name, shape and size."""

    name: str
    shape: tuple[int, ...]
    numbers: int


def matrices(config: ModelConfig) -> list[Matrix]:
    """Every parameter, from a model on the meta device; a tied matrix appears once. ConfigError:
    one whose operations are not known here."""
    model = Transformer(config, device="meta")
    account = Account("A plan", weights_of(model))
    account.take_known()
    account.finish()
    return [Matrix(name, tuple(p.shape), p.numel()) for name, p in model.named_parameters()]


def forward_flops(
    config: ModelConfig,
    length: int,
    selected: float = 1.0,
) -> float:
    """Floating-point operations of one forward pass for each element of a sequence of `length`.

    `selected`: share of elements that the head reads (where it pools, one of a sequence, or two if
    distilled); for the others the last block computes keys and values only. A class token and
    registers are in the stream beside the `length` elements.

    Two for each weight that multiplies the element. 4 · keys · H d_head for scores and weighted sum
    of each attention. Keys are the average number of a query: causal, w - w (w - 1) / 2T for a
    window of w ≤ T, which is (T + 1) / 2 without a window. Source and target of an
    encoder-decoder are taken as equally long. Only matrix products are counted.
    """
    d, heads, elements = config.d_model, config.n_heads * config.head_width, length
    length += config.n_prefix
    keys_values = 4 * d * config.kv_heads * config.head_width
    attention = 4 * d * heads + keys_values
    network = 2 * d * config.ff_width * (2 + config.gated)
    window = min(length, config.window or length)
    seen = window - window * (window - 1) / (2 * length)
    past, full = 4 * heads * seen, 4 * heads * length
    around = full if config.window is None else 4 * heads * (2 * seen - 1)
    encoder, decoder = attention + network + around, attention + network + past
    pools, read = config.one_output, 1 + config.distilled
    selected = read / elements if pools else selected
    outside = selected * head_flops(config) + patch_flops(config)
    if config.is_encoder_decoder:
        encoders = config.depth("encoder") * encoder
        return encoders + config.n_layers * (decoder + attention + full) + outside
    block = encoder if config.architecture == "encoder" else decoder
    if pools and config.pool != "mean":
        # The first element of a decoder sees itself, the last a whole window.
        ends = 1 if config.architecture == "decoder" and config.pool == "first" else window
        last = keys_values + (attention - keys_values + network + 4 * heads * ends) * read / length
    else:
        last = keys_values + (1.0 if pools else selected) * (block - keys_values)
    return ((config.n_layers - 1) * block + last) * length / elements + outside


def patch_flops(config: ModelConfig) -> float:
    """Operations of embedding one patch: W_emb, and the convolutions before it; a token has
    none."""
    if not config.reads_patches:
        return 0.0
    if not config.stem or config.patch is None:
        return 2.0 * config.patch_width * config.element_width
    pixels = prod(config.patch)
    sizes = [config.patch_width // pixels, *config.stem, config.element_width]
    total, steps = 0.0, steps_of(config.patch, config.stem)
    for (width, out), step in zip(pairwise(sizes), steps, strict=True):
        pixels //= prod(step)
        total += 2 * REACH * REACH * width * out * pixels
    return total


def head_flops(config: ModelConfig) -> float:
    """Operations of the head for each position that it reads."""
    d, words, classes = config.d_model, config.vocab_size, config.class_count
    dense = d * config.pooler
    outputs = {
        "lm": words,
        "masked_lm": d + words,
        "tag": classes,
        "classify": classes + dense,
        "pool": dense,
        "none": 0,
    }
    return 2.0 * d * outputs[config.head]


def training_flops(
    config: ModelConfig, length: int, selected: float = 1.0, passes: int = 3
) -> float:
    """Operations of a training step for each element: the backward pass costs twice the forward,
    one for activations and one for weights; fewer `passes` where weights are frozen."""
    return passes * forward_flops(config, length, selected)


def training_bytes(
    config: ModelConfig,
    rows: int,
    length: int,
    optimizer: str,
    parallel_micro_batches: int = 1,
    trained: int | None = None,
) -> dict[str, int]:
    """Memory of training in float32 by part: weights, gradients, optimizer, activations (an
    estimate), logits.

    Each of the `parallel_micro_batches` has its own gradients and its activations of `rows` ·
    `length` elements: about 8 D + 3 F (5 F gated) + 5 H d_head numbers in each block. `trained`:
    parameters that are, where not all are; then the optimizer is taken for AdamW.
    """
    every = sum(matrix.numbers for matrix in matrices(config))
    n = every if trained is None else trained
    inside = sum(m.numbers for m in matrices(config) if ".blocks." in m.name and len(m.shape) == 2)
    blocks = config.n_layers + config.is_encoder_decoder * config.depth("encoder")
    elements = parallel_micro_batches * rows * length
    return {
        "weights": 4 * every,
        "gradients": parallel_micro_batches * 4 * n,
        "optimizer": 8 * n - (4 * inside if optimizer == "muon" and trained is None else 0),
        "activations": 4 * elements * (8 * config.d_model + hidden_numbers(config)) * blocks,
        "logits": 3 * 4 * elements * config.vocab_size if config.predicts_words else 0,
    }


def hidden_numbers(config: ModelConfig) -> int:
    """Return the numbers of an element in attention and feed-forward network of a block that the
    backward pass reads: about 3 F (5 F gated) and 5 H d_head."""
    return (5 if config.gated else 3) * config.ff_width + 5 * config.n_heads * config.head_width
