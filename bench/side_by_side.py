"""What the benches beside transformers' Trainer share: training steps of both sides, turns,
medians.

Each side is timed for whole steps: making the batch, forward, backward, optimizer; and each tells
(examples, seconds, one more number that is worth noting: a loss, an accuracy).
"""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from torch import nn

from glassformer.core.batch import Batch
from glassformer.core.cpu import micro_batch_threads
from glassformer.data.collate import Share
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.prepare import prepare
from glassformer.training.loop.step import StepResult, TrainingStep

Told = tuple[int, float, float]


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def task_in(recipe: Recipe, folder: Path) -> Task:
    """A recipe's task with its data, encoded in a new folder."""
    folder.mkdir(parents=True)
    return prepare(recipe, folder, False, 1, say).open()


class OurTraining:
    """The model of a task's recipe, trained step by step; `examples` counts those of a batch."""

    def __init__(self, task: Task, examples: Callable[[Batch], int]):
        self.task, self.examples, self.step = task, examples, 0
        self.config = task.recipe.train
        self.model = Transformer(task.recipe.model, self.config.seed)
        self.optimizer = Optimizer(self.model, self.config.optimizer)
        self.open = ExitStack()  # for as long as this is trained
        self.compute = TrainingStep(
            self.model,
            self.optimizer,
            self.config.seed,
            max_grad_norm=self.config.optimizer.max_grad_norm,
            loss=task.objective.loss,
            threads=self.open.enter_context(
                micro_batch_threads(self.config.parallel_micro_batches, torch.device("cpu"))
            ),
        )

    def next_step(self, factor: float = 1.0) -> tuple[Sequence[Batch], StepResult]:
        """Take the next step at `factor` times the peak rates; its batches, and what it gave."""
        batches = self.task.feed.batches(self.step)
        result = self.compute(Share(batches), self.step, factor)
        self.step += 1
        return batches, result

    def train(self, steps: int) -> Told:
        """The mean loss is noted."""
        examples, losses, begin = 0, [], time.perf_counter()
        for _ in range(steps):
            batches, result = self.next_step()
            losses.append(result.loss)
            examples += sum(self.examples(batch) for batch in batches)
        return examples, time.perf_counter() - begin, statistics.mean(losses)


class PeerTraining:
    """A model of transformers under its Trainer as a user makes it, without logs and
    checkpoints."""

    def __init__(
        self,
        model: nn.Module,
        rows: int,
        train_rows: Any,
        collator: Any,
        folder: Path,
        **arguments: Any,
    ):
        self.model, self.rows, self.train_rows, self.collator = model, rows, train_rows, collator
        self.folder, self.arguments, self.round = folder, arguments, 0

    def trainer(self, steps: int, *callbacks: transformers.TrainerCallback) -> transformers.Trainer:
        defaults: dict[str, Any] = {
            "output_dir": str(self.folder / "peer"),
            "per_device_train_batch_size": self.rows,
            "per_device_eval_batch_size": self.rows,
            "max_steps": steps,
            "seed": self.round,
            "use_cpu": True,
            "dataloader_num_workers": 0,
            "dataloader_pin_memory": False,
            "report_to": [],
            "save_strategy": "no",
            "logging_strategy": "no",
            "disable_tqdm": True,
        }
        arguments = transformers.TrainingArguments(**defaults | self.arguments)
        return transformers.Trainer(
            model=self.model,
            args=arguments,
            train_dataset=self.train_rows,
            data_collator=self.collator,
            callbacks=[*callbacks],
        )

    def train(self, steps: int) -> Told:
        """The mean loss is noted; making the Trainer and the first batch is not timed."""
        times: list[float] = []

        class Clock(transformers.TrainerCallback):
            def on_step_begin(
                self, args: object, state: object, control: object, **more: object
            ) -> None:
                times.append(time.perf_counter())

            def on_step_end(
                self, args: object, state: object, control: object, **more: object
            ) -> None:
                times.append(time.perf_counter())

        self.round += 1  # another draw of batches
        with redirect_stdout(sys.stderr):  # the trainer prints its own summary
            result = self.trainer(steps, Clock()).train()
        return steps * self.rows, times[-1] - times[0], result.training_loss

    def predicted(self, rows: Any) -> tuple[Any, float]:
        """What the Trainer predicts for rows, and the seconds it took."""
        trainer = self.trainer(1)
        with redirect_stdout(sys.stderr):
            begin = time.perf_counter()
            found = trainer.predict(rows)
            return found, time.perf_counter() - begin


def in_turn(
    sides: dict[str, Callable[[], Told]],
    rounds: int,
    noted: dict[str, list[float]],
    ratios: dict[str, tuple[str, str]],
) -> dict[str, float]:
    """Medians of examples per second, with ratios of two sides each; what else each side tells goes
    into `noted`."""
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            examples, seconds, note = side()
            speeds[name].append(examples / seconds)
            noted[name].append(note)
        shown = ", ".join(
            f"{name} {own[-1]:,.0f} ({noted[name][-1]:.3f})" for name, own in speeds.items()
        )
        say(f"round {number + 1}: {shown}")
    medians = {name: round(statistics.median(own), 1) for name, own in speeds.items()}
    found = {name: round(medians[ours] / medians[peer], 3) for name, (ours, peer) in ratios.items()}
    return {**medians, **found}


class Side(Protocol):
    """Who trains and then predicts."""

    @property
    def model(self) -> nn.Module: ...

    def train(self, steps: int) -> Told: ...

    def predict(self) -> Told: ...


def trained_and_predicted(
    sides: Mapping[str, Side], steps: int, rounds: int, ratios: dict[str, tuple[str, str]]
) -> dict[str, object]:
    """Rounds of training steps, then of predictions: speeds, ratios, losses, accuracies,
    parameters."""
    for side in sides.values():
        side.train(3)
    losses: dict[str, list[float]] = {name: [] for name in sides}
    steppers = {name: lambda side=side: side.train(steps) for name, side in sides.items()}
    training = in_turn(steppers, rounds, losses, ratios)
    scores: dict[str, list[float]] = {name: [] for name in sides}
    prediction = in_turn(
        {name: side.predict for name, side in sides.items()}, rounds, scores, ratios
    )
    return {
        "training": training,
        "prediction": prediction,
        "train_loss_by_round": {
            name: [round(loss, 3) for loss in own] for name, own in losses.items()
        },
        "every_loss_fell": every_loss_fell(losses),
        "test_accuracy": {name: round(own[-1], 4) for name, own in scores.items()},
        "parameters": {name: parameters_of(side.model) for name, side in sides.items()},
        "steps_a_round": steps,
    }


def parameters_of(model: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in model.parameters())


def every_loss_fell(losses: dict[str, list[float]]) -> bool | None:
    """From the first round to the last; None: one round tells nothing."""
    return (
        all(own[-1] < own[0] for own in losses.values())
        if all(len(own) > 1 for own in losses.values())
        else None
    )


def conditions() -> dict[str, object]:
    """What a figure depends on beside the code."""
    return {
        "machine": {
            "cpu": platform.machine(),
            "load_before": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d"),
        },
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
    }
