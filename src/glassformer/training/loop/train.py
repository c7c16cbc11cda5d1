"""A run from the recipe to the last checkpoint.

Everything random is a function of (seed, step): a run that is resumed ends in the same bits.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from glassformer.core.cpu import cpu_threads
from glassformer.core.distributed.torchrun import (
    is_repeated_start,
    join_processes,
    leaving_the_silent,
)
from glassformer.core.progress import Progress, following
from glassformer.core.signals import Stop
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.given_data import keep_rows
from glassformer.training.folder.history import Listener, tensorboard
from glassformer.training.folder.run_folder import check_folder, has_run, hold, restore_if_refused
from glassformer.training.loop.setup import set_up
from glassformer.training.loop.trainer import Result, Trainer


def train(
    recipe: Recipe,
    run: Path,
    resume: bool = False,
    checkpoint: int | None = None,
    rows: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    listeners: Sequence[Listener] = (),
    stop: Stop | None = None,
) -> Result:
    """Train in the folder `run`, or continue from its newest checkpoint, or from that of the step
    `checkpoint`; what came after that step is removed. `rows`: data of splits in memory, see
    `given_data`. `stop`: requests between the first step and the end, also of a run that is
    complete or fails.

    ConfigError: the folder already holds a run (or another one, when resuming). DataError: unusable
    data. TrainingError: a loss that is not finite. CheckpointError: the folder cannot be written,
    or the named checkpoint is damaged.
    """
    with ExitStack() as held:
        processes = held.enter_context(join_processes())
        shown = (progress or Progress()) if processes.first else Progress(quiet=True)
        again = is_repeated_start()
        resume, checkpoint = resume or (again and has_run(run)), None if again else checkpoint
        processes.from_first(lambda: check_folder(run, resume, checkpoint))
        held.enter_context(processes.first_holds(lambda: hold(run)))
        with processes.in_turn():
            held.enter_context(keep_rows(rows or {}, run, resume, processes.first))
        held.enter_context(cpu_threads())
        with processes.first_holds(lambda: restore_if_refused(run)), following(shown.before):
            own = set_up(recipe, run, resume, checkpoint, processes, shown.message)
            if own.task.recipe.train.tensorboard and processes.first:
                listeners = [*listeners, held.enter_context(tensorboard(run))]
            training = Trainer(own, run, shown, listeners if processes.first else ())
        held.callback(training.close)
        with leaving_the_silent(processes):  # before anything is closed
            return training.go(stop or Stop())
