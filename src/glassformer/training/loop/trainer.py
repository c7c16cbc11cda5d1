"""Steps of a run, with evaluations, checkpoints, samples and reports between them.

Everything random is a function of (seed, step): a run that is resumed ends in the same bits.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassformer.core.cpu import micro_batch_threads
from glassformer.core.devices import environment
from glassformer.core.distributed.shards import local
from glassformer.core.errors import amount
from glassformer.core.progress import Progress, clock
from glassformer.core.signals import Stop, interruptions
from glassformer.metrics.scores import report
from glassformer.models.transformer import Transformer
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.history import History, Listener, of_model
from glassformer.training.folder.model_card import Origin
from glassformer.training.folder.model_files import check_there
from glassformer.training.folder.models import tensors_to_save
from glassformer.training.folder.saving import Saving
from glassformer.training.loop.batches import batches_ahead
from glassformer.training.loop.schedule import rate_at
from glassformer.training.loop.setup import SetUp, describe
from glassformer.training.loop.step import NotFiniteError, StepResult, TrainingStep, flops
from glassformer.training.loop.validation import Validation, failure


@dataclass(frozen=True)
class Result:
    """The end of a run: steps done, the last evaluation, the best score by `metric`, a command to
    use the model with, whether it was interrupted (by which signal), and baselines."""

    run: Path
    steps: int
    scores: dict[str, Any]
    best: float | None
    metric: str
    use: str
    seconds: float
    interrupted: int | None = None
    baselines: Mapping[str, Any] = field(default_factory=dict)


class Trainer:
    """The state of one run while it is trained."""

    def __init__(
        self,
        own: SetUp,
        run: Path,
        progress: Progress,
        listeners: Sequence[Listener],
    ):
        self.task, self.machine, self.division = own.task, own.machine, own.division
        self.model, self.optimizer, self.state = own.model, own.optimizer, own.state
        self.run, self.processes, self.progress = run, own.processes, progress
        self.objective = self.task.objective
        self.config = config = self.task.recipe.train
        self.whole_model: Transformer | None = None
        self.flops = flops(self.task.recipe, self.task.feed.length)
        saving = own.processes.apart() if config.save.background else own.processes
        self.checkpoints = Checkpoints(run, config.save, saving)
        self.processes.from_first(lambda: self.checkpoints.go_on_from(self.state.step))
        self.history = History(run, self.state.step, listeners, own.processes.first)
        self.saving = Saving(
            self.task, self.checkpoints, self.history, self.state, progress.message
        )
        self.validation = Validation(own, self.saving, self._whole)
        self.per_step, self.skipped = 0.0, 0

    def go(self, stop: Stop) -> Result:
        """Compute step after step to the end, or until a stop is requested."""
        self.announce()
        self.progress.before("scoring baselines")
        baselines = self.processes.from_first(
            lambda: self.history.add_baselines(self.state.step, self.objective.training_baselines())
        )
        self.processes.hurry()
        self.origin = Origin(self.state.data, environment(self.machine), baselines)
        if self.state.step:
            restored = lambda: asdict(self.saving.restore(self.state, self.origin))
            self.state = State(**self.processes.from_first(restored))
        config, own = self.config, self.division.readers
        share = partial(self.task.feed.share, rank=own.rank, count=own.count)
        ahead = batches_ahead(share, self.state.step, config.steps, config.workers)
        with (
            interruptions(stop),
            closing(ahead) as self.shares,
            micro_batch_threads(config.parallel_micro_batches, self.machine.device) as threads,
        ):
            self.compute = self._step(threads)
            while self.state.step < config.steps and not self._has_to_stop(stop):
                self.advance()
                step, better = self.state.step, False
                last = step == config.steps
                if step % config.evaluate.every == 0 or last:
                    self.state, better = self.validation.evaluate(self.state)
                if step % config.sample.every == 0 or last:
                    self.validation.sample(step)
                if step % config.save.every == 0 or better or last:
                    self.save(better)
            self.state = self.saving.wait(self.state)
            if self.saving.step != self.state.step:
                self.save(better=False, stopped=True)  # interrupted between two checkpoints
            interrupted = self.stopping if self.state.step < config.steps else None
            if config.save.average_checkpoints > 1 and not interrupted:
                self.state = self.validation.average(self.state, self.origin)
        return self._result(interrupted)

    def _result(self, interrupted: int | None) -> Result:
        state, use = self.state, self.objective.card().use.partition("\n")[0]
        best = of_model(self.history.lines, state.best_step).scores
        baselines = report(self.origin.baselines, best, self.progress.message)
        return Result(
            self.run,
            state.step,
            self.validation.scores,
            state.best_score,
            self.config.evaluate.best,
            use,
            state.seconds,
            interrupted,
            baselines,
        )

    def _step(self, threads: Executor | None) -> TrainingStep:
        """Return the function that computes a step."""
        config, model = self.config, self.division.for_steps(self.model)
        return TrainingStep(
            torch.compile(model) if config.compile else model,
            self.optimizer,
            seed=config.seed,
            precision=self.machine.precision,
            max_grad_norm=config.optimizer.max_grad_norm,
            loss=self.objective.loss,
            consistency=config.consistency,
            outcomes=self.task.recipe.model.outcomes,
            compiled=config.compile,
            threads=threads,
            division=self.division,
        )

    def _whole(self) -> Transformer:
        """The model with all of its weights; all processes ask for it."""
        if self.whole_model is None:
            self.whole_model = self.division.whole(self.model, self.config)
        return self.whole_model

    def _has_to_stop(self, stop: Stop) -> bool:
        """Whether a signal came to any of the processes; all of them learn it before the same
        step."""
        self.stopping = int(self.processes.largest(stop.signal or 0)) or None
        return self.stopping is not None

    def announce(self) -> None:
        """Say what is about to happen: the machine, the model, the data."""
        if self.state.step >= self.config.steps:
            self.progress.message(
                f"nothing to do: the run stands at step {self.state.step} of {self.config.steps}; "
                "give more train.steps to go on"
            )
            return
        for sentence in describe(self.task, self.machine.reason, self.model):
            self.progress.message(sentence)

    def advance(self) -> None:
        """One step; a loss that is not finite stops the run, its batch named."""
        begin, step, config = time.perf_counter(), self.state.step, self.config
        factor = rate_at(step, config)
        share = next(self.shares)
        self.whole_model = None
        try:
            result = self.compute(share, step, factor)
        except NotFiniteError as error:
            self._pass_over(error)
            return
        self.skipped = 0
        seconds = time.perf_counter() - begin
        self.per_step = seconds if not self.per_step else 0.9 * self.per_step + 0.1 * seconds
        self.state = replace(
            self.state,
            step=step + 1,
            tokens=self.state.tokens + result.elements,
            seconds=self.state.seconds + seconds,
        )
        speed = result.elements / self.per_step
        if (step + 1) % config.log_every == 0 or step + 1 == config.steps:
            self._log(result, factor, speed)
        self._show(result.loss, speed)

    def _show(self, loss: float, speed: float) -> None:
        """Show step, losses, speed, share of the measured peak of matrix products, time left."""
        step, steps = self.state.step, self.config.steps
        parts = [f"step {step}/{steps}", f"loss {loss:.4f}"]
        if "loss" in (scores := self.validation.scores):
            parts.append(f"validation {scores['loss']:.4f}")
        parts.append(self.objective.pace(speed))
        if (share := speed * self.flops / self.machine.peak) <= 1:  # else it was measured too low
            parts.append(f"{share:.0%} of peak")
        parts.append(f"{clock((steps - step) * self.per_step)} left")
        self.progress.show(step, steps, "  ".join(parts))

    def _pass_over(self, error: NotFiniteError) -> None:
        """Leave out a step whose loss or gradient is not finite, if the recipe allows it; else
        TrainingError, its batch named."""
        step, most = self.state.step, self.config.skip_not_finite
        excerpt = self.objective.excerpt(self.task.feed.batches(step)[error.part or 0])
        told = f"{error} The batch of this step begins with {excerpt!r}"
        if self.skipped == most:
            passed = f"; {amount(most, 'step')} before it were skipped" if most else ""
            raise failure(f"{told}{passed}", self.checkpoints)
        self.skipped += 1
        self.state = replace(self.state, step=step + 1)
        self.history.add(step=step + 1, skipped=str(error))
        self.progress.message(f"{told}; the step is skipped ({self.skipped} of {most} in a row)")

    def _log(self, result: StepResult, factor: float, speed: float) -> None:
        self.history.add(
            step=self.state.step,
            train_loss=result.loss,
            gradient_norm=result.gradient_norm,
            learning_rate=factor * self.config.optimizer.learning_rate,
            tokens=self.state.tokens,
            tokens_per_second=round(speed, 1),
            seconds=round(self.state.seconds, 3),
        )

    def save(self, better: bool, stopped: bool = False) -> None:
        """Save a checkpoint, and the model itself if it is the best (or if nothing is validated).

        Weights that are not finite are not saved: a large step can overflow them after a loss that
        was.
        """
        bad = not all(bool(local(one).isfinite().all()) for one in self.model.parameters())
        if self.processes.sums([bad])[0]:
            raise failure(f"After step {self.state.step} weights are not finite", self.checkpoints)
        step, config = self.state.step, self.config
        between = stopped and step % config.save.every != 0
        self.processes.from_first(lambda: check_there(self.run))
        self.state = self.saving.save(
            self.division.part(tensors_to_save(self.model)),
            self.division.part(self.optimizer.state()),
            replace(self.state, between=between),
            self.origin,
            self._whole() if better or not self.objective.validated else None,
            last=stopped or step == config.steps,
        )
        self.saving.report()

    def close(self) -> None:
        """Wait for the save under way, and close files and the live line."""
        self.progress.close()
        self.saving.close()
        self.history.close()
