"""B2: a save that the system refuses, at any of its calls, costs nothing but itself."""

import errno
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors import SafetensorError

from glassformer.core.errors import CheckpointError, ElsewhereError
from glassformer.core.files import sweep, writing
from glassformer.core.manifest import temporary_of
from glassformer.models import weights
from glassformer.models.weights import check_model
from glassformer.recipe.train import SaveConfig
from glassformer.training.folder import checkpoints as module
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.run_folder import is_own
from glassformer.training.folder.saving import Saving
from small_runs import go, hashes, losses, recipe

from .small import model, saved

NUMBERS = (errno.ENOSPC, errno.EIO, errno.EACCES)
CALLS = (
    "fsync",
    "open",
    "rename",
    "replace",
    "mkdir",
    "unlink",
    "rmdir",
    "chmod",
    "stat",
    "scandir",
)


class System:
    """Counts the calls to the system while it is armed, and refuses one of them."""

    def __init__(self, number: int):
        self.number, self.at, self.count, self.armed = number, 0, 0, False

    def call(self, real: Callable, error: Callable) -> Callable:
        def called(*arguments, **named):
            self.count += self.armed
            if self.armed and self.count == self.at:
                raise error(self.number, os.strerror(self.number))
            return real(*arguments, **named)

        return called


@contextmanager
def refusing(number: int) -> Iterator[System]:
    """Every call that a save makes: Python's, and those of the writer of tensors as one."""
    system = System(number)
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            real = (lambda handle: None) if name == "fsync" else getattr(os, name)  # which is slow
            patch.setattr(os, name, system.call(real, OSError))
        patch.setattr(io, "open", system.call(io.open, OSError))
        in_rust = lambda number, text: SafetensorError(text)
        patch.setattr(weights, "save_file", system.call(weights.save_file, in_rust))
        yield system


def refused(folder: Path, number: int, every: int) -> Counter[str]:
    """Refuse each `every`-th call of a save, one in every other save of a run; how often that was
    told, and how often the save succeeded without that call."""
    counts, real, run = Counter(), Saving.save, folder / "x"
    steps = 2 * (200 // every)
    made = recipe(
        folder,
        data={"validation.fraction": 0.0},  # so that each save exports the model
        train={"steps": steps, "save.every": 1, "schedule.warmup_steps": 0},
    )

    def save(self, model, optimizer, state, *rest, **named):
        system.count, system.at = 0, state.step // 2 * every if state.step % 2 == 0 else -1
        before, said = self.step, []
        self.say, say = said.append, self.say
        system.armed = True
        try:
            return real(self, model, optimizer, state, *rest, **named)
        finally:
            system.armed, self.say = False, say
            if system.at > 0:
                reached = system.count >= system.at
                saved = self.step == state.step
                whole(run, state.step if saved else before)
                assert reached >= bool(said)
                counts["told" if said else "needless" if reached else "past the last"] += 1
                assert said or (saved and not self._unexported)
                assert all("in a row; 3 end the run): Cannot write" in one for one in said)

    with refusing(number) as system:
        go(made, folder / "whole")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Saving, "save", save)
            go(made, run)
    assert hashes(run) == hashes(folder / "whole")
    assert losses(run) == losses(folder / "whole")
    assert counts["past the last"], "every call was reached"
    return counts


def whole(run: Path, step: int) -> None:
    """The run folder has this checkpoint and a model, and after a sweep nothing else."""
    checkpoints = Checkpoints(run)
    state, passed = checkpoints.newest()
    assert state.step in (step, step + 1)
    assert not passed
    check_model(run)
    sweep(run, is_own)
    checkpoints.sweep()
    assert not [path for path in run.rglob(".*")]


def test_a_refused_call_costs_one_save(tmp_path):
    counts = refused(tmp_path, errno.EIO, every=29)
    assert counts["told"] > 3


