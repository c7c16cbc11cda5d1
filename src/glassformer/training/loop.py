"""The run: recipe to processor and model; then steps, evaluations, checkpoints, samples, report.

Everything that is random is a function of (seed, step), so a run that was killed and resumed ends
in the same bits as one that was not.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.errors import (
    CheckpointError,
    GlassformerError,
    TrainingError,
    printable,
)
from glassformer.headway import following
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.signals import interruptions
from glassformer.tasks.task import Task
from glassformer.training.baselines import recorded, told
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.history import History, Listener
from glassformer.training.machine import choose_machine, environment, platform
from glassformer.training.memory import keep_freed_memory
from glassformer.training.model_card import Origin
from glassformer.training.model_files import check_there, export, save_inputs
from glassformer.training.opening import opening
from glassformer.training.optimizer import Optimizer
from glassformer.training.parallel import cpu_threads, micro_batch_threads
from glassformer.training.prefetch import batches_ahead
from glassformer.training.progress import Moment, Progress
from glassformer.training.report import write_report
from glassformer.training.run_folder import held, prepare, unchanged
from glassformer.training.saving import Saving
from glassformer.training.schedule import rate
from glassformer.training.start import first_model, model_to_fill
from glassformer.training.step import StepResult, flops, training_step
from glassformer.training.tensorboard import tensorboard

SHOWN = {name: score.form for name, score in SCORES.items() if score.logged}
"""Scores that are shown behind the loss."""
REMEDY = (
    "Try a lower train.optimizer.learning_rate, more train.schedule.warmup_steps or "
    "train.precision=float32."
)


@dataclass(frozen=True)
class Result:
    """How a run ended: steps done, the last evaluation, the best score by `metric`, a command to
    use the model with, whether it was interrupted (by which signal), and baselines.
    """

    run: Path
    steps: int
    scores: dict[str, Any]
    best: float | None
    metric: str
    use: str
    seconds: float
    interrupted: int | None = None
    baselines: Mapping[str, Any] = field(default_factory=dict)


def train(
    recipe: Recipe,
    run: Path,
    resume: bool = False,
    progress: Progress | None = None,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Train in the folder `run`, or go on where its newest checkpoint stands.

    Errors: ConfigError for a folder that already holds a run (or another one, when resuming),
    DataError for unusable text, TrainingError for a loss that is not finite, CheckpointError for a
    folder that cannot be written.
    """
    progress = progress or Progress()
    with held(run, resume), ExitStack() as computing:
        with unchanged(run), following(progress.before):
            prepared = prepare(recipe, run, resume, progress.message)
            computing.enter_context(cpu_threads(prepared.recipe.train.threads))
            if prepared.recipe.train.tensorboard:
                listeners = [*listeners, computing.enter_context(tensorboard(run))]
            training = _Training(prepared.task(), run, resume, progress, listeners)
        try:
            return training.go()
        finally:
            progress.close()
            training.saving.close()
            training.history.close()


