"""Tiny models of every family and flag, by the published implementation (transformers), and inputs
of each kind.

One module, so that one worker pays for importing transformers.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from glassformer.tokenizers.definition import word_definition
from glassformer.tokenizers.text import Tokenizer
from published_others import mingpt, nanogpt

transformers = pytest.importorskip("transformers", reason="the oracle of these tests")

SIZES = {
    "vocab_size": tiny.VOCABULARY, "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
LLAMA = SIZES | {
    "num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip
BERT = SIZES | {"max_position_embeddings": 16, "type_vocab_size": 3, "layer_norm_eps": 1e-12}
ROBERTA = BERT | {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 18}
DISTILBERT = {
    "vocab_size": tiny.VOCABULARY, "dim": 8, "hidden_dim": 12, "n_layers": 2, "n_heads": 2,
    "max_position_embeddings": 16,
}  # fmt: skip
GPT2 = {
    "vocab_size": tiny.VOCABULARY, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 80,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
T5 = {
    "vocab_size": tiny.VOCABULARY, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_layers": 2,
    "num_heads": 4, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}  # fmt: skip
SIDES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"layers": 2, "attention_heads": 2, "ffn_dim": 12}.items()
}
BART = SIDES | {
    "vocab_size": tiny.VOCABULARY, "d_model": 8, "max_position_embeddings": 40,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}  # fmt: skip
MARIAN = BART | {"pad_token_id": 12, "eos_token_id": 0, "decoder_start_token_id": 12}
VIT = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "image_size": 8, "patch_size": 4, "layer_norm_eps": 1e-6,
}  # fmt: skip
LINEAR = {"rope_scaling": {"rope_type": "linear", "factor": 3.0}, "rope_theta": 500.0}
LLAMA3 = {
    "rope_theta": 500.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # of heads of 4: one wavelength is kept, one is divided; of 8, one is in between
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A published model: its class, its configuration's values, and what it reads."""

    model: str
    config: str
    values: dict[str, Any] = field(default_factory=dict)
    reads: str = "tokens"
    write: Callable[[Any, Path], None] | None = None
    """Write it as another program would; the published implementation's own files are in the folder
    `oracle`."""


def _case(name: str, values: dict[str, Any], reads: str = "tokens", **flags: Any) -> Case:
    stem = next(stem for stem in CONFIGS if name.startswith(stem))
    return Case(name, CONFIGS[stem], values | flags, reads)


def _of(
    write: Callable[[Any, Path], None], name: str, values: dict[str, Any], **flags: Any
) -> Case:
    return replace(_case(name, values, **flags), write=write)


