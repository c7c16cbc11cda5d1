"""Attention rows of a decoder's newest elements, computed beside the forward pass.

    q of the last n elements (from a tape)  ·  k of all elements (from the cache)
        ->   softmax(q kᵀ · scale + ...)

The forward pass uses the fused kernel as always, so that looking changes no number and no whole
pattern is held.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Positions
from glassformer.errors import ConfigError
from glassformer.layers.attend import attention_pattern
from glassformer.layers.attention import Attention, AttentionContext
from glassformer.layers.cache import Layers
from glassformer.layers.stack import source_context
from glassformer.layers.tap import Tape, recorded, recording
from glassformer.models.transformer import Features, Transformer, evaluating


@dataclass(frozen=True)
class AttentionRows:
    """Attention weights [layer][head][element] of one element when the next token was read from it.

    `own` runs over the elements `first` .. itself, patches included (those before `first` have left
    the context), `cross` over the source's (empty without an encoder). `layers` and `heads` are the
    numbers of the first two axes.
    """

    layers: list[int]
    heads: list[int]
    first: int
    own: list[list[list[float]]]
    cross: list[list[list[float]]]


class RowReader:
    """Attention rows of a decoder's last elements, at these layers and heads (None: all).

    ConfigError: a layer or head that the model does not have.
    """

    def __init__(
        self, model: Transformer, layers: Sequence[int] | None, heads: Sequence[int] | None
    ):
        config = model.config
        self.model = model
        self.layers = _numbers(layers, config.n_layers, "layer")
        self.heads = _numbers(heads, config.n_heads, "head")
        self.sites = (
            ("attention", "cross") if config.architecture == "encoder_decoder" else ("attention",)
        )
        self.queries: dict[str, Tensor] = {}
        """Queries of the last computation, by point."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Evaluation mode for the body, which must run the decoder; its queries are kept.

        ConfigError: another tape is active, which would record nothing under this one.
        """
        if recorded():
            raise ConfigError(
                "Rows of attention are kept by a tape of their own and another is active; "
                "leave it first."
            )
        tape = Tape(
            self.model,
            keep=tuple(_point(layer, site) for layer in self.layers for site in self.sites),
        )
        with evaluating(self.model), recording(tape):
            yield
        self.queries = tape.kept

    def rows(
        self, features: Features, firsts: Sequence[int], n: int = 1
    ) -> list[list[AttentionRows]]:
        """Attention rows of the last `n` elements of each batch row just computed, oldest first.

        `firsts`: number of elements of each row that have left the context and the cache.
        """
        assert self.model.decoder is not None
        assert features.cache is not None
        assert features.cache.positions is not None
        query, key, source = _last(features.positions, n), features.cache.positions, features.memory
        with torch.inference_mode():
            context = self.model.decoder.context(
                query, key, torch.promote_types(features.hidden.dtype, torch.float32)
            )
            own, cross = self._patterns("attention", context, features.cache.own, n), None
            if source is not None:
                context = source_context(query, source.positions)
                cross = self._patterns("cross", context, features.cache.cross, n)
        return [
            [
                AttentionRows(
                    self.layers,
                    self.heads,
                    first,
                    _real(own[row, :, :, at], key, row, key.length - n + 1 + at),
                    []
                    if cross is None or source is None
                    else _real(cross[row, :, :, at], source.positions, row),
                )
                for at in range(n)
            ]
            for row, first in enumerate(firsts)
        ]

    def _patterns(
        self, site: str, context: AttentionContext, kept: Layers, n: int
    ) -> Float[Tensor, "B L H T S"]:
        found: list[Tensor] = []
        for layer in self.layers:
            queries = self.queries[_point(layer, site)][:, :, -n:]
            module = self.model.get_submodule(f"decoder.blocks.{layer}.{site}")
            assert isinstance(module, Attention)
            scores = module.scores(queries, kept[layer][0], context)
            found.append(attention_pattern(scores)[:, self.heads].cpu())
        return torch.stack(found, 1)


def _point(layer: int, site: str) -> str:
    return f"decoder.blocks.{layer}.{site}.q"


def _numbers(wanted: Sequence[int] | None, n: int, what: str) -> list[int]:
    chosen = list(range(n)) if wanted is None else list(wanted)
    if wrong := [number for number in chosen if not 0 <= number < n]:
        raise ConfigError(
            f"There is no {what} {wrong[0]} in this model; its {what}s are 0 to {n - 1}."
        )
    return chosen


def _last(positions: Positions, n: int) -> Positions:
    """Positions of the last n elements."""
    part = lambda t: None if t is None else t[:, -n:]  # noqa: E731
    start = None if positions.start is None else positions.start + positions.length - n
    return Positions(
        positions.position[:, -n:], part(positions.document), part(positions.valid), start
    )


def _real(
    weights: Float[Tensor, "L H S"], positions: Positions, row: int, end: int | None = None
) -> list[list[list[float]]]:
    """Weights of a row on its real elements before slot `end`."""
    weights = weights[:, :, :end]
    if positions.valid is not None:
        weights = weights[:, :, positions.valid[row if len(positions.valid) > 1 else 0, :end].cpu()]
    return weights.tolist()
