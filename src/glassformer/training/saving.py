"""Saves while training goes on: checkpoints, and the best model in the run folder.

A save that the disk refuses costs nothing but itself: the run is told, goes on, and tries again at
the next one. In the background, a save begins with a copy of what it writes, and a thread writes
it; its error comes where the run waits for it: before the next save, and at the end.
"""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from glassformer.errors import CheckpointError
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Task
from glassformer.training.checkpoint import WEIGHTS, Checkpoints, State
from glassformer.training.history import History
from glassformer.training.model_card import Origin
from glassformer.training.model_files import export, is_exported
from glassformer.training.report import write_report
from glassformer.training.start import model_to_fill

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
        self.history, self.say, self.step = history, say, begin.step
        self._best = begin.best_step, begin.best_score
        self._under_way: tuple[State, Future[None]] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._refused, self._unexported = 0, False

    def save(
        self,
        model: Transformer,
        optimizer: dict[str, Tensor],
        state: State,
        origin: Origin,
        exported: bool,
        last: bool = False,
    ) -> State:
        """Save a checkpoint, then the model itself if it is `exported`; gives the state to go on
        with (see `wait`)."""
        state = self.wait(state)
        if self.checkpoints.keep.background and not last:
            model, optimizer = copy_of(model), {name: _copied(t) for name, t in optimizer.items()}
            self._thread = self._thread or ThreadPoolExecutor(1, "saving")
            begin = self._thread.submit
        else:
            begin = _at_once
        scores = self.history.scores(state.step) if exported else {}
        write = partial(self._write, model, optimizer, state, scores, origin, exported)
        self._under_way = state, begin(write)
        return state if self._thread and not last else self.wait(state, last)

    def wait(self, state: State, last: bool = False) -> State:
        """Wait for the save under way; a refused one is told.

        Gives the state to go on with: the best step is one that was saved. CheckpointError: the
        save was refused, and it was the `last` one, or `REFUSALS` were in a row.
        """
        if self._under_way is None:
            return state
        (saved, writing), self._under_way = self._under_way, None
        try:
            writing.result()
        except CheckpointError as error:
            self._refused += 1
            if last:
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
        """Write `report.html`; a refused page is told, and not worth losing a run."""
        try:
            write_report(self.run, self.task, self.history.lines, self._recipe)
        except CheckpointError as error:
            self.say(f"no report: {error}")

    def close(self) -> None:
        """Wait for the save under way, whatever becomes of it."""
        if self._thread:
            self._thread.shutdown()

    def _write(
        self,
        model: Transformer,
        optimizer: dict[str, Tensor],
        state: State,
        scores: dict[str, Any],
        origin: Origin,
        exported: bool,
    ) -> None:
        self.history.sync()  # no checkpoint is newer than the log
        self.checkpoints.save(model, optimizer, state)
        self.step = state.step
        if exported:
            self._unexported = True
            export(model, self.task, self.run, state.step, scores, origin)
        elif self._unexported:
            self.export_best(state, origin)
        self._unexported = False

    def restore(self, state: State, origin: Origin) -> State:
        """Export the best model of a run that is resumed, which may have been killed before it was
        written; what cannot be read is told.

        Gives the state with the best score of the exported model.
        """
        step = state.best_step if self.task.validated else state.step
        if step is None:
            return state
        if means := self.history.since(step, "averaged_taken"):  # nothing was better since
            best = f"validation_{self.task.recipe.train.evaluate.best}"
            return replace(state, best_score=means[-1].get(best))
        try:
            self.export_best(state, origin)
        except CheckpointError as error:
            self.say(f"the best model, of step {step}, cannot be restored: {error}")
        return state

    def export_best(self, state: State, origin: Origin) -> None:
        """Make sure that the run folder holds the best model of the checkpoints; CheckpointError:
        it cannot be read or written."""
        step = state.best_step if self.task.validated else state.step
        if step is None:
            return
        recipe, folder = self.task.recipe, self.checkpoints.path(step)
        if not recipe.train.finetune.partial and is_exported(self.run, folder):
            return
        self.checkpoints.check(step, [WEIGHTS])
        best = model_to_fill(recipe, self.run, state.base)
        self.checkpoints.load(step, best)
        export(best, self.task, self.run, step, self.history.scores(step), origin)


def copy_of(model: Transformer) -> Transformer:
    """The model as it is now, in the CPU's memory."""
    memo: dict[int, Any] = {
        id(one): nn.Parameter(_copied(one), one.requires_grad) for one in model.parameters()
    }
    memo |= {id(one): _copied(one) for one in model.buffers()}
    return copy.deepcopy(model, memo)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _at_once(write: Callable[[], None]) -> Future[None]:
    """What a thread would do."""
    done: Future[None] = Future()
    try:
        done.set_result(write())
    except CheckpointError as error:
        done.set_exception(error)
    return done
