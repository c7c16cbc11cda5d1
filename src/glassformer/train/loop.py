"""The run: recipe to tokenizer, token store, model; then steps, evaluations, checkpoints, samples, report.

Everything that is random is a function of (seed, step), so a run that was killed and resumed ends in the same bits as
one that was not. Knows: all parts of training. Does not know: the command line.
"""

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.batches import evaluation_batches, training_batch
from glassformer.data.store import Split
from glassformer.errors import CheckpointError, DataError, TrainingError
from glassformer.files import locked, write_text
from glassformer.generate import GenerateConfig, generate
from glassformer.models.cost import training_flops
from glassformer.models.transformer import Transformer
from glassformer.train.checkpoint import Checkpoints, State
from glassformer.train.device import Machine, choose_machine
from glassformer.train.evaluate import evaluate
from glassformer.train.optimizer import Optimizer
from glassformer.train.progress import Moment, Progress
from glassformer.train.recipe import Recipe
from glassformer.train.report import report
from glassformer.train.runfolder import Material, export, prepare
from glassformer.train.schedule import rate
from glassformer.train.step import training_step


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
        material.store_files()
        return _Training(material, run, resume, progress).go()


class _Training:
    """The state of one run while it is trained."""

    def __init__(self, material: Material, run: Path, resume: bool, progress: Progress):
        self.recipe, self.run, self.progress = material.recipe, run, progress
        self.tokenizer, self.train_split = material.tokenizer, material.store.split("train")
        self.validation = self._validation_split(material)
        self.config = config = self.recipe.train
        self.length = config.length or self.recipe.model.max_length
        self.checkpoints = Checkpoints(run, config.keep_last)
        self.state, passed = self._first_state(resume)
        for sentence in passed:
            progress.message(f"passed over: {sentence}")
        self.machine = self._machine()
        self.model = Transformer(self.recipe.model, config.seed, self.machine.device)
        self.optimizer = Optimizer(self.model, config)
        if self.state.step:
            self.optimizer.restore(self.checkpoints.load(self.state.step, self.model))
            progress.message(f"resuming at step {self.state.step}")
        self.parameters = list(self.model.parameters())
        self.forward = torch.compile(self.model) if config.compile else self.model
        self.metrics = Metrics(run, self.state.step, config.tensorboard)
        self.flops = training_flops(self.recipe.model, self.length)
        self.scores: dict[str, float] = {}
        self.per_step = 0.0

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
                if step % config.save_every == 0 or better or last or signals:
                    self.save(better)
        self.progress.close()
        self.metrics.close()
        return Result(
            self.run,
            self.state.step,
            self.scores,
            self.state.best_loss,
            self.state.seconds,
            signals[0] if signals else None,
        )

    def announce(self) -> None:
        """Say what is about to happen: the machine, the model, the data."""
        tokens = len(self.train_split.tokens)
        per_step = self.config.batch_size * self.length
        self.progress.message(f"computing on {self.machine.reason}")
        self.progress.message(
            f"{self.model.n_parameters:,} parameters, {tokens:,} training tokens, {per_step:,} per step, "
            f"{self.config.steps:,} steps = {self.config.steps * per_step / max(1, tokens):.1f} epochs"
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
            self.metrics.add(
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
        self.scores = score.result(self.validation.n_bytes if whole else None)
        loss, step = self.scores["loss"], self.state.step
        better = self.state.best_loss is None or loss < self.state.best_loss
        self.state = replace(
            self.state,
            seconds=self.state.seconds + time.perf_counter() - begin,
            best_step=step if better else self.state.best_step,
            best_loss=loss if better else self.state.best_loss,
        )
        named = {f"validation_{name}": value for name, value in self.scores.items()}
        self.metrics.add(step=step, seconds=round(self.state.seconds, 3), **named)
        self.progress.message(f"step {step}: validation loss {loss:.4f}{' (best so far)' if better else ''}")
        write_text(self.run / "report.html", report(self.metrics.lines, self.recipe.yaml(), self.run.name))
        return better

    def sample(self) -> None:
        """Show what the model writes by now."""
        config = self.config
        how = GenerateConfig.parse(
            {"max_new_tokens": config.sample_tokens, "temperature": 0.8, "seed": config.seed, "overflow": "window"}
        )
        text = config.sample_prompt + generate(self.model, self.tokenizer, [config.sample_prompt], how)[0].text
        self.metrics.add(step=self.state.step, sample=text)
        shown = text.strip().replace("\n", "\n    ")
        self.progress.message(f"    {shown}\n")

    def save(self, better: bool) -> None:
        """Save a checkpoint, and the model itself if it is the best (or if nothing is validated)."""
        self.checkpoints.save(self.model, self.optimizer.state(), self.state)
        if better or self.validation is None:
            export(self.model, self.recipe, self.tokenizer, self.run, self.state.step, self.scores)
        write_text(self.run / "report.html", report(self.metrics.lines, self.recipe.yaml(), self.run.name))

    def _first_state(self, resume: bool) -> tuple[State, list[str]]:
        if resume and self.checkpoints.steps():
            return self.checkpoints.newest()
        precision = self.config.precision
        return State(0, self.config.seed, precision, 0, 0.0, None, None), []

    def _machine(self) -> Machine:
        """The machine; a resumed run keeps its first precision, whatever is faster today, to keep its bits."""
        machine = choose_machine(self.config.device, self.state.precision)
        self.state = replace(self.state, precision=str(machine.precision).removeprefix("torch."))
        return machine

    def _validation_split(self, material: Material) -> Split | None:
        try:
            split = material.store.split("validation")
        except DataError:
            return None
        return split if len(split.tokens) >= 2 else None

    def _where_it_stood(self, batches: list[Batch], step: int) -> str:
        first = self.tokenizer.decode(batches[0].elements[0, :24].tolist())
        steps = self.checkpoints.steps()
        last = f"the last good checkpoint is {self.checkpoints.path(steps[-1])}" if steps else "none was saved before"
        return (
            f"The batch of this step begins with {first!r}; {last}. "
            f"Try a lower train.learning_rate, more train.warmup_steps or train.precision=float32."
        )


class Metrics:
    """`metrics.jsonl` of a run (and TensorBoard events if asked); lines after the resumed step are taken back."""

    def __init__(self, run: Path, step: int, tensorboard: bool):
        self._path = run / "metrics.jsonl"
        self.lines = [line for line in read_metrics(run) if line["step"] <= step]
        write_text(self._path, "".join(json.dumps(line) + "\n" for line in self.lines))
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _summary_writer(run) if tensorboard else None

    def add(self, step: int, **values: Any) -> None:
        """Append one line."""
        line = {"step": step, **values}
        self.lines.append(line)
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"Cannot write {self._path}: {error.strerror}; free some space.") from None
        for name, value in values.items():
            if self._board is not None and isinstance(value, int | float):
                self._board.add_scalar(name.replace("_", "/", 1), value, step)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; a last line that was cut short is left out."""
    path, lines = run / "metrics.jsonl", []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            lines.append(line)
    return lines


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """A list that receives SIGINT and SIGTERM for the body, so that a step is finished and saved first."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, lambda number, frame: _received(received, number)) for kind in kinds]
    try:
        yield received
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


def _received(received: list[int], number: int) -> None:
    if received and number == signal.SIGINT:  # a second Ctrl-C does not wait for the step
        raise KeyboardInterrupt
    received.append(number)


def _summary_writer(run: Path) -> Any:
    from glassformer.errors import ConfigError

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError("train.tensorboard needs TensorBoard; run pip install 'glassformer[track]'.") from None
    return SummaryWriter(str(run / "tensorboard"))
