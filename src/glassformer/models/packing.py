"""A model's large matrices as a CPU reads them fastest: in 16, 8 or 4 bits, or copies in float32.

A step of decoding takes the time of reading every weight once.
"""

from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.layers.attention import Attention
from glassformer.layers.cpu_kernels import can_order, order
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear import Linear
from glassformer.layers.lora import LoRALinear
from glassformer.layers.packed import Bits
from glassformer.models.transformer import Transformer

FORMATS: tuple[Bits, ...] = ("fp16", "bf16", "int8", "int4")
COPIES = 1 << 30
"""Bytes of matrices in float32 up to which a model gets copies of them."""


def order_weights(model: Transformer) -> None:
    """Keep copies of the matrices of a model in float32 in the order in which they are read fastest
    (see `cpu_kernels.order`), if all of them together have at most COPIES bytes.

    A copy is as large as its matrix and is used without gradients; where a matrix was changed, it
    is made anew by the next call. Whether there is one depends on the model alone.
    """
    weights: list[Tensor | None] = [
        module.weight
        for module in model.modules()
        if isinstance(module, LanguageModelHead | Linear) and module.packed is None
    ]
    large = [one for one in weights if one is not None and can_order(one)]
    if sum(one.nbytes for one in large) <= COPIES:
        for weight in large:
            order(weight)


def pack(model: Transformer, bits: str) -> None:
    """Replace the matrices of all blocks and of the language model head by their packed forms (see
    `layers.packed`); embeddings, norms and biases stay in float32.

    ConfigError: an unknown format, another device than a CPU, adapters beside the weights.
    """
    if bits not in FORMATS:
        raise ConfigError(f"quantize={bits!r} is unknown; use one of {', '.join(FORMATS)}.")
    if any(isinstance(one, Linear) and one.packed is not None for one in model.modules()):
        raise ConfigError(f"quantize={bits} was given for a model that is quantized; load it anew.")
    if (device := next(model.parameters()).device).type != "cpu":
        raise ConfigError(
            f"quantize={bits} is for models on a CPU, and this one is on {device}; leave it out, "
            "or use device=cpu."
        )
    named = list(model.named_modules())
    if any(isinstance(one, LoRALinear) for _, one in named):
        raise ConfigError(
            f"quantize={bits} was given for a model with adapters; fold them in first."
        )
    for name, module in named:  # a module before its own parts
        if (
            isinstance(module, LanguageModelHead)
            or (isinstance(module, Attention) and not name.endswith(".cross"))
            or (isinstance(module, Linear) and ".blocks." in name and module.packed is None)
        ):
            module.pack(bits)
