"""A model's large matrices in 16, 8 or 4 bits, for inference on a CPU."""

from glassformer.errors import ConfigError
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear import Linear
from glassformer.layers.lora import LoRALinear
from glassformer.layers.packed import Bits
from glassformer.models.transformer import Transformer

FORMATS: tuple[Bits, ...] = ("fp16", "bf16", "int8", "int4")


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
    for name, module in named:
        if isinstance(module, LanguageModelHead) or (
            isinstance(module, Linear) and ".blocks." in name
        ):
            module.pack(bits)
