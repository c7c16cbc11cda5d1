"""What can be known of each choice of a decoding loop: the token among its alternatives, and what
it was read from.

    for step in decode(model, prompts, config, watch=Watch(top=20, attention=True)):
        step.choices[0].alternatives

Watching changes no choice, and without it nothing is computed. All results are plain numbers and
lists of them, ready for JSON by `dataclasses.asdict`.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.generate.logits import likeliest
from glassformer.generate.rows import AttentionRows, RowReader
from glassformer.models.transformer import Features, Transformer, evaluating


@dataclass(frozen=True)
class Watch:
    """What is kept of each choice: the `top` likeliest tokens and, with `attention`, what its
    element looked at.

    `layers` and `heads` choose among the rows of attention; None: all of them.
    """

    top: int = 10
    attention: bool = False
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Alternative:
    """A token that might have been chosen: its probability for the model, and after all
    transforms."""

    id: int
    before: float
    after: float


@dataclass(frozen=True)
class Choice:
    """One chosen token: its probability for the model and after all transforms, and how it stood
    among the others.

    `rank` counts the tokens that the model found likelier (of equals, those of lower ids);
    `entropy` is that of the model's own distribution, -Σ p log₂ p in bits; `alternatives` are its
    likeliest tokens, the chosen one among them if its rank is below their number. `rows` belong to
    the element that the token was read from: the one before it.
    """

    id: int
    before: float
    after: float
    rank: int
    entropy: float
    alternatives: list[Alternative]
    rows: AttentionRows | None = None


def choices(
    logits: Float[Tensor, "N V"],
    left: Float[Tensor, "N V"],
    ids: Int[Tensor, "N"],
    top: int,
    rows: Sequence[AttentionRows | None],
) -> tuple[Choice, ...]:
    """What is known of N choices: the model's logits, what the transforms `left` of them, and the
    chosen ids."""
    logits, left, ids = logits.detach().cpu(), left.detach().cpu(), ids.cpu()[:, None]
    before, after = logits.double().softmax(-1), left.double().softmax(-1)
    best, own = likeliest(logits, top), logits.gather(-1, ids)
    lower = torch.arange(logits.shape[-1]) < ids
    rank = ((logits > own) | ((logits == own) & lower)).sum(-1)
    entropy = torch.special.entr(before).sum(-1) / math.log(2)
    column = lambda table: table.gather(-1, ids)[:, 0].tolist()  # noqa: E731
    numbers = zip(
        ids[:, 0].tolist(),
        column(before),
        column(after),
        rank.tolist(),
        entropy.tolist(),
        strict=True,
    )
    tables = zip(
        best.tolist(),
        before.gather(-1, best).tolist(),
        after.gather(-1, best).tolist(),
        strict=True,
    )
    return tuple(
        Choice(*own_numbers, [Alternative(*one) for one in zip(*table, strict=True)], own_rows)
        for own_numbers, table, own_rows in zip(numbers, tables, rows, strict=True)
    )


class Watcher:
    """Looks on while a model is asked for next tokens; ConfigError: a number that the model does
    not have, `top` 0."""

    def __init__(self, model: Transformer, watch: Watch):
        if watch.top < 1:
            raise ConfigError(
                f"At least 1 alternative is kept of each choice, and top={watch.top}; raise it."
            )
        self.model, self.top = model, watch.top
        self.reader = RowReader(model, watch.layers, watch.heads) if watch.attention else None

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Evaluate the model in the body, which must run its decoder."""
        with evaluating(self.model) if self.reader is None else self.reader.computing():
            yield

    def rows(self, features: Features, firsts: Sequence[int]) -> Sequence[AttentionRows | None]:
        """The rows of attention of the newest element of each row of the batch, None where nobody
        asked for them."""
        if self.reader is None:
            return [None] * len(firsts)
        return [rows[0] for rows in self.reader.rows(features, firsts)]

    def choices(
        self,
        features: Features,
        logits: Float[Tensor, "B V"],
        left: Float[Tensor, "B V"],
        ids: Int[Tensor, "B"],
        firsts: Sequence[int],
    ) -> tuple[Choice, ...]:
        """The choices of one step; `firsts` as for `RowReader.rows`."""
        return choices(logits, left, ids, self.top, self.rows(features, firsts))
