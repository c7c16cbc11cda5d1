"""The families of published models that are known, by their `model_type`."""

from glassformer.interop.families.bart import BART, MARIAN
from glassformer.interop.families.bert import BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from glassformer.interop.families.gpt2 import GPT2
from glassformer.interop.families.llama import GEMMA, LLAMA, MISTRAL, QWEN2, QWEN3
from glassformer.interop.families.llama2c import LLAMA2C
from glassformer.interop.families.nanogpt import MINGPT, NANOGPT
from glassformer.interop.families.t5 import T5
from glassformer.interop.families.vit import DEIT, VIT
from glassformer.interop.family import Family

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        *(GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA),
        *(BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT),
        *(T5, BART, MARIAN, VIT, DEIT),
        *(NANOGPT, MINGPT, LLAMA2C),
    )
}
