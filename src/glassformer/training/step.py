"""One optimization step: the gradient of the mean loss over all targets of the step, clipped,
applied.

The batch may be computed in parts: the loss is summed over all of them and divided once by the
number of targets of the whole step, so the parts change nothing but memory. They are computed one
after the other, or at the same time by as many threads.
"""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import torch
from torch import nn

from glassformer.axes import Tensor
from glassformer.batch import Batch
from glassformer.errors import TrainingError
from glassformer.layers.dropout import drawn_by
from glassformer.losses import LossSum, cross_entropy, divergence
from glassformer.models.cost import training_flops
from glassformer.models.transformer import Output
from glassformer.recipe.recipe import Recipe
from glassformer.training.optimizer import Optimizer

Loss = Callable[[Tensor, Tensor], LossSum]
"""Of logits and targets."""


@dataclass(frozen=True)
class StepResult:
    """The mean loss per target of a step, in nats, the norm of its gradient before clipping, and
    its elements."""

    loss: float
    gradient_norm: float
    elements: int


def dropout_seed(seed: int, step: int, part: int) -> int:
    """The seed of all dropout in one part of one step."""
    return (
        int.from_bytes(
            hashlib.sha256(f"dropout:{seed}:{step}:{part}".encode()).digest()[:8], "little"
        )
        >> 1
    )


def flops(recipe: Recipe, length: int) -> float:
    """Operations for an element in training, of both passes where there are two."""
    train = recipe.train
    once = training_flops(recipe.model, length, recipe.predicted_fraction, train.finetune.passes)
    return once * train.forward_passes


def training_step(
    model: Callable[[Batch], Output],
    parameters: Sequence[Tensor],
    optimizer: Optimizer,
    batches: Sequence[Batch],
    *,
    seed: int,
    step: int,
    factor: float,
    precision: torch.dtype,
    max_grad_norm: float,
    loss: Loss = cross_entropy,
    consistency: float = 0.0,
    independent: bool = False,
    threads: Executor | None = None,
    compiled: bool = False,
) -> StepResult:
    """Run one step on the parts of its batch; a loss or gradient that is not finite raises and
    changes nothing.

    With a `consistency`, each part is computed twice with different dropout (see `total_loss`).
    """
    n_targets = sum(batch.n_targets for batch in batches)
    if not n_targets:
        raise TrainingError(
            f"Step {step} has no target to learn from; check the data with `glassformer data show`."
        )
    device = parameters[0].device

    def mean_loss(batch: Batch, own: int) -> Tensor:
        cast = torch.autocast(device.type, precision, enabled=precision != torch.float32)
        assert batch.targets is not None
        batch, targets = batch.to(device), batch.targets.to(device)
        with cast, drawn_by(own, device, compiled):
            passes = [model(batch).logits for _ in range(1 + (consistency > 0))]
        return total_loss(passes, targets, loss, consistency, independent) / n_targets

    seeds = [dropout_seed(seed, step, part) for part in range(len(batches))]
    if threads is None:
        total = _in_turn(mean_loss, batches, seeds)
    else:
        total = _in_parallel(mean_loss, batches, seeds, parameters, threads)
    norm = float(nn.utils.clip_grad_norm_(parameters, max_grad_norm or torch.inf))
    if not (abs(total) < torch.inf and norm < torch.inf):
        for parameter in parameters:
            parameter.grad = None
        what = f"loss is {total}" if not abs(total) < torch.inf else f"gradient's norm is {norm}"
        raise TrainingError(f"At step {step} the {what}.")
    optimizer.step(factor)
    return StepResult(total, norm, sum(batch.n_elements for batch in batches))


def total_loss(
    passes: Sequence[Tensor], targets: Tensor, loss: Loss, consistency: float, independent: bool
) -> Tensor:
    """The summed loss of the logits of one pass; of two, the mean of both and `consistency` times
    their divergence (`independent`: of classes by sigmoids; see `losses.divergence`)."""
    first, *again = passes
    total = loss(first, targets).total
    for second in again:
        apart = divergence(first, second, targets, independent)
        total = (total + loss(second, targets).total) / 2 + consistency * apart
    return total


def _in_turn(
    mean_loss: Callable[[Batch, int], Tensor], batches: Sequence[Batch], seeds: Sequence[int]
) -> float:
    """Add the gradients of each part; the sum of the losses."""
    total = 0.0
    for batch, own in zip(batches, seeds, strict=True):
        part_loss = mean_loss(batch, own)
        part_loss.backward()
        total += part_loss.item()
    return total


def _in_parallel(
    mean_loss: Callable[[Batch, int], Tensor],
    batches: Sequence[Batch],
    seeds: Sequence[int],
    parameters: Sequence[Tensor],
    threads: Executor,
) -> float:
    """The same with parts at the same time, added in the order of the parts, so that the sum is
    always the same."""
    learned = [parameter for parameter in parameters if parameter.requires_grad]

    def gradients(batch: Batch, own: int) -> tuple[float, tuple[Tensor | None, ...]]:
        part_loss = mean_loss(batch, own)
        return part_loss.item(), torch.autograd.grad(part_loss, learned, allow_unused=True)

    total = 0.0
    for part_total, found in threads.map(gradients, batches, seeds):
        total += part_total
        for parameter, gradient in zip(learned, found, strict=True):
            if gradient is not None:
                before = parameter.grad
                parameter.grad = gradient if before is None else before.add_(gradient)
    return total
