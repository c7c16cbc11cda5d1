"""The run folder: what is in it before training begins.

RUN/run.lock  stdin.txt  tokens/  metrics.jsonl  report.html  checkpoints/
RUN/recipe.yaml  tokenizer.json  model.safetensors ...     see `model_files`
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from glassformer.core.distributed.torchrun import by_torchrun, is_repeated_start
from glassformer.core.errors import ConfigError
from glassformer.core.files import SYSTEM, finished_name, sweep
from glassformer.core.locks import BEFORE, LOCK, lock, unchanged_if_refused
from glassformer.recipe.reading import read_yaml
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.model_files import (
    ADAPTER,
    BASE,
    CARD,
    INPUTS,
    MANIFEST,
    MODEL,
    check_inputs,
)

OWN = {
    *(*MODEL, *INPUTS, MANIFEST, CARD),
    *(*ADAPTER, BASE, "run.lock", "metrics.jsonl", "report.html", "tensorboard", "checkpoints"),
    *("data", "stdin.txt", "stdin.jsonl", "tokens", ".tokens.shards", "pixels", "clips"),
    "job.json",  # of earlier versions
}
"""Every file and folder that training and the demos' data write into a run folder."""
GROWING = {"run.lock", "checkpoints", "tensorboard", "data", ".tokens.shards"}
"""Those that nothing changes before training begins."""


@contextmanager
def hold(run: Path) -> Iterator[None]:
    """Hold a folder for one trainer, without what a killed one left unfinished."""
    # the loading processes of one that was killed hold it for some seconds
    with lock(run, patience=30 if is_repeated_start() else 0):
        sweep(run, is_own)
        yield


def restore_if_refused(run: Path) -> AbstractContextManager[None]:
    """Put back what training wrote into its folder, if it is refused before it begins."""
    return unchanged_if_refused(run, OWN - GROWING)


def has_run(run: Path) -> bool:
    """Return whether a run has begun in a folder."""
    return (run / "recipe.yaml").is_file()


def saved_recipe(run: Path, resume: bool) -> Recipe | None:
    """Return the recipe of the run that is resumed in a folder; None: none is. CheckpointError: it
    is not as it was saved."""
    if not (resume and has_run(run)):
        return None
    check_inputs(run)
    return Recipe.parse(read_yaml(run / "recipe.yaml"))


def check_folder(run: Path, resume: bool, checkpoint: int | None = None) -> None:
    """Raise ConfigError unless a run can begin in the folder, or be resumed there; of several
    machines, one that joins later resumes what the others began."""
    if checkpoint is not None and not resume:
        raise ConfigError(
            f"checkpoint={checkpoint} is the step to go on from; add --resume (in Python "
            "resume=True)."
        )
    if not (resume and has_run(run)):
        if resume and not (run / LOCK).is_file() and not by_torchrun():
            raise ConfigError(f"{run} holds no run to resume; leave out --resume to begin one.")
        check_unused(run)


def is_own(name: str) -> bool:
    """True for the name of a file or folder that training writes into a run folder."""
    return name in OWN or name == BEFORE


def check_unused(run: Path) -> None:
    """Raise ConfigError unless a new run may have the folder: it is not there, or empty, or a run
    was stopped in it before its first checkpoint."""
    steps = Checkpoints(run).steps()
    if steps:
        raise ConfigError(
            f"{run} already holds a run at step {steps[-1]}; add --resume or choose another --run."
        )
    if (run / "model.safetensors").exists():
        raise ConfigError(f"{run} already holds a model; choose another --run.")
    for place, what in ((Path.cwd(), "the current folder"), (Path.home(), "your home folder")):
        if run.resolve() == place.resolve():
            raise ConfigError(f"{run} is {what}; choose a new folder for --run, as runs/mine.")
    begun = (run / LOCK).exists()
    for name in sorted(os.listdir(run)) if run.is_dir() else ():
        if name not in SYSTEM and not (begun and is_own(finished_name(name))):
            raise ConfigError(
                f"{run} already holds {name}, and a run has a folder of its own; choose another "
                "--run."
            )
