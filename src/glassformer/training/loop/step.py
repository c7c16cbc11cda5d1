"""One optimization step: the gradient of the mean loss over all targets of the step, clipped,
applied.

The batch may be computed in parts: the loss is summed over all of them and divided once by the
number of targets of the whole step, so the parts change nothing but memory. They are computed one
after the other, at the same time by as many threads, or by several processes, each with its share.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import torch

from glassformer.core.axes import Tensor
from glassformer.core.batch import Batch
from glassformer.core.distributed.processes import Tree
from glassformer.core.errors import TrainingError
from glassformer.core.random_stream import seed_from
from glassformer.data.collate import Share
from glassformer.layers.dropout import drawn_by
from glassformer.layers.losses import EXCLUSIVE, LossSum, Outcomes, cross_entropy
from glassformer.models.cost import training_flops
from glassformer.models.transformer import Output
from glassformer.recipe.recipe import Recipe
from glassformer.training.loop.optimizer import Optimizer, clip_gradients
from glassformer.training.parallel.division import UNDIVIDED, Division

Loss = Callable[[Tensor, Tensor], LossSum]
"""Of logits and targets."""
Part = tuple[int, Batch]
"""The number of a micro-batch in its step, and the micro-batch."""
Gradients = Sequence[Tensor | None]
"""Of each parameter; None: nothing depends on it."""


@dataclass(frozen=True)
class StepResult:
    """The mean loss per target of a step, in nats, the norm of its gradient before clipping, and
    its elements."""

    loss: float
    gradient_norm: float
    elements: int


class NotFiniteError(TrainingError):
    """A loss or gradient that is not finite; `part`: the micro-batch that it comes from, if it is
    known."""

    def __init__(self, message: str, part: int | None):
        super().__init__(message)
        self.part = part


def dropout_seed(seed: int, step: int, part: int) -> int:
    """Return the seed of all dropout in one part of one step."""
    return seed_from(f"dropout:{seed}:{step}:{part}") >> 1


def flops(recipe: Recipe, length: int) -> float:
    """Operations for an element in training, of both passes where there are two."""
    train = recipe.train
    once = training_flops(recipe.model, length, recipe.predicted_fraction, train.finetune.passes)
    return once * train.forward_passes


@dataclass(frozen=True)
class TrainingStep:
    """Training of `model` (also compiled) and `optimizer`, which every step changes.

    `consistency`: if positive, each part is computed twice with different dropout (see
    `total_loss`). `max_grad_norm` 0: gradients are not clipped. `threads`: compute the parts of
    this process at the same time. `division`: the processes that share the rows of a step.
    """

    model: Callable[[Batch], Output]
    optimizer: Optimizer
    seed: int = 0
    precision: torch.dtype = torch.float32
    max_grad_norm: float = 1.0
    loss: Loss = cross_entropy
    consistency: float = 0.0
    outcomes: Outcomes = EXCLUSIVE
    compiled: bool = False
    threads: Executor | None = None
    division: Division = UNDIVIDED

    def __call__(self, share: Share, step: int, factor: float) -> StepResult:
        """Train on this process's share of a step's batch, at `factor` times the peak rates.

        A loss or gradient that is not finite raises NotFiniteError and changes nothing. All
        processes come to the same result; idle parts add nothing.
        """
        batches, first, idle = share
        n_own = len(batches) - idle
        parameters, division = self.optimizer.parameters, self.division
        n_targets, n_elements, n_parts = _count(batches[:n_own], step, division)

        def mean_loss(part: Part) -> Tensor:
            return self._total(step, *part) / n_targets

        parts = [*enumerate(batches, first)]
        if self.threads is not None or division.apart:
            own = _apart(parameters, self.threads, mean_loss, parts[:n_own])
        else:
            own = _in_turn(division, mean_loss, parts, n_own)
        division.add_up(parameters)
        losses = division.readers.sums([0.0] * first + own + [0.0] * (n_parts - first - n_own))
        norm = clip_gradients(parameters, self.max_grad_norm or torch.inf)
        _check(losses, norm, step, parameters)
        self.optimizer.step(factor)
        return StepResult(sum(losses), norm, n_elements)

    def _total(self, step: int, number: int, batch: Batch) -> Tensor:
        """The summed loss of a part."""
        device = self.optimizer.parameters[0].device
        batch = batch.to(device)
        assert batch.targets is not None
        seed = dropout_seed(self.seed, step, number)
        drawn = drawn_by(seed, device, self.compiled)
        cast = torch.autocast(device.type, self.precision, self.precision != torch.float32)
        with cast, drawn:
            passes = [self.model(batch).logits for _ in range(1 + (self.consistency > 0))]
        return total_loss(passes, batch.targets, self.loss, self.consistency, self.outcomes)


def _count(batches: Sequence[Batch], step: int, division: Division) -> tuple[int, int, int]:
    """Targets, elements and parts of a step in all processes; TrainingError: no target."""
    own = [sum(b.n_targets for b in batches), sum(b.n_elements for b in batches), len(batches)]
    n_targets, n_elements, n_parts = map(int, division.readers.sums(own))
    if not n_targets:
        raise TrainingError(
            f"Step {step} has no target to learn from; check the data with `glassformer data show`."
        )
    return n_targets, n_elements, n_parts


def _check(losses: Sequence[float], norm: float, step: int, parameters: Sequence[Tensor]) -> None:
    """Forget the gradients and raise NotFiniteError for losses or a norm that are not finite."""
    if abs(total := sum(losses)) < torch.inf and norm < torch.inf:
        return
    for parameter in parameters:
        parameter.grad = None
    what = f"loss is {total}" if not abs(total) < torch.inf else f"gradient's norm is {norm}"
    bad = [number for number, one in enumerate(losses) if not abs(one) < torch.inf]
    raise NotFiniteError(f"At step {step} the {what}.", next(iter(bad), None))


def total_loss(
    passes: Sequence[Tensor], targets: Tensor, loss: Loss, consistency: float, outcomes: Outcomes
) -> Tensor:
    """The summed loss of the logits of one pass; of two, the mean of both and `consistency` times
    their divergence."""
    first, *again = passes
    total = loss(first, targets).total
    for second in again:
        apart = outcomes.divergence(first, second, targets)
        total = (total + loss(second, targets).total) / 2 + consistency * apart
    return total


def _in_turn(
    division: Division,
    mean_loss: Callable[[Part], Tensor],
    parts: Sequence[Part],
    n_own: int,
) -> list[float]:
    """Add the gradients of each part to the parameters' own, and return the losses; those after
    `n_own` add nothing."""
    losses = []
    for at, part in enumerate(parts, 1):
        with division.backward(last=at == len(parts)):
            part_loss = mean_loss(part)
            (part_loss if at <= n_own else 0 * part_loss).backward()
        losses.append(part_loss.item())
    return losses[:n_own]


def _apart(
    parameters: Sequence[Tensor],
    threads: Executor | None,
    mean_loss: Callable[[Part], Tensor],
    parts: Sequence[Part],
) -> list[float]:
    """Compute the gradients of each part separately and add them by a tree, in an order that never
    changes; return the losses."""
    learned = [parameter for parameter in parameters if parameter.requires_grad]

    def gradients(part: Part) -> tuple[float, Gradients]:
        part_loss = mean_loss(part)
        return part_loss.item(), torch.autograd.grad(part_loss, learned, allow_unused=True)

    sums, losses = Tree[Gradients](_add), list[float]()
    for part_loss, found in (threads.map if threads else map)(gradients, parts):
        losses.append(part_loss)
        sums.append(found)
    if losses:
        for parameter, gradient in zip(learned, sums.total(), strict=True):
            parameter.grad = gradient
    return losses


def _add(one: Gradients, other: Gradients) -> Gradients:
    """The sum of two parts' gradients, in the place of the first."""
    return [
        theirs if mine is None else mine if theirs is None else mine.add_(theirs)
        for mine, theirs in zip(one, other, strict=True)
    ]
