"""Small models with adapters that matter."""

import torch

import variants
from glassformer import finetune
from glassformer.layers.init import generator
from glassformer.layers.lora import adapters
from glassformer.models import Transformer
from glassformer.models.transformer import evaluating


def adapted(variant: str = "causal learned", targets=("all",), stirred: bool = True):
    """A float64 model with adapters, their B not 0 if `stirred`, and a row that it reads."""
    model, batch = variants.made(variant, torch.float64)
    finetune.add_adapters(model, rank=3, alpha=5.0, targets=targets)
    if stirred:
        stir(model)
    return model, batch


def stir(model: Transformer) -> None:
    for name, one in adapters(model).items():
        one.lora_b.data.normal_(0.0, 0.3, generator=generator(0, name))


def logits(model, batch) -> torch.Tensor:
    with evaluating(model):
        return model(batch).logits.clone()
