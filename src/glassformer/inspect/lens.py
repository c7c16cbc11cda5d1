"""The logit lens: the answer of the model if it stopped after a block.

    stream after the embedding ──┐
    stream after block 1       ──┼──> final norm ──> head ──> the k likeliest outcomes
    ...                        ──┘

The final norm and the head are those of the end ("raw"): a middle layer need not speak their
language, and an unlikely answer there says nothing against it. After the last block it is the
model's own answer. Cells are computed in portions, to spare memory. Source: nostalgebraist 2020,
interpreting GPT: the logit lens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import Look, log_softmax
from glassformer.inspect.points import check_number
from glassformer.inspect.target import index_in
from glassformer.layers.heads import ClassifyHead
from glassformer.models.transformer import evaluating

NUMBERS = 1 << 24
"""Logits in memory at the same time."""


@dataclass(frozen=True)
class Lens:
    """The k likeliest outcomes after each of `layers` (0: the embedding) at each of `positions`.

    Likeliest first. Of a head that pools there is one answer to the sequence: `positions` is empty
    and the second axis is 1. In multi-label, outcomes are independent. `of_target` is the
    probability of the target.
    """

    layers: tuple[int, ...]
    positions: tuple[int, ...]
    ids: Int[Tensor, "L T _"]
    probabilities: Float[Tensor, "L T _"]
    of_target: Float[Tensor, "L T"] | None = None


def lens(
    look: Look,
    k: int = 5,
    *,
    layers: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
    target: int | Sequence[int] | None = None,
) -> Lens:
    """Answers after `layers` (0 .. L; None: all) at `positions` (None: all) of the answering stack.

    `target`: an outcome, or one for each position. ConfigError: no such layer, position or outcome,
    a head without probabilities, or weights that have changed since the look.
    """
    depth, length = look.model.config.n_layers + 1, look.positions().length
    layers = tuple(range(depth) if layers is None else layers)
    if isinstance(look.model.head, ClassifyHead):
        if positions:
            raise ConfigError(
                "This head answers to the whole sequence, so the lens has no positions; leave them "
                "out."
            )
        positions = ()
    positions = range(length) if positions is None else positions
    positions = tuple(index_in(position, length) for position in positions)
    for layer in layers:
        check_number("layer", layer, depth)
    look.rerun()  # whose norm and head read the stream
    shape = len(layers), max(1, len(positions))
    targets = [target or 0] * shape[1] if target is None or isinstance(target, int) else target
    for outcome in targets:
        check_number("outcome", outcome, look.logits.shape[-1])
    found, left = [], torch.tensor([*targets] * len(layers))
    for logs in log_probabilities(look, layers, positions):
        values, ids = logs.topk(min(k, logs.shape[-1]))
        own, left = left.tensor_split([len(logs)])
        found.append((ids, values.exp(), logs.gather(-1, own[:, None])[:, 0].exp()))
    ids, probabilities, wanted = (
        torch.cat(parts).unflatten(0, shape) for parts in zip(*found, strict=True)
    )
    return Lens(layers, positions, ids, probabilities, None if target is None else wanted)


def log_probabilities(
    look: Look, layers: Sequence[int], positions: Sequence[int]
) -> Iterator[Float[Tensor, "_ _"]]:
    """ln p of every outcome, layer by layer and in each by position, some cells at a time.

    `positions` is empty for a head that pools.
    """
    model, norm, head = look.model, look.stack().norm, look.model.head
    portion = max(1, NUMBERS // look.logits.shape[-1])
    for layer in layers:
        stream = look.stream(layer)
        for hidden in stream[list(positions)].split(portion) if positions else (stream[None],):
            with evaluating(model), torch.inference_mode(False), torch.no_grad():
                logits = head(hidden if norm is None else norm(hidden), look.positions())
            yield log_softmax(model, logits).cpu()
