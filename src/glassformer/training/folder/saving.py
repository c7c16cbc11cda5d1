"""Saves while training goes on: checkpoints, and the best model in the run folder.

All processes of a run save together, each what it answers for; the first one does the rest. A save
that the disk refuses to one of them costs nothing but itself: the run is told, goes on, and tries
again at the next one. In the background, a save begins with a copy of what it writes, and a thread
of each process writes it; its error comes where the run waits for it: before the next save, and at
the end.
"""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from glassformer.core.errors import CheckpointError, ElsewhereError
from glassformer.core.files import write_text
from glassformer.models.transformer import Transformer
from glassformer.pages import images
from glassformer.pages.training_report import report_html
from glassformer.tasks.task import Task
from glassformer.training.folder.checkpoints import WEIGHTS, Checkpoints, State
from glassformer.training.folder.history import History
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
        self._under_way: tuple[State, Future[None]] | None = None
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
        """Save a checkpoint, then the model itself if it is `exported`; gives the state to go on
        with (see `wait`)."""
        state, begin = self.wait(state), _at_once
        exported = exported if self._processes.first else None
        if self.checkpoints.keep.background and not last:
            weights, optimizer, exported = snapshot(weights, optimizer, exported)
            self._thread = self._thread or ThreadPoolExecutor(1, "saving")
            begin = self._thread.submit
        scores = self.history.scores(state.step) if exported else {}
        write = partial(self._write, weights, optimizer, state, scores, origin, exported)
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
        """Write `report.html`; a refused page is told, and not worth losing a run."""
        if not self._processes.first:
            return
        try:
            page = report_html(
                self.history.lines,
                self._recipe,
                self.run.name,
                self._thumbnail if self.task.pictured else None,
            )
            write_text(self.run / "report.html", page)
        except CheckpointError as error:
            self.say(f"no report: {error}")

    def _thumbnail(self, where: str) -> str | None:
        picture = self.task.thumbnail(where)
        return None if picture is None else images.small(picture)

    def close(self) -> None:
        """Wait for the save under way, whatever becomes of it."""
        if self._thread:
            self._thread.shutdown()

    def _write(
        self,
        weights: Part | None,
        optimizer: Part | None,
        state: State,
        scores: dict[str, Any],
        origin: Origin,
        exported: Transformer | None,
    ) -> None:
        self._processes.from_first(self.history.sync)  # no checkpoint is newer than the log
        self.checkpoints.save(weights, optimizer, state)
        self.step = state.step
        self._processes.from_first(partial(self._export, exported, state, scores, origin))

    def _export(
        self, exported: Transformer | None, state: State, scores: dict[str, Any], origin: Origin
    ) -> None:
        if exported is not None:
            self._unexported = True
            export(exported, self.task, self.run, state.step, scores, origin)
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
        self.checkpoints.checked(step, WEIGHTS)
        best = model_to_fill(self.task.recipe, self.run, state.base)
        fill(self.checkpoints, step, best)
        if self.task.recipe.train.finetune.partial or not is_exported(self.run, best):
            export(best, self.task, self.run, step, self.history.scores(step), origin)


def snapshot(
    weights: Part | None, optimizer: Part | None, model: Transformer | None
) -> tuple[Part | None, Part | None, Transformer | None]:
    """What is to be written as it is now, in the CPU's memory; what is there twice, once."""
    copies: dict[int, Tensor] = {}

    def copied(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().to("cpu", copy=True)
        return copies[id(tensor)]

    def part(one: Part | None) -> Part | None:
        return one and one.with_tensors({name: copied(own) for name, own in one.tensors.items()})

    return part(weights), part(optimizer), model and _copy_of(model, copied)


def _copy_of(model: Transformer, copied: Callable[[Tensor], Tensor]) -> Transformer:
    memo: dict[int, Any] = {
        id(one): nn.Parameter(copied(one), one.requires_grad) for one in model.parameters()
    }
    memo |= {id(one): copied(one) for one in model.buffers()}
    return copy.deepcopy(model, memo)


def _at_once(write: Callable[[], None]) -> Future[None]:
    """What a thread would do."""
    done: Future[None] = Future()
    try:
        done.set_result(write())
    except (CheckpointError, ElsewhereError) as error:
        done.set_exception(error)
    return done
