"""A model as a file for llama.cpp and the programs on it, written by the package gguf.

model.gguf

Source: ggml-org/llama.cpp, src/llama-model.cpp.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.core.errors import ConfigError
from glassformer.families.fit import Fit
from glassformer.interop.gguf_tokenizer import add_tokenizer
from glassformer.interop.parity import Plan
from glassformer.interop.targets import transformers as published
from glassformer.layers.position import slowing
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task

if TYPE_CHECKING:
    from gguf import GGUFWriter

LIBRARY, FILE = "llama.cpp", "model.gguf"
KINDS = ("bpe", "byte")
"""Kinds of tokenizers that llama.cpp reads."""

PLAIN = {"rotary_wavelengths": None, "attention_bias": False, "bias": False}
SILU = {"activation": "silu", "window": None}
CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2LMHeadModel": ("gpt2", {"activation": "gelu_tanh"}),
    "LlamaForCausalLM": ("llama", SILU),
    "MistralForCausalLM": ("llama", SILU),
    "Qwen2ForCausalLM": ("llama", SILU),
    "Qwen3ForCausalLM": ("qwen3", SILU | PLAIN),
    "GemmaForCausalLM": ("gemma", PLAIN | {"activation": "gelu_tanh", "tied": True}),
}
"""The architecture of each published class, with the values of fields that it computes."""
ONLY = {name: only for name, (_, only) in CLASSES.items()}
SIZES = {
    "context_length": "max_length",
    "embedding_length": "d_model",
    "block_count": "n_layers",
    "feed_forward_length": "ff_width",
    "head_count": "n_heads",
}
"""Values of the file, and the properties of ModelConfig."""
ROTARY = {
    "head_count_kv": "kv_heads",
    "key_length": "head_width",
    "value_length": "head_width",
    "rope_dimension_count": "head_width",
    "rope_freq_base": "rotary_base",
}
TURNED = re.compile(r".*\.attention\.[qk]_proj\.(weight|bias)")
"""Parameters whose rotary angles turn rows 2i and 2i + 1 in `llama`, here i and i + half."""


def planned(recipe: Recipe) -> Plan:
    """The published class as which a recipe's model would be written."""
    found, own = published.planned(recipe, LIBRARY, ONLY), recipe.processor.tokenizer
    if found.name is None or own.path is not None or own.kind in KINDS:
        return found
    other = f"processor.tokenizer.kind={own.kind!r} (not {' or '.join(KINDS)})"
    return Plan(found.name, (*found.differences, other))


def fitting(model: ModelConfig, task: str) -> Fit:
    """The published class that llama.cpp computes as the model does; ConfigError: as of
    transformers."""
    return published.fitting(model, task, LIBRARY, ONLY)


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the file; returns the published class. ConfigError: none fits, or not its tokenizer, or
    the package gguf is not installed."""
    try:
        import gguf
    except ImportError:
        raise ConfigError(
            "GGUF is written by the package gguf, which is not installed; run pip install "
            "'glassformer[gguf]'."
        ) from None
    fit = fitting(model.config, task.recipe.task)
    writer = gguf.GGUFWriter(folder / FILE, CLASSES[fit.name][0])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_sizes(writer, model.config)
    processor = task.processor
    add_tokenizer(writer, processor.tokenizer, processor.reader.frame, model.config.vocab_size)
    if processor.template is not None:
        writer.add_chat_template(processor.template.text)
    for name, tensor in tensors(fit, model).items():
        writer.add_tensor(name, tensor.detach().cpu().float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return fit.name


def add_sizes(writer: "GGUFWriter", model: ModelConfig) -> None:
    """Add the values of a model's fields."""
    from gguf import RopeScalingType

    epsilon = "layer_norm_eps" if model.norm == "layer" else "layer_norm_rms_eps"
    rotary = ROTARY if model.position == "rotary" else {}
    for name, field in {**SIZES, **rotary, epsilon: "epsilon"}.items():
        getattr(writer, f"add_{name}")(getattr(model, field))
    if model.rotary_factor != 1 and model.rotary_wavelengths is None:
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(model.rotary_factor)


def tensors(fit: Fit, model: Transformer) -> dict[str, Tensor]:
    """The tensors of the file by their names; ConfigError: a weight that has none."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    model_arch = CLASSES[fit.name][0]
    (kind,) = (kind for kind, name in MODEL_ARCH_NAMES.items() if name == model_arch)
    known = get_tensor_name_map(kind, model.config.n_layers)
    ours: dict[str, Tensor] = dict(published.widened(model, fit).named_parameters())
    if model_arch == "llama":
        for name in filter(TURNED.fullmatch, ours):
            halves = ours[name].unflatten(0, (-1, 2, model.config.head_width // 2))
            ours[name] = halves.transpose(1, 2).flatten(0, 2)
    found: dict[str, Tensor] = {}
    for stored in fit.family.layout(fit.head, ours, model.config).values():
        name = known.get_name(stored.name, (".weight", ".bias"))
        if name is None:
            raise ConfigError(
                f"llama.cpp's {model_arch} has no tensor for the weight {stored.ours[0]}, which "
                "would be lost; export it --to transformers."
            )
        found[name] = torch.cat([ours[one] for one in stored.ours])
    if (lengths := model.config.rotary_wavelengths) is not None:
        change = model.config.rotary_base, model.config.rotary_factor, lengths
        found["rope_freqs.weight"] = 1 / slowing(
            model.config.head_width, *change, torch.device("cpu")
        )
    return found


def usage(task: Task, name: str) -> str:
    """The lines that load the file, beside which this one lies."""
    return f"""```python
from llama_cpp import Llama

print(Llama("{FILE}")("The", max_tokens=32))
```"""
