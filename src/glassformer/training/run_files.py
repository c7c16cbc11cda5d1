"""What training writes into a run folder while it goes on: by the first process alone."""

from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Task
from glassformer.training.checkpoint import Checkpoints, State
from glassformer.training.model_card import Origin
from glassformer.training.model_files import check_there, export
from glassformer.training.report import write_report


class RunFiles:
    """The files of a run: checkpoints, its best model, its report."""

    def __init__(self, run: Path, task: Task, checkpoints: Checkpoints):
        self._run, self._task, self._checkpoints = run, task, checkpoints
        self._recipe = task.recipe.yaml()  # slow to write, and shown by every report

    def checkpoint(self, model: Transformer, optimizer: dict[str, Tensor], state: State) -> None:
        """Write a checkpoint; CheckpointError: it cannot be."""
        check_there(self._run)
        self._checkpoints.save(model, optimizer, state)

    def model(self, model: Transformer, step: int, scores: dict[str, Any], origin: Origin) -> None:
        """Write the model itself: see `export`."""
        export(model, self._task, self._run, step, scores, origin)

    def report(self, lines: list[dict[str, Any]]) -> None:
        """Write `report.html` of these lines of `metrics.jsonl`."""
        write_report(self._run, self._task, lines, self._recipe)


class NoFiles(RunFiles):
    """Nothing is written: another process does it."""

    def checkpoint(self, *arguments: Any, **options: Any) -> None:
        """Nothing."""

    def model(self, *arguments: Any, **options: Any) -> None:
        """Nothing."""

    def report(self, *arguments: Any, **options: Any) -> None:
        """Nothing."""
