"""A run from the recipe to the last checkpoint.

Everything random is a function of (seed, step): a run that is resumed ends in the same bits.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from glassformer.core.cpu import cpu_threads
from glassformer.core.distributed.torchrun import is_repeated_start, joined, leaving_the_silent
from glassformer.core.progress import Progress, following
from glassformer.core.signals import Stop
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.given_data import check_rows, written
from glassformer.training.folder.history import Listener, tensorboard
from glassformer.training.folder.run_folder import hold, unchanged
from glassformer.training.loop.setup import check, set_up
from glassformer.training.loop.trainer import Result, Trainer


def train(
    recipe: Recipe,
    run: Path,
    resume: bool = False,
    progress: Progress | None = None,
    listeners: Sequence[Listener] = (),
    checkpoint: int | None = None,
    rows: Mapping[str, Any] | None = None,
    stop: Stop | None = None,
) -> Result:
    """Train in the folder `run`, or continue where its newest checkpoint stands, or the one of the
    step `checkpoint`; what came after that step goes. `rows`: data of splits in memory, see
    `given_data`. `stop`: requests between the first step and the end, also of a run that is
    complete or fails.

    Errors: ConfigError for a folder that already holds a run (or another one, when resuming),
    DataError for unusable text, TrainingError for a loss that is not finite, CheckpointError for a
    folder that cannot be written, or a named checkpoint that is damaged.
    """
    with ExitStack() as ends:
        processes = ends.enter_context(joined())
        if not processes.first:
            progress, listeners = Progress(quiet=True), ()
        progress = progress or Progress()
        repeated = is_repeated_start() and (run / "recipe.yaml").is_file()
        resume, checkpoint = resume or repeated, None if is_repeated_start() else checkpoint
        processes.from_first(lambda: check(recipe, run, resume, processes.count, checkpoint))
        ends.enter_context(processes.first_holds(lambda: hold(run)))
        ends.enter_context(processes.first_holds(lambda: written(rows or {}, run, resume)))
        ends.enter_context(cpu_threads())
        with processes.first_holds(lambda: unchanged(run)), following(progress.before):
            processes.each(lambda: None if processes.first else check_rows(rows or {}, run))
            own = set_up(recipe, run, resume, processes, progress.message, checkpoint)
            if own.task.recipe.train.tensorboard and processes.first:
                listeners = [*listeners, ends.enter_context(tensorboard(run))]
            training = Trainer(own, run, processes, progress, listeners)
        for one in (training.history, training.saving, progress):
            ends.callback(one.close)
        with leaving_the_silent(processes):  # before anything is closed
            return training.go(stop or Stop())
