"""The families of published models that are known, by their `model_type`."""

from glassformer.families.bart import BART, MARIAN
from glassformer.families.bert import BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from glassformer.families.family import Family
from glassformer.families.gpt2 import GPT2, MINGPT, NANOGPT
from glassformer.families.llama import GEMMA, LLAMA, MISTRAL, QWEN2, QWEN3
from glassformer.families.t5 import T5
from glassformer.families.vit import DEIT, VIT

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        *(GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA),
        *(BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT),
        *(T5, BART, MARIAN, VIT, DEIT),
        *(NANOGPT, MINGPT),
    )
}
