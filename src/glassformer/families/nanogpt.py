"""State dictionaries of nanoGPT and minGPT (Karpathy 2020, 2022): GPT-2 with ordinary linear maps.

They have no `config.json`; `docs/published-models.md` shows how one is written beside them.
"""

from dataclasses import replace

from glassformer.families.family import Family, Head, Named
from glassformer.families.gpt2 import GPT2

SIZES: dict[str, str | Named] = {
    "vocab_size": "vocab_size",
    "max_length": "block_size",
    "d_model": "n_embd",
    "n_layers": "n_layer",
    "n_heads": "n_head",
    "activation": Named("activation_function"),
}
GPT = Head("text-generation", "documents", {"head": "lm"}, "head  lm_head")
NANOGPT = Family(
    model_type="nanogpt",
    library="nanoGPT",
    prefix="transformer",
    fixed={**GPT2.fixed, "tied": True},
    fields={**SIZES, "attention_bias": "bias", "bias": "bias", "dropout": "dropout"},
    defaults={"bias": True, "activation_function": "gelu"},
    tensors=GPT2.tensors.replace("transposed", ""),
    heads={"GPT": GPT},
    tied=GPT2.tied,
    unused=GPT2.unused,
)
MINGPT = replace(
    NANOGPT,
    model_type="mingpt",
    library="minGPT",
    fixed={**GPT2.fixed, "tied": False},
    fields={**SIZES, "dropout": "resid_pdrop", "attention_dropout": "attn_pdrop"},
    defaults={"activation_function": "gelu_new"},
    tied={},
)
