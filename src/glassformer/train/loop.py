"""The run: recipe to tokenizer, token store, model; then steps, evaluations, checkpoints, samples, report.

Everything that is random is a function of (seed, step), so a run that was killed and resumed ends in the same bits as
one that was not. Knows: all parts of training. Does not know: the command line.
"""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from glassformer.batch import Batch
from glassformer.data.batches import evaluation_batches, training_batch
from glassformer.data.store import Split
from glassformer.errors import CheckpointError, ConfigError, DataError, GlassformerError, TrainingError
from glassformer.files import locked, sweep, write_text
from glassformer.models.cost import training_flops
from glassformer.models.transformer import Transformer
from glassformer.train.checkpoint import Checkpoints, State
from glassformer.train.device import choose_machine
from glassformer.train.evaluate import evaluate
from glassformer.train.history import History
from glassformer.train.interrupt import interruptions
from glassformer.train.memory import keep_freed_memory
from glassformer.train.optimizer import Optimizer
from glassformer.train.progress import Moment, Progress, printable
from glassformer.train.recipe import Recipe
from glassformer.train.report import report
from glassformer.train.runfolder import Material, check_unused, export, is_exported, prepare
from glassformer.train.sample import sample
from glassformer.train.schedule import rate
from glassformer.train.step import training_step

REMEDY = "Try a lower train.learning_rate, more train.warmup_steps or train.precision=float32."


@dataclass(frozen=True)
class Result:
    """How a run ended: steps done, the last evaluation, and whether it was interrupted (by which signal)."""

    run: Path
    steps: int
    scores: dict[str, float]
    best_loss: float | None
    seconds: float
    interrupted: int | None = None


def train(recipe: Recipe, run: Path, resume: bool = False, progress: Progress | None = None) -> Result:
    """Train in the folder `run`, or go on where its newest checkpoint stands.

    Errors: ConfigError for a folder that already holds a run (or another one, when resuming), DataError for unusable
    text, TrainingError for a loss that is not finite, CheckpointError for a folder that cannot be written.
    """
    progress = progress or Progress()
    material = prepare(recipe, run, resume, progress.message)
    with locked(run):
        if not resume:
            check_unused(run)  # again: another trainer may have come and gone
        sweep(run)
        material.store_files()
        training = _Training(material, run, resume, progress)
        try:
            return training.go()
        finally:
            progress.close()
            training.history.close()


