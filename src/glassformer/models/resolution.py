"""A trained model of patches for another image size: the same weights, positions interpolated."""

import torch

from glassformer.errors import ConfigError
from glassformer.layers.interpolation import interpolated
from glassformer.layers.lora import plain_parameters
from glassformer.layers.position import LearnedPosition
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer

OF_A_GRID = ("learned", "sinusoidal_2d", "rotary_2d", "none")
"""Kinds of positions that are defined for another grid; the others count along the rows."""


def at_grid(model: Transformer, grid: tuple[int, int]) -> Transformer:
    """A copy of the model for images of `grid` rows and columns of patches.

    Learned positions are interpolated over the image (Dosovitskiy et al. 2021, section 3.2);
    sinusoidal and rotary ones of rows and columns extend. ConfigError: a model without a grid, or
    with positions of another kind.
    """
    old, kind = model.config.grid, model.config.position
    if old is None:
        raise ConfigError(
            "This model has no model.grid, so it is not known how its patches lie; set it."
        )
    if kind not in OF_A_GRID:
        raise ConfigError(
            f"Positions of kind {kind!r} have no columns; use a model with one of "
            f"{', '.join(OF_A_GRID)}."
        )
    changed = {"grid": grid, "max_length": grid[0] * grid[1]}
    first = next(model.parameters())
    made = Transformer(
        ModelConfig.parse(model.config.model_dump() | changed), seed=None, device=first.device
    )
    made.to(first.dtype).train(model.training)
    weights = dict(plain_parameters(model))
    learned = "embed.position.weight" if isinstance(model.embed.position, LearnedPosition) else None
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(
                interpolated(weights[name], old, grid) if name == learned else weights[name]
            )
    return made
