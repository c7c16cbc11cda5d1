"""Saves during training: checkpoints, and the best model in the run folder.

All processes of a run save together, each what it answers for; the first one does the rest. A save
that the disk refuses to one of them costs only itself: the run reports it, continues, and tries
again at the next one. In the background, a save begins with a copy of what it writes, and a thread
of each process writes it. Its error comes where the run waits for it: before the next save, and at
the end.
"""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from torch import nn

from glassformer.core.errors import CheckpointError, ElsewhereError
from glassformer.core.files import write_text
from glassformer.models.transformer import Transformer
from glassformer.pages import images
from glassformer.pages.training_report import report_html
from glassformer.tasks.task import Task
from glassformer.training.folder.checkpoints import WEIGHTS, Checkpoints, State
from glassformer.training.folder.history import History, of_model
from glassformer.training.folder.model_card import Origin
from glassformer.training.folder.model_files import export, is_exported
from glassformer.training.folder.models import fill, model_to_fill
from glassformer.training.folder.part_files import Part

REFUSALS = 3
"""Saves in a row that may fail before the run ends."""


class Saving:
    """The saves of one run, at most one of them at a time; `step` is that of the last one."""

    def __init__(
        self,
        task: Task,
        checkpoints: Checkpoints,
        history: History,
        begin: State,
        say: Callable[[str], None],
    ):
        self.run, self.task, self.checkpoints = checkpoints.folder.parent, task, checkpoints
        self._processes = checkpoints.processes
        self.history, self.say, self.step = history, say, begin.step
        self._best = begin.best_step, begin.best_score
        self._under_way: tuple[State, Callable[[], None]] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._refused, self._unexported = 0, False

    def save(
        self,
        weights: Part | None,
        optimizer: Part | None,
        state: State,
        origin: Origin,
        exported: Transformer | None,
        last: bool = False,
    ) -> State:
        """Save a checkpoint, then the model itself if it is `exported`; return the state to
        continue with (see `wait`)."""
        state = self.wait(state)
        parts = weights, optimizer, exported if self._processes.first else None
        if last or not self.checkpoints.keep.background:
            self._under_way = state, partial(self._write, *parts, state, origin)
            return self.wait(state, last)
        self._thread = self._thread or ThreadPoolExecutor(1, "saving")
        write = self._thread.submit(self._write, *snapshot(*parts), state, origin)
        self._under_way = state, write.result
        return state

    def wait(self, state: State, last: bool = False) -> State:
        """Wait for the save under way; a refused one is reported.

        Return the state to continue with: the best step is one that was saved. CheckpointError: the
        save was refused, and it was the `last` one, or `REFUSALS` were in a row.
        """
        if self._under_way is None:
            return state
        (saved, end), self._under_way = self._under_way, None
        try:
            end()
        except (CheckpointError, ElsewhereError) as error:
            self._refused += 1
            if last or (self._refused == REFUSALS and not self._processes.first):
                raise
            if self._refused == REFUSALS:
                raise CheckpointError(
                    f"{REFUSALS} saves in a row were refused, the last one of step {saved.step}: "
                    f"{error}"
                ) from None
            self.say(f"refused to save ({self._refused} in a row; {REFUSALS} end the run): {error}")
        else:
            self._refused = 0
        if self.step == saved.step:
            self._best = saved.best_step, saved.best_score
        elif state.best_step == saved.step:
            state = replace(state, best_step=self._best[0], best_score=self._best[1])
        return state

    @cached_property
    def _recipe(self) -> str:
        return self.task.recipe.yaml()  # slow to write, and shown by every report

    def report(self) -> None:
        """Write `report.html`; a page that is refused is reported, and no reason to end a run."""
        if not self._processes.first:
            return
        try:
            page = report_html(
                self.history.lines,
                self._recipe,
                self.run.name,
                None if self.task.processor.tokenizer else self._thumbnail,
            )
            write_text(self.run / "report.html", page)
        except CheckpointError as error:
            self.say(f"no report: {error}")

    def _thumbnail(self, where: str) -> str | None:
        picture = self.task.objective.thumbnail(where)
        return None if picture is None else images.small(picture)

    def close(self) -> None:
        """Wait for the save under way, whether it succeeds or not."""
        if self._thread:
            self._thread.shutdown()

    def _write(
        self,
        weights: Part | None,
        optimizer: Part | None,
        exported: Transformer | None,
        state: State,
        origin: Origin,
    ) -> None:
        self._processes.from_first(self.history.sync)  # no checkpoint is newer than the log
        self.checkpoints.save(weights, optimizer, state)
        self.step = state.step
        self._processes.from_first(partial(self._export, exported, state, origin))

    def _export(self, exported: Transformer | None, state: State, origin: Origin) -> None:
        if exported is not None:
            self._unexported = True
            self._write_model(exported, state.step, origin)
        elif self._unexported:
            self._export_best(state, origin)
        self._unexported = False

    def _write_model(self, model: Transformer, step: int, origin: Origin) -> None:
        scores = of_model(self.history.lines, step).scores
        export(model, self.task, self.run, step, scores, origin)

    def restore(self, state: State, origin: Origin) -> State:
        """Export the best model of a run that is resumed, which may have been killed before it was
        written, and return the state with its score; what cannot be read is reported."""
        own = of_model(self.history.lines, self._best_step(state))
        if own.mean:  # nothing was better since
            return replace(state, best_score=own.scores.get(self.task.recipe.train.evaluate.best))
        try:
            self._export_best(state, origin)
        except CheckpointError as error:
            self.say(f"the best model, of step {own.step}, cannot be restored: {error}")
        return state

    def _best_step(self, state: State) -> int | None:
        return state.best_step if self.task.objective.validated else state.step

    def _export_best(self, state: State, origin: Origin) -> None:
        """Make sure that the run folder holds the best model of the checkpoints; CheckpointError:
        it cannot be read or written."""
        if (step := self._best_step(state)) is None:
            return
        self.checkpoints.files(step, WEIGHTS)
        best = model_to_fill(self.task.recipe, self.run, state.base)
        fill(self.checkpoints, step, best)
        if self.task.recipe.train.finetune.partial or not is_exported(self.run, best):
            self._write_model(best, step, origin)


def snapshot(
    weights: Part | None, optimizer: Part | None, model: Transformer | None
) -> tuple[Part | None, Part | None, Transformer | None]:
    """Return copies with the numbers of now, in the CPU's memory; a tensor that is there twice is
    copied once."""
    tensors = [one for part in (weights, optimizer) if part for one in part.tensors.values()]
    if model is not None:
        tensors += [*model.parameters(), *model.buffers()]
    copies: dict[int, Any] = {}
    for one in {id(one): one for one in tensors}.values():
        copied = one.detach().to("cpu", copy=True)
        if isinstance(one, nn.Parameter):
            copied = nn.Parameter(copied, one.requires_grad)
        copies[id(one)] = copied
    return copy.deepcopy((weights, optimizer, model), copies)
