"""A model's large matrices converted for inference, in 32, 16, 8 or 4 bits.

A step of decoding takes the time of reading every weight once. A converted matrix is no parameter
any more: nothing derived from it can differ from it later. In 16, 8 or 4 bits, a tied head becomes
a separate matrix, and the embedding is not converted.
"""

from glassformer.core.errors import ConfigError
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear.linear import Linear
from glassformer.layers.linear.packed import Bits
from glassformer.layers.lora import LoRALinear
from glassformer.models.account import Account, weights_of
from glassformer.models.transformer import Transformer

FORMATS: tuple[Bits, ...] = ("fp16", "bf16", "int8", "int4")


def is_packed(model: Transformer) -> bool:
    """Whether the matrices of a model were converted."""
    return any(isinstance(one, Linear) and one.packed is not None for one in model.modules())


def quantize(model: Transformer, bits: str) -> None:
    """Replace the matrices of all blocks and of the language model head by numbers of few bits (see
    `layers.linear.packed`); embeddings, norms and biases stay in float32.

    ConfigError: an unknown format, and the errors of `pack`.
    """
    if bits not in FORMATS:
        raise ConfigError(f"quantize={bits!r} is unknown; use one of {', '.join(FORMATS)}.")
    pack(model, bits)


def pack(model: Transformer, bits: Bits) -> None:
    """Convert the matrices of all blocks and of the language model head (see `linear.packed`); a
    tied head in float32 stays the embedding.

    ConfigError: a model that is converted, another device than a CPU, adapters beside the weights,
    a weight of which no converted form is known.
    """
    if is_packed(model):
        raise ConfigError(
            f"quantize={bits} was given for a model that is quantized or compiled; load it again."
        )
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
    account = Account("A converted model", weights_of(model))
    account.take_known()
    account.finish()
    for name, module in named:  # a module before its own parts
        if (
            (isinstance(module, LanguageModelHead) and not (module.tied and bits == "fp32"))
            or (isinstance(module, Attention) and not name.endswith(".cross"))
            or (isinstance(module, Linear) and ".blocks." in name and module.packed is None)
        ):
            module.pack(bits)