def refused_in_parts(folder: Path, number: int, every: int) -> Counter[str]:
    """Refuse each `every`-th call of a save by two processes: both have saved, or none has."""
    counts, at = Counter(), 0
    checkpoints = Checkpoints(folder, SaveConfig(keep_last=1))
    while not counts["past the last"]:
        at += every
        assert not any(saved(checkpoints, model(3), {}, State(3, "d"), 2))
        with refusing(number) as system:
            system.at, system.armed = at, True
            ends = saved(checkpoints, model(7), {}, State(7, "d"), 2)
        if any(ends):
            first, other = ends
            assert "Cannot write" in str(first)
            assert (type(first), type(other)) == (CheckpointError, ElsewhereError)
        how = "told" if any(ends) else "needless" if system.count >= at else "past the last"
        counts[how] += 1
        checkpoints.sweep()
        assert max(checkpoints.steps()) == checkpoints.newest()[0].step
        assert (checkpoints.steps()[-1] == 7) >= (not any(ends))
        assert not [*folder.rglob(".*")]
        shutil.rmtree(checkpoints.folder)
    return counts


def test_a_call_that_one_of_two_processes_is_refused_costs_both_one_save(tmp_path):
    assert refused_in_parts(tmp_path, errno.EIO, every=5)["told"] > 5


def test_a_folder_that_processes_do_not_share_is_refused(tmp_path, monkeypatch):
    """The second one writes on another disk."""
    real, checkpoints = module._write, Checkpoints(tmp_path / "x")

    def written(path, parts, state):
        if state is not None:
            return real(path, parts, state)
        other = temporary_of(tmp_path / "other")
        other.mkdir()
        return real(tmp_path / "other", parts, state)

    monkeypatch.setattr(module, "_write", written)
    first, _ = saved(checkpoints, model(3), {}, State(3, "d"), 2)
    assert "wrote model-00002-of-00002.safetensors, which is not seen here; choose" in str(first)
    assert not [*(tmp_path / "x" / "checkpoints").iterdir()]


@pytest.mark.slow
@pytest.mark.reliability
def test_every_call_and_every_error(tmp_path, table):
    """Quick: `test_a_refused_call_costs_one_save`."""
    counts = Counter()
    for number in NUMBERS:
        (folder := tmp_path / f"{number}").mkdir()
        counts += refused(folder, number, every=1)
        (folder / "parts").mkdir()
        counts += refused_in_parts(folder / "parts", number, every=1)
    calls = counts["told"] + counts["needless"]
    table(
        "B2",
        f"{calls} refused calls of saves: {counts['told']} told, {counts['needless']} "
        "that the save did not need; 0 runs ended, 0 in other bits, 0 files left",
    )


@pytest.mark.parametrize("when", ["in a row", "last"])
def test_a_disk_that_stays_full_ends_the_run_with_a_sentence(tmp_path, monkeypatch, when):
    first = {"in a row": 2, "last": 8}[when]
    real = Checkpoints.save

    def save(self, model, optimizer, state):
        if state.step >= first:
            with writing(self.folder):
                raise OSError(errno.ENOSPC, "No space left")
        real(self, model, optimizer, state)

    monkeypatch.setattr(Checkpoints, "save", save)
    told = r"No space left; free some space\.$"
    ended = rf"^3 saves in a row were refused, the last one of step 6: .*{told}"
    with pytest.raises(CheckpointError, match=ended if when == "in a row" else f"^Cannot.*{told}"):
        go(recipe(tmp_path), tmp_path / "x")
    assert Checkpoints(tmp_path / "x").steps() == ([] if when == "in a row" else [4, 6])


def test_a_best_that_was_not_saved_is_not_the_best(tmp_path, monkeypatch):
    """The next one that is better than the best on disk is."""
    real = Checkpoints.save

    def save(self, model, optimizer, state):
        if state.step == 4:
            raise CheckpointError("Cannot write it.")
        real(self, model, optimizer, state)

    scores = iter([4.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(
        "glassformer.tasks.objectives.next_token.NextToken.scores",
        lambda *arguments: {"loss": next(scores)},
    )
    monkeypatch.setattr(Checkpoints, "save", save)
    result, said = go(recipe(tmp_path, train={"evaluate.every": 2}), tmp_path / "x")
    assert "refused to save (1 in a row; 3 end the run): Cannot write it." in said
    assert result.best == 2.0
    best = tmp_path / "x" / "checkpoints" / "step-00000006" / "model.safetensors"
    assert best.read_bytes() == (tmp_path / "x" / "model.safetensors").read_bytes()
