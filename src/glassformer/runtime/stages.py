"""The distribution of the next token under the model, and after each transform in turn.

model ─> repetition_penalty ─> temperature ─> top_k ─> top_p ─> min_p, from which a token is sampled
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.constraints import Rows
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.sampling import likeliest, transformed


@dataclass(frozen=True)
class Stages:
    """A distribution for each stage, in float64; the first is the model's own, a token is sampled
    from the last."""

    names: tuple[str, ...]
    probabilities: Float[Tensor, "_ V"]

    def __getitem__(self, name: str) -> Float[Tensor, "V"]:
        """The distribution after a stage; ConfigError: there is no such stage."""
        if name not in self.names:
            raise ConfigError(f"There is no stage {name!r}; {suggest(name, self.names)}")
        return self.probabilities[self.names.index(name)]

    def likeliest(self, n: int = 20) -> Int[Tensor, "K"]:
        """The ids of the n tokens that are likeliest under the model itself, in order; of equals,
        the lower first."""
        return likeliest(self.probabilities[:1], n)[0]


def stages(
    logits: Float[Tensor, "V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    *,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    seen: Sequence[int] = (),
) -> Stages:
    """The stages of one row of logits, by the transforms of the decoding loop.

    p = softmax(u) at each stage. `seen`: ids that the repetition penalty counts; a temperature of 0
    leaves only the likeliest token. Errors: a value out of its range, logits that are not numbers.
    """
    config = GenerateConfig.parse(
        {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
    )
    check_numbers(logits)
    row = logits.detach().cpu()[None]
    found = dict(transformed(row, Rows([seen]), config))
    rows = {"model": row, "repetition_penalty": found.pop("constraints"), **found}
    return Stages(tuple(rows), torch.cat([one.double().softmax(-1) for one in rows.values()]))
