"""Models of a few numbers, each filled with one."""

from collections.abc import Mapping

import torch

from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import load_tensors
from glassformer.training.checkpoint import Checkpoints, State, trained
from glassformer.training.part_files import Part

CONFIG = {"vocab_size": 5, "d_model": 4, "n_layers": 1, "n_heads": 1}


def model(fill: float = 0.0) -> Transformer:
    made = Transformer(ModelConfig.parse(CONFIG))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(fill)
    return made


def saved(
    checkpoints: Checkpoints, of: Transformer, optimizer: Mapping[str, torch.Tensor], state: State
) -> None:
    """Save as one process does."""
    checkpoints.save(Part(trained(of)), Part(optimizer), state)


def moments(checkpoints: Checkpoints, step: int) -> dict[str, torch.Tensor]:
    """What a checkpoint holds of an optimizer."""
    return load_tensors(checkpoints.path(step) / "optimizer.safetensors")
