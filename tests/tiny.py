"""Models small enough for laws: float64, weights large enough that a mistake shows, no dropout."""

from functools import cache
from typing import Any, get_args

import pytest
import torch
from torch import nn

from glassformer.core.batch import Positions
from glassformer.layers.position.kinds import PositionKind
from glassformer.models import ModelConfig, Transformer

POSITIONS: tuple[PositionKind, ...] = tuple(
    kind for kind in get_args(PositionKind) if not kind.endswith("_2d")
)
"""Those of tokens; a grid is of patches."""
ALIKE = ("sinusoidal", "sinusoidal_halves", "sinusoidal_printed")
"""Positions that are added to elements as `learned` ones are, which stand for them in `make test`
where a test is about what comes after."""
VOCABULARY = 13

# float64 has 16 digits; logits here are below 100 and sums have at most a few hundred terms.
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def usual(*choices: Any) -> list[Any]:
    """Positions, or configurations with one, as parameters of a test; those of `ALIKE` are slow."""
    kind = lambda one: one.get("position") if isinstance(one, dict) else one
    return [
        pytest.param(one, marks=pytest.mark.slow) if kind(one) in ALIKE else one for one in choices
    ]


def config(**changes: Any) -> ModelConfig:
    values = {
        "vocab_size": VOCABULARY,
        "max_length": 32,
        "d_model": 8,
        "n_layers": 2,
        "n_heads": 4,
        "d_ff": 12,
        "max_distance": 20,
        "n_buckets": 8,
    }
    return ModelConfig.parse(values | changes)


def stir(model: nn.Module, std: float = 0.4) -> nn.Module:
    """Weights that make every part matter: maps N(0, std²), norms around 1, biases not 0."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        mean = 1.0 if name.endswith("norm.weight") else 0.0
        parameter.data.normal_(mean, std, generator=generator)
    return model


@cache
@torch.inference_mode(False)  # the first test that wants it may be in that mode
def _built(choices: ModelConfig) -> Transformer:
    return stir(Transformer(choices).double()).eval()  # pyright: ignore[reportReturnType]


def model(**changes: Any) -> Transformer:
    """A stirred float64 model; one object for one configuration, so a test must not change it."""
    return _built(config(**changes))


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def piece(positions: Positions, begin: int, end: int) -> Positions:
    """The positions of the slots begin .. end-1."""
    part = lambda t: None if t is None else t[:, begin:end]
    start = None if positions.start is None else positions.start + begin
    return Positions(
        positions.position[:, begin:end], part(positions.document), part(positions.valid), start
    )