CONFIGS = {
    "GPT2": "GPT2Config", "Llama": "LlamaConfig", "Mistral": "MistralConfig",
    "Qwen2": "Qwen2Config", "Qwen3": "Qwen3Config", "Gemma": "GemmaConfig", "Bert": "BertConfig",
    "Roberta": "RobertaConfig", "XLMRoberta": "XLMRobertaConfig", "Camembert": "CamembertConfig",
    "DistilBert": "DistilBertConfig", "T5": "T5Config", "Bart": "BartConfig",
    "Marian": "MarianConfig", "ViT": "ViTConfig", "DeiT": "DeiTConfig",
}  # fmt: skip
CASES: dict[str, Case] = {
    "gpt2": _case("GPT2LMHeadModel", GPT2),
    "gpt2-untied": _case("GPT2LMHeadModel", GPT2, tie_word_embeddings=False, n_inner=20),
    "gpt2-relu": _case("GPT2LMHeadModel", GPT2, activation_function="relu"),
    "gpt2-trunk": _case("GPT2Model", GPT2),
    "gpt2-tags": _case("GPT2ForTokenClassification", GPT2, num_labels=3),
    "llama": _case("LlamaForCausalLM", LLAMA),
    "llama-tied": _case("LlamaForCausalLM", LLAMA, tie_word_embeddings=True, head_dim=6),
    "llama-biases": _case("LlamaForCausalLM", LLAMA, attention_bias=True, mlp_bias=True),
    "llama-attention-bias": _case("LlamaForCausalLM", LLAMA, attention_bias=True),
    "llama-mlp-bias": _case("LlamaForCausalLM", LLAMA, mlp_bias=True),
    "llama-linear": _case("LlamaForCausalLM", LLAMA, **LINEAR),
    "llama-3": _case("LlamaForCausalLM", LLAMA, head_dim=8, **LLAMA3),
    "llama-trunk": _case("LlamaModel", LLAMA),
    "llama-classes": _case("LlamaForSequenceClassification", LLAMA, num_labels=3),
    "llama-tags": _case("LlamaForTokenClassification", LLAMA, num_labels=3),
    "mistral": _case("MistralForCausalLM", LLAMA, sliding_window=3),
    "mistral-whole": _case("MistralForCausalLM", LLAMA, sliding_window=None),
    "qwen2": _case("Qwen2ForCausalLM", LLAMA),
    "qwen3": _case("Qwen3ForCausalLM", LLAMA, head_dim=4),
    "qwen3-bias": _case("Qwen3ForCausalLM", LLAMA, head_dim=6, attention_bias=True),
    "gemma": _case("GemmaForCausalLM", LLAMA, head_dim=4),
    "gemma-untied": _case("GemmaForCausalLM", LLAMA, head_dim=4, tie_word_embeddings=False),
    "bert": _case("BertModel", BERT, "pairs"),
    "bert-no-pooler": _case("BertModel", BERT, "pairs"),
    "bert-masked": _case("BertForMaskedLM", BERT, "pairs"),
    "bert-masked-relu": _case("BertForMaskedLM", BERT, "pairs", hidden_act="relu"),
    "bert-untied": _case("BertForMaskedLM", BERT, "pairs", tie_word_embeddings=False),
    "bert-pretraining": _case("BertForPreTraining", BERT, "pairs"),
    "bert-classes": _case("BertForSequenceClassification", BERT, "pairs", num_labels=3),
    "bert-tags": _case("BertForTokenClassification", BERT, "pairs", num_labels=3),
    "roberta": _case("RobertaModel", ROBERTA),
    "roberta-masked": _case("RobertaForMaskedLM", ROBERTA),
    "roberta-classes": _case("RobertaForSequenceClassification", ROBERTA, num_labels=3),
    "roberta-tags": _case("RobertaForTokenClassification", ROBERTA, num_labels=3),
    "xlm-roberta": _case("XLMRobertaForMaskedLM", ROBERTA),
    "camembert-masked": _case("CamembertForMaskedLM", ROBERTA),
    "camembert": _case("CamembertForSequenceClassification", ROBERTA, num_labels=3),
    "distilbert": _case("DistilBertModel", DISTILBERT),
    "distilbert-masked": _case("DistilBertForMaskedLM", DISTILBERT, activation="relu"),
    "distilbert-classes": _case("DistilBertForSequenceClassification", DISTILBERT, num_labels=3),
    "distilbert-tags": _case("DistilBertForTokenClassification", DISTILBERT, num_labels=3),
    "t5": _case("T5ForConditionalGeneration", T5, "sources"),
    "t5-1.1": _case(
        "T5ForConditionalGeneration", T5, "sources",
        feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    ),
    "t5-gated-silu": _case("T5ForConditionalGeneration", T5, "sources",
                           feed_forward_proj="gated-silu"),
    "t5-deep": _case("T5ForConditionalGeneration", T5, "sources", num_decoder_layers=3),
    "bart": _case("BartForConditionalGeneration", BART, "sources"),
    "bart-scaled": _case("BartForConditionalGeneration", BART, "sources", scale_embedding=True,
                         activation_function="relu"),
    "bart-shallow": _case("BartForConditionalGeneration", BART, "sources", encoder_layers=3,
                          decoder_layers=1),
    "marian": _case("MarianMTModel", MARIAN, "sources", scale_embedding=True,
                    activation_function="swish"),
    "vit": _case("ViTForImageClassification", VIT, "pixels", num_labels=5),
    "vit-wide": _case("ViTForImageClassification", VIT, "pixels", num_labels=5,
                      image_size=[8, 12], patch_size=[4, 2], qkv_bias=False),
    "vit-pooler": _case("ViTModel", VIT, "pixels", pooler_act="tanh"),
    "deit-teacher": _case("DeiTForImageClassificationWithTeacher", VIT, "pixels", num_labels=5),
    "deit": _case("DeiTForImageClassification", VIT, "pixels", num_labels=5, image_size=[8, 12]),
    "deit-pooler": _case("DeiTModel", VIT, "pixels"),
    "nanogpt": _of(nanogpt, "GPT2LMHeadModel", GPT2, activation_function="gelu"),
    "nanogpt-plain": _of(partial(nanogpt, bias=False), "GPT2LMHeadModel", GPT2,
                         activation_function="gelu"),
    "mingpt": _of(mingpt, "GPT2LMHeadModel", GPT2, tie_word_embeddings=False),
}  # fmt: skip


