"""All initialization in one table, a function of (seed, parameter name), independent of order and
device.

A row is (pattern of the parameter's name, rule). The first that matches is used; a parameter that
no row matches is an error, so no parameter stays unset.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from glassformer.core.random_stream import seed_from

InitKind = Literal["gpt2", "bert", "xavier", "t5", "modern"]


@dataclass(frozen=True)
class Sizes:
    """Sizes that a rule may use besides the parameter's shape."""

    n_layers: int
    d_head: int
    n_encoder_layers: int | None = None
    """Of a model whose encoder has another depth."""

    def of(self, name: str) -> "Sizes":
        """The sizes of the stack that a parameter stands in."""
        own = self.n_encoder_layers if name.startswith("encoder.") else None
        return self if own is None else Sizes(own, self.d_head)


Rule = Callable[[torch.Tensor, torch.Generator, Sizes], object]


def normal(std: float) -> Rule:
    """N(0, std²)."""
    return lambda p, g, s: p.normal_(0.0, std, generator=g)


def normal_fan_in(gain: float = 1.0) -> Rule:
    """N(0, gain² / fan-in), the fan-in being the last axis."""
    return lambda p, g, s: p.normal_(0.0, gain * p.shape[-1] ** -0.5, generator=g)


def uniform_fan_in(p: torch.Tensor, g: torch.Generator, s: Sizes) -> object:
    """U(-a, a) with a = 1 / √fan-in."""
    a = p.shape[-1] ** -0.5
    return p.uniform_(-a, a, generator=g)


def xavier(p: torch.Tensor, g: torch.Generator, s: Sizes) -> object:
    """U(-a, a) with a = √(6 / (fan-in + fan-out)) (Glorot & Bengio 2010)."""
    a = (6 / (p.shape[0] + p.shape[-1])) ** 0.5
    return p.uniform_(-a, a, generator=g)


def constant(value: float) -> Rule:
    """One value for all entries."""
    return lambda p, g, s: p.fill_(value)


def by_depth(std: float) -> Rule:
    """N(0, std² / 2N), N blocks, so that the stream's variance does not grow with depth
    (Radford et al. 2019)."""
    return lambda p, g, s: p.normal_(0.0, std * (2 * s.n_layers) ** -0.5, generator=g)


FIRST: list[tuple[str, Rule]] = [
    (r"norm\.weight$", constant(1.0)),
    # He et al. 2015, for GELU: a stem has no norms that would rescale its output.
    (r"\.convolutions\.\d+\.weight$", normal_fan_in(1.6)),
    (r"\.bias$", constant(0.0)),
    # Hu et al. 2021: an adapter is 0 at first; A as the authors' code draws it.
    (r"\.lora_a$", uniform_fan_in),
    (r"\.lora_b$", constant(0.0)),
]

TABLE: dict[InitKind, list[tuple[str, Rule]]] = {
    # Radford et al. 2019: 0.02, and less for maps that write to the stream.
    "gpt2": [(r"(out_proj|down_proj)\.weight$", by_depth(0.02)), (r".", normal(0.02))],
    # Devlin et al. 2019: 0.02 everywhere.
    "bert": [(r".", normal(0.02))],
    # Vaswani et al. 2017 as tensor2tensor does it: Glorot for maps, D^-1/2 for the embedding.
    "xavier": [(r"(proj|dense)\.weight$", xavier), (r".", normal_fan_in())],
    # Raffel et al. 2020: fan-in for maps (queries carry the missing 1/√d_k), 1 for the embedding.
    "t5": [
        (
            r"q_proj\.weight$",
            lambda p, g, s: p.normal_(0.0, (p.shape[1] * s.d_head) ** -0.5, generator=g),
        ),
        (r"(element|kind)\.weight$|\.kind$", normal(1.0)),
        (r".", normal_fan_in()),
    ],
    # Zero for maps that write to the stream, so that a new model starts as the identity; fan-in
    # for the rest.
    "modern": [
        (r"(out_proj|down_proj)\.weight$", constant(0.0)),
        (r"(element|kind|position)\.weight$|\.kind$", normal(0.02)),
        (r"^head\.(unembed\.)?weight$", constant(0.0)),
        (r".", normal_fan_in()),
    ],
}


def generator(seed: int, *key: int | str) -> torch.Generator:
    """A CPU generator that depends only on (seed, key)."""
    return torch.Generator("cpu").manual_seed(seed_from(repr((seed, *key))))


@torch.no_grad()
def initialize(
    model: nn.Module,
    kind: InitKind,
    sizes: Sizes,
    seed: int,
    only: Callable[[str], bool] = lambda name: True,
    put: Callable[[torch.Tensor, torch.Tensor], object] = torch.Tensor.copy_,
) -> None:
    """Fill every parameter of `model` (or `only` those of some names) by the table of `kind`; the
    values depend on `seed` and names only, not on the default device. Each parameter is drawn
    whole, one after the other, and `put` there: all of it or a part."""
    rows = FIRST + TABLE[kind]
    for name, parameter in model.named_parameters():
        if not only(name):
            continue
        rule = next((rule for pattern, rule in rows if re.search(pattern, name)), None)
        assert rule is not None, f"no initialization fits {name}"
        values = torch.empty(parameter.shape, dtype=torch.float32, device="cpu")
        rule(values, generator(seed, name), sizes.of(name))
        put(parameter, values)