class _Training:
    """The state of one run while it is trained."""

    def __init__(
        self,
        task: Task,
        run: Path,
        resume: bool,
        progress: Progress,
        listeners: Sequence[Listener],
    ):
        self.run, self.progress, self.task = run, progress, task
        config = task.recipe.train
        self.checkpoints = Checkpoints(run, config.save)
        self.checkpoints.sweep()
        self.state = self.checkpoints.first(resume, task.fingerprint, progress.message)
        keep_freed_memory()
        self.machine = choose_machine(config.device, config.precision)
        task.recipe = task.recipe.with_machine(self.machine.precision_name, torch.get_num_threads())
        self.config = config = task.recipe.train
        if self.state.step:
            self.model = self._model_to_fill(self.machine.device)
        else:
            self.model, base = first_model(task, run, self.machine.device)
            self.state = replace(self.state, base=base)
        self.optimizer = Optimizer(self.model, config.optimizer)
        if self.state.step:
            self.optimizer.restore(self.checkpoints.load(self.state.step, self.model))
            progress.message(f"resuming at step {self.state.step}")
        elif config.init_from is not None:
            keeps = config.finetune.keep_head
            what = "model" if keeps else "trunk"
            own = any(name.startswith("head.") for name, _ in self.model.named_parameters())
            new = "; the head is new (see train.finetune.keep_head)" if own and not keeps else ""
            progress.message(f"beginning with the {what} of {config.init_from}{new}")
        self.parameters = self.optimizer.parameters
        self.forward = torch.compile(self.model) if config.compile else self.model
        self.flops = flops(task.recipe, task.length)
        self.history = History(run, self.state.step, listeners)
        self.scores = self.history.scores()
        self.saving = Saving(task, self.checkpoints, self.history, self.state, progress.message)
        self.per_step = 0.0
        self.measured_again = False
        self.resolved = task.recipe.yaml()  # slow to write, and shown by every report
        if self.state.step < config.steps:
            save_inputs(task, run, self.resolved, platform(self.machine.device))

    def go(self) -> Result:
        """Step after step to the end, or until a signal asks to stop."""
        self.announce()
        self.progress.before("scoring baselines")
        baselines = recorded(self.task, self.history, self.state.step)
        self.origin = Origin(self.state.data, environment(self.machine), baselines)
        if self.state.step:
            self.state = self.saving.restore(self.state, self.origin)
        config = self.config
        with (
            interruptions() as signals,
            closing(
                batches_ahead(self.task.batches, self.state.step, config.steps, config.workers)
            ) as self.batches,
            micro_batch_threads(config.parallel_micro_batches, self.machine.device) as self.threads,
        ):
            while self.state.step < config.steps and not signals:
                self.advance()
                step = self.state.step
                last = step == config.steps
                better = self.evaluate() if step % config.evaluate.every == 0 or last else False
                if step % config.sample.every == 0 or last:
                    self.sample()
                if step % config.save.every == 0 or better or last:
                    self.save(better)
            self.state = self.saving.wait(self.state)
            if self.saving.step != self.state.step:  # interrupted between two checkpoints
                self.save(better=False, stopped=True)
            interrupted = signals[0] if signals and self.state.step < config.steps else None
            if config.save.average_checkpoints > 1 and not interrupted:
                self.average()
        state, use = self.state, self.task.card().use.partition("\n")[0]
        baselines = told(self.origin.baselines, self.history, state, self.progress.message)
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

    def announce(self) -> None:
        """Say what is about to happen: the machine, the model, the data."""
        if self.state.step >= self.config.steps:
            self.progress.message(
                f"nothing to do: the run stands at step {self.state.step} of {self.config.steps}; "
                "give more train.steps to go on"
            )
            return
        for sentence in opening(self.task, self.machine.reason, self.model):
            self.progress.message(sentence)

    def advance(self) -> None:
        """One step; a loss that is not finite stops the run, its batch named."""
        begin, step, config = time.perf_counter(), self.state.step, self.config
        factor = rate(
            step,
            steps=config.steps,
            warmup_steps=config.schedule.warmup_steps,
            schedule=config.schedule.kind,
            final_fraction=config.schedule.final_fraction,
            decay_fraction=config.schedule.decay_fraction,
        )
        batches = next(self.batches)
        try:
            result = training_step(
                self.forward,
                self.parameters,
                self.optimizer,
                batches,
                seed=config.seed,
                step=step,
                factor=factor,
                precision=self.machine.precision,
                compiled=config.compile,
                max_grad_norm=config.optimizer.max_grad_norm,
                loss=self.task.loss,
                consistency=config.consistency,
                independent=self.task.recipe.model.multi_label,
                threads=self.threads,
            )
        except TrainingError as error:
            raise TrainingError(f"{error} {self._where_it_stood(batches, step)}") from None
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
        share = speed * self.flops / self.machine.peak
        if share > 1 and not self.measured_again:
            self.machine, self.measured_again = self.machine.again(), True
            share = speed * self.flops / self.machine.peak
        left = (config.steps - step - 1) * self.per_step
        loss = self.scores.get("loss")
        pace = self.task.pace(speed)
        self.progress.show(Moment(step + 1, config.steps, result.loss, pace, share, left, loss))

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
        scores = self.task.scores(self.model, self.machine.precision)
        if scores is None:
            return False
        if not math.isfinite(scores["loss"]):
            raise TrainingError(
                f"After step {step} the validation loss is {scores['loss']}; "
                f"{self._last_good()}. {REMEDY}"
            )
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
        if self.history.since(self.state.step, "averaged"):
            return  # done before this run was resumed
        steps = self.checkpoints.regular()[-self.config.save.average_checkpoints :]
        mean = self._model_to_fill(self.machine.device)
        self.checkpoints.load_mean(steps, mean)
        scores = self.task.scores(mean, self.machine.precision)
        better = scores is None or self._is_better(scores)
        if better:
            self.scores = scores or {}
            self.state = replace(self.state, best_score=self.scores.get(self.config.evaluate.best))
            origin = replace(self.origin, averaged=tuple(steps))
            export(mean, self.task, self.run, self.state.step, self.scores, origin)
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
        self._report()

    def sample(self) -> None:
        """Show what the model writes by now."""
        try:
            sample = self.task.sample(self.model)
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
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise TrainingError(
                f"After step {self.state.step} weights are not finite; {self._last_good()}. "
                f"{REMEDY}"
            )
        check_there(self.run)
        step, config = self.state.step, self.config
        self.state = self.saving.save(
            self.model,
            self.optimizer.state(),
            replace(self.state, between=stopped and step % config.save.every != 0),
            self.origin,
            exported=better or not self.task.validated,
            last=stopped or step == config.steps,
        )
        self._report()

    def _report(self) -> None:
        try:
            write_report(self.run, self.task, self.history.lines, self.resolved)
        except CheckpointError as error:  # a page is not worth losing a run
            self.progress.message(f"no report at step {self.state.step}: {error}")

    def _model_to_fill(self, device: torch.device | str = "cpu") -> Transformer:
        return model_to_fill(self.task.recipe, self.run, self.state.base, device)

    def _where_it_stood(self, batches: list[Batch], step: int) -> str:
        return (
            f"The batch of this step begins with {self.task.excerpt(batches[0])!r}; "
            f"{self._last_good()}. {REMEDY}"
        )

    def _last_good(self) -> str:
        steps = self.checkpoints.steps()
        return (
            f"the last good checkpoint is {self.checkpoints.path(steps[-1])}"
            if steps
            else "none was saved before"
        )