def save(name: str, folder: Path, **changes: Any) -> None:
    """Write a case's model with stirred weights, as its users would."""
    case = CASES[name]
    config = getattr(transformers, case.config)(**case.values | changes)
    options = {"add_pooling_layer": False} if name == "bert-no-pooler" else {}
    oracle = tiny.stir(getattr(transformers, case.model)(config, **options))
    for buffer, values in oracle.named_buffers():
        if buffer == "final_logits_bias":
            values.normal_(generator=torch.Generator().manual_seed(3))
    if case.write is None:
        oracle.save_pretrained(folder)
        return
    folder.mkdir(exist_ok=True)
    case.write(oracle, folder)
    oracle.save_pretrained(folder / "oracle")


def complete(name: str, folder: Path, **changes: Any) -> Path:
    """The same folder with what a published one has beside: a tokenizer, or how images are
    read."""
    save(name, folder, **changes)
    if CASES[name].reads == "pixels":
        size = CASES[name].values["image_size"]
        height, width = size if isinstance(size, list) else (size, size)
        half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
        values = {"size": {"height": height, "width": width}, "resample": 2, **half}
        (folder / "preprocessor_config.json").write_text(json.dumps(values))
        return folder
    words = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]
    definition = word_definition(words, lowercase=True)
    assert len(definition["model"]["vocab"]) + 4 == tiny.VOCABULARY
    tokenizer = Tokenizer(definition)
    tokenizer.with_frame(tokenizer.frame_or("bos", "eos")).save(folder / "tokenizer.json")
    return folder


@contextmanager
def _float64_for_float32() -> Iterator[None]:
    """Let the published code compute in float64 what it computes in float32 whatever its weights:
    rotary angles, norms, some softmaxes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("float32", "float"):
            patch.setattr(torch, name, torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def oracle(name: str, folder: Path) -> Any:
    """The published implementation, opened from a folder."""
    options = {"add_pooling_layer": False} if name == "bert-no-pooler" else {}
    folder = folder / "oracle" if CASES[name].write else folder
    return getattr(transformers, CASES[name].model).from_pretrained(folder, **options).eval()


@contextmanager
def exact(model: Any) -> Iterator[Any]:
    """A published model in float64, with everything that it computes."""
    with _float64_for_float32():
        model.double()
        for module in model.modules():
            if "Rotary" in type(module).__name__:  # its angles were computed once
                module.__init__(module.config)
            elif "SinusoidalPositional" in type(module).__name__:
                count, width = module.weight.shape
                k = torch.arange(width // 2, dtype=torch.float64)
                angle = torch.arange(count, dtype=torch.float64)[:, None] / 10000 ** (2 * k / width)
                module.weight.data = torch.cat([angle.sin(), angle.cos()], 1)
            elif hasattr(module, "scalar_embed_scale"):
                scale = torch.tensor(module.scalar_embed_scale, dtype=torch.float64)
                module.embed_scale = scale
        yield model
