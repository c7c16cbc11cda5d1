"""Steps of a run, with evaluations, checkpoints, samples and reports between them.

Everything random is a function of (seed, step): a run that is resumed ends in the same bits.
"""

import math
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
from glassformer.core.errors import (
    ElsewhereError,
    GlassformerError,
    TrainingError,
    counted,
    printable,
)
from glassformer.core.progress import Progress, clock
from glassformer.core.signals import Stop, interruptions
from glassformer.metrics.comparison import report
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.history import History, Listener, evaluations, of_model
from glassformer.training.folder.model_card import Origin
from glassformer.training.folder.model_files import check_there, export
from glassformer.training.folder.models import fill_mean, model_to_fill, trained
from glassformer.training.folder.saving import Saving
from glassformer.training.loop.batches import batches_ahead
from glassformer.training.loop.schedule import rate_at
from glassformer.training.loop.setup import SetUp, describe
from glassformer.training.loop.step import NotFiniteError, StepResult, TrainingStep, flops

SHOWN = {name: score.form for name, score in SCORES.items() if score.logged}
"""Scores that are shown after the loss."""
REMEDY = (
    "Try a lower train.optimizer.learning_rate, more train.schedule.warmup_steps or "
    "train.precision=float32."
)


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
        self.scores = next((one.scores for one in reversed(evaluations(self.history.lines))), {})
        self.saving = Saving(
            self.task, self.checkpoints, self.history, self.state, progress.message
        )
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
                step = self.state.step
                last = step == config.steps
                better = self.evaluate() if step % config.evaluate.every == 0 or last else False
                if step % config.sample.every == 0 or last:
                    self.sample()
                if step % config.save.every == 0 or better or last:
                    self.save(better)
            self.state = self.saving.wait(self.state)
            if self.saving.step != self.state.step:
                self.save(better=False, stopped=True)  # interrupted between two checkpoints
            interrupted = self.stopping if self.state.step < config.steps else None
            if config.save.average_checkpoints > 1 and not interrupted:
                self.average()
        state, use = self.state, self.objective.card().use.partition("\n")[0]
        best = of_model(self.history.lines, state.best_step).scores
        baselines = report(self.origin.baselines, best, self.progress.message)
        return Result(
            self.run,
            state.step,
            self.scores,
            state.best_score,
            config.evaluate.best,
            use,
            state.seconds,
            interrupted,
            baselines,
        )

    def _step(self, threads: Executor | None) -> TrainingStep:
        """How a step is computed."""
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
        if "loss" in self.scores:
            parts.append(f"validation {self.scores['loss']:.4f}")
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
            passed = f"; {counted(most, 'step')} before it were skipped" if most else ""
            raise self._ended(f"{told}{passed}")
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

    def evaluate(self) -> bool:
        """Score the validation split; True if it is the best so far. Without one, False."""
        begin, step = time.perf_counter(), self.state.step
        scores = self.objective.scores(self._whole(), self.machine.precision, self.processes)
        if scores is None:
            return False
        if not math.isfinite(scores["loss"]):
            raise self._ended(f"After step {step} the validation loss is {scores['loss']}")
        self.scores = scores
        seconds = self.state.seconds + time.perf_counter() - begin
        better = self._is_better(scores)
        self.state = replace(self.state, seconds=seconds)
        if better:
            best = scores[self.config.evaluate.best]
            self.state = replace(self.state, best_step=step, best_score=best)
        self._log_scores(f"step {step}", scores, better)
        return better

    def average(self) -> None:
        """Try the mean of the last checkpoints as the final model; it is taken if it scores better
        than the best."""
        done = any(  # before this run was resumed
            "averaged" in line for line in self.history.lines if line["step"] == self.state.step
        )
        steps = self.processes.from_first(lambda: [] if done else self.checkpoints.regular())
        steps = steps[-self.config.save.average_checkpoints :]
        if not steps:
            return
        mean = model_to_fill(self.task.recipe, self.run, self.state.base, self.machine.device)
        self.processes.each(lambda: fill_mean(self.checkpoints, steps, mean))
        scores = self.objective.scores(mean, self.machine.precision, self.processes)
        better = scores is None or self._is_better(scores)
        if better:
            self.scores = scores or {}
            self.state = replace(self.state, best_score=self.scores.get(self.config.evaluate.best))
            origin = replace(self.origin, averaged=tuple(steps))
            given = mean, self.task, self.run, self.state.step, self.scores, origin
            self.processes.from_first(lambda: export(*given))
        if scores is not None:
            what = f"mean of the checkpoints at {', '.join(map(str, steps))}"
            self._log_scores(what, scores, better, averaged=steps, averaged_taken=better)
        else:
            self.history.add(step=self.state.step, averaged=steps, averaged_taken=better)

    def _is_better(self, scores: dict[str, Any]) -> bool:
        best, now = self.state.best_score, scores[self.config.evaluate.best]
        if best is None:
            return True
        return now > best if SCORES[self.config.evaluate.best].higher_is_better else now < best

    def _log_scores(self, what: str, scores: dict[str, Any], better: bool, **values: Any) -> None:
        named = {f"validation_{name}": value for name, value in scores.items()}
        self.history.add(
            step=self.state.step, seconds=round(self.state.seconds, 3), **named, **values
        )
        shown = [f"{name} {scores[name]:{how}}" for name, how in SHOWN.items() if name in scores]
        best = " (best so far)" if better else ""
        self.progress.message(
            f"{what}: validation loss {scores['loss']:.4f}{best}{''.join(f', {s}' for s in shown)}"
        )
        self.saving.report()

    def sample(self) -> None:
        """Show what the model writes by now."""
        model = self._whole()
        self.processes.from_first(lambda: self._write_sample(model))

    def _write_sample(self, model: Transformer) -> None:
        try:
            sample = self.objective.sample(model)
        except GlassformerError as error:  # a sample is not worth losing a run
            self.progress.message(f"no sample at step {self.state.step}: {error}")
            return
        if sample is None:
            return
        self.history.add(step=self.state.step, **sample.values)
        shown = printable(sample.text.strip()).replace("\n", "\n    ")
        self.progress.message(f"    {shown}\n")

    def save(self, better: bool, stopped: bool = False) -> None:
        """Save a checkpoint, and the model itself if it is the best (or if nothing is validated).

        Weights that are not finite are not saved: a large step can overflow them after a loss that
        was.
        """
        bad = not all(bool(local(one).isfinite().all()) for one in self.model.parameters())
        if self.processes.added([bad])[0]:
            raise self._ended(f"After step {self.state.step} weights are not finite")
        step, config = self.state.step, self.config
        between = stopped and step % config.save.every != 0
        self.processes.from_first(lambda: check_there(self.run))
        self.state = self.saving.save(
            self.division.part(trained(self.model)),
            self.division.part(self.optimizer.state()),
            replace(self.state, between=between),
            self.origin,
            self._whole() if better or not self.objective.validated else None,
            last=stopped or step == config.steps,
        )
        self.saving.report()

    def _ended(self, why: str) -> GlassformerError:
        """The error of a run that cannot go on, which comes in all processes and is told by one."""
        if not self.processes.first:
            return ElsewhereError(TrainingError.exit_code)
        steps = self.checkpoints.steps()
        last = "none was saved before"
        if steps:
            last = f"the last good checkpoint is {self.checkpoints.path(steps[-1])}"
        return TrainingError(f"{why}; {last}. {REMEDY}")

    def close(self) -> None:
        """Wait for the save under way, and close files and the live line."""
        self.progress.close()
        self.saving.close()
        self.history.close()