class _Training:
    """The state of one run while it is trained."""

    def __init__(self, material: Material, run: Path, resume: bool, progress: Progress):
        self.run, self.progress = run, progress
        self.tokenizer, self.train_split = material.tokenizer, material.store.split("train")
        self.validation = self._validation_split(material)
        config = material.recipe.train
        self.checkpoints = Checkpoints(run, config.keep_last)
        self.checkpoints.sweep()
        self.state = self._first_state(resume, material.fingerprint)
        keep_freed_memory()
        self.machine = choose_machine(config.device, config.precision)
        self.recipe = material.recipe.with_precision(self.machine.precision_name)
        self.config = config = self.recipe.train
        self.length = config.length or self.recipe.model.max_length
        self.model = Transformer(self.recipe.model, config.seed, self.machine.device)
        self.optimizer = Optimizer(self.model, config)
        if self.state.step:
            self.optimizer.restore(self.checkpoints.load(self.state.step, self.model))
            progress.message(f"resuming at step {self.state.step}")
        self.parameters = list(self.model.parameters())
        self.forward = torch.compile(self.model) if config.compile else self.model
        self.flops = training_flops(self.recipe.model, self.length)
        self.history = History(run, self.state.step, config.tensorboard)
        self.scores = self.history.scores()
        self.saved = self.state.step
        self.per_step = 0.0
        write_text(run / "recipe.yaml", self.recipe.yaml())
        if self.state.step:
            self._export_again()

    def go(self) -> Result:
        """Step after step to the end, or until a signal asks to stop."""
        self.announce()
        config = self.config
        with interruptions() as signals:
            while self.state.step < config.steps and not signals:
                self.advance()
                step = self.state.step
                last = step == config.steps
                evaluated = self.validation is not None and (step % config.evaluate_every == 0 or last)
                better = self.evaluate() if evaluated else False
                if config.sample_tokens and (step % config.sample_every == 0 or last):
                    self.sample()
                if step % config.save_every == 0 or better or last:
                    self.save(better)
            if self.saved != self.state.step:  # interrupted between two checkpoints
                self.save(better=False)
            interrupted = signals[0] if signals and self.state.step < config.steps else None
        state = self.state
        return Result(self.run, state.step, self.scores, state.best_loss, state.seconds, interrupted)

    def announce(self) -> None:
        """Say what is about to happen: the machine, the model, the data."""
        if self.state.step >= self.config.steps:
            self.progress.message(
                f"nothing to do: the run stands at step {self.state.step} of {self.config.steps}; "
                "give more train.steps to go on"
            )
            return
        tokens = len(self.train_split.tokens)
        per_step = self.config.batch_size * self.length
        self.progress.message(f"computing on {self.machine.reason}")
        self.progress.message(
            f"{self.model.n_parameters:,} parameters, {tokens:,} training tokens, {per_step:,} per step, "
            f"{self.config.steps:,} steps = {self.config.steps * per_step / max(1, tokens):.1f} epochs"
        )

        if self.config.warmup_steps >= self.config.steps:
            self.progress.message(
                f"the warm-up of {self.config.warmup_steps} steps does not end within {self.config.steps} steps, so "
                "the peak learning rate is never reached; consider a smaller train.warmup_steps"
            )

    def batches(self, step: int) -> list[Batch]:
        """The parts of a step's batch, a function of (seed, step)."""
        config, parts = self.config, self.config.micro_batches
        return [
            training_batch(self.train_split, step, config.batch_size, self.length, config.seed, (part, parts))
            for part in range(parts)
        ]

    def advance(self) -> None:
        """One step; a loss that is not finite stops the run, its batch named."""
        begin, step, config = time.perf_counter(), self.state.step, self.config
        factor = rate(
            step,
            steps=config.steps,
            warmup_steps=config.warmup_steps,
            schedule=config.schedule,
            final_fraction=config.final_fraction,
            decay_fraction=config.decay_fraction,
        )
        batches = self.batches(step)
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
                clip=config.clip,
                label_smoothing=config.label_smoothing,
            )
        except TrainingError as error:
            raise TrainingError(f"{error} {self._where_it_stood(batches, step)}") from None
        seconds = time.perf_counter() - begin
        self.per_step = seconds if not self.per_step else 0.9 * self.per_step + 0.1 * seconds
        self.state = replace(
            self.state,
            step=step + 1,
            tokens=self.state.tokens + result.targets,
            seconds=self.state.seconds + seconds,
        )
        speed = result.targets / self.per_step
        if (step + 1) % config.log_every == 0 or step + 1 == config.steps:
            self.history.add(
                step=step + 1,
                train_loss=result.loss,
                gradient_norm=result.gradient_norm,
                learning_rate=factor * config.learning_rate,
                tokens=self.state.tokens,
                tokens_per_second=round(speed, 1),
                seconds=round(self.state.seconds, 3),
            )
        share = speed * self.flops / self.machine.peak
        left = (config.steps - step - 1) * self.per_step
        loss = self.scores.get("loss")
        self.progress.show(Moment(step + 1, config.steps, result.loss, factor, speed, share, left, loss))

    def evaluate(self) -> bool:
        """Score the validation split; True if it is the best so far."""
        begin, config = time.perf_counter(), self.config
        assert self.validation is not None
        batches = evaluation_batches(
            self.validation, config.batch_size, self.recipe.model.max_length, config.evaluate_batches
        )
        score = evaluate(self.model, batches, self.machine.precision)
        whole = config.evaluate_batches is None
        if not score.tokens:
            raise DataError("The validation text has no token to predict; use a longer one or validation_fraction=0.")
        scores, step = score.result(self.validation.n_bytes if whole else None), self.state.step
        loss = scores["loss"]
        if not math.isfinite(loss):
            raise TrainingError(f"After step {step} the validation loss is {loss}; {self._last_good()}. {REMEDY}")
        self.scores = scores
        better = self.state.best_loss is None or loss < self.state.best_loss
        self.state = replace(
            self.state,
            seconds=self.state.seconds + time.perf_counter() - begin,
            best_step=step if better else self.state.best_step,
            best_loss=loss if better else self.state.best_loss,
        )
        named = {f"validation_{name}": value for name, value in self.scores.items()}
        self.history.add(step=step, seconds=round(self.state.seconds, 3), **named)
        self.progress.message(f"step {step}: validation loss {loss:.4f}{' (best so far)' if better else ''}")
        self._report()
        return better

    def sample(self) -> None:
        """Show what the model writes by now."""
        try:
            text = sample(self.model, self.tokenizer, self.config, int(self.train_split.tokens[0]))
        except GlassformerError as error:  # a sample is not worth losing a run
            self.progress.message(f"no sample at step {self.state.step}: {error}")
            return
        self.history.add(step=self.state.step, sample=text)
        shown = printable(text.strip()).replace("\n", "\n    ")
        self.progress.message(f"    {shown}\n")

    def save(self, better: bool) -> None:
        """Save a checkpoint, and the model itself if it is the best (or if nothing is validated).

        Weights that are not finite are not saved: a large step can overflow them after a loss that was.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in self.parameters):
            raise TrainingError(f"After step {self.state.step} weights are not finite; {self._last_good()}. {REMEDY}")
        self.checkpoints.save(self.model, self.optimizer.state(), self.state)
        self.saved = self.state.step
        if better or self.validation is None:
            export(self.model, self.recipe, self.tokenizer, self.run, self.state.step, self.scores)
        self._report()

    def _report(self) -> None:
        write_text(self.run / "report.html", report(self.history.lines, self.recipe.yaml(), self.run.name))

    def _first_state(self, resume: bool, data: str) -> State:
        """Where the newest whole checkpoint stands, or the beginning."""
        if not (resume and self.checkpoints.steps()):
            return State(0, data)
        state, passed = self.checkpoints.newest()
        for sentence in passed:
            self.progress.message(f"passed over: {sentence}")
        if state.data != data:
            raise ConfigError(
                f"The text of data.path is not what {self.run} was trained on; restore it or choose another --run."
            )
        return state

    def _export_again(self) -> None:
        """Make sure that the run folder holds its best model: the run may have been killed before it was written."""
        step = self.state.step if self.validation is None else self.state.best_step
        if step is None or is_exported(self.run, self.checkpoints.path(step)):
            return
        best = Transformer(self.recipe.model, seed=None)
        try:
            self.checkpoints.load(step, best)
        except CheckpointError as error:
            self.progress.message(f"the best model, of step {step}, cannot be read: {error}")
            return
        export(best, self.recipe, self.tokenizer, self.run, step, self.history.scores(step))

    def _validation_split(self, material: Material) -> Split | None:
        try:
            split = material.store.split("validation")
        except DataError:
            return None
        return split if len(split.tokens) >= 2 else None

    def _where_it_stood(self, batches: list[Batch], step: int) -> str:
        first = self.tokenizer.decode(batches[0].elements[0, :24].tolist())
        return f"The batch of this step begins with {first!r}; {self._last_good()}. {REMEDY}"

    def _last_good(self) -> str:
        steps = self.checkpoints.steps()
        return f"the last good checkpoint is {self.checkpoints.path(steps[-1])}" if steps else "none was saved before"
