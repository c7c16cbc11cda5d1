"""B1: after a loss of power at any moment, a run goes on from the old checkpoint or the new one."""

import json
from pathlib import Path

import pytest
import torch

from glassformer.core import files
from glassformer.core.manifest import difference
from glassformer.models.weights import check_model
from glassformer.recipe.train import SaveConfig
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import fill
from small_runs import go, hashes, losses, recipe

from .crashing_disk import Trace, traced
from .small import model, moments, saved

OLD, NEW = 3, 7
BEFORE = {"first": [], "next": [1, OLD], "again": [OLD, NEW], "in parts": [OLD]}
"""Steps that a run has before it saves `NEW`."""
PARTS = {"in parts": 2}
"""Processes that save together, each its part."""


def save(run: Path, step: int, count: int = 1) -> None:
    state = State(step, "d", best_step=step, best_score=1.0)
    keep = SaveConfig(keep_last=2)
    optimizer = {"a:b": torch.full((300,), step)}
    assert not any(saved(Checkpoints(run, keep), model(step), optimizer, state, count))


def traced_save(run: Path, before: list[int], count: int = 1) -> Trace:
    for step in before:
        save(run, step, count)
    with traced(run) as trace:
        save(run, NEW, count)
    return trace


def loaded(run: Path) -> int:
    """The step that a run would go on from, and that everything there is whole."""
    checkpoints = Checkpoints(run)
    checkpoints.sweep()
    if not checkpoints.steps():
        return 0
    state, passed = checkpoints.newest()
    assert not passed, passed
    made = model(0)
    fill(checkpoints, state.step, made)
    assert (made.embed.element.weight == state.step).all()
    assert (moments(checkpoints, state.step) == state.step).all()
    names = {checkpoints.path(step).name for step in checkpoints.steps()}
    assert all(difference(checkpoints.folder / name) is None for name in names)
    assert {one.name for one in checkpoints.folder.iterdir()} - names <= {"best.json"}
    if (best := checkpoints.folder / "best.json").exists():
        assert json.loads(best.read_text())["step"] in checkpoints.steps()
    return state.step


def tried(trace: Trace, before: list[int], place: Path, every: bool) -> dict[int, int]:
    """How often each step was loaded, after every prefix with `every` loss, or with none and all."""
    old = max(before, default=0)
    seen = {old: 0, NEW: 0}
    for end, loss, disk in trace.disks(every):
        disk.write(run := place / f"{sum(seen.values())}")
        step = loaded(run)
        assert step in (old, NEW), trace.told(end, loss)
        assert step == NEW or end < len(trace), "it was durable when `save` returned"
        seen[step] += 1
    return seen


@pytest.mark.parametrize("name", ["next", "in parts"])
def test_every_prefix_of_a_save(tmp_path, name):
    (tmp_path / "run").mkdir()
    trace = traced_save(tmp_path / "run", BEFORE[name], PARTS.get(name, 1))
    assert all(tried(trace, BEFORE[name], tmp_path, every=False).values())


@pytest.mark.parametrize("unsynced", [Path.is_dir, Path.is_file])
def test_the_disk_finds_what_is_not_synced(tmp_path, monkeypatch, unsynced):
    """Of a save that syncs no folder, or no file, something is lost."""
    real = files.sync
    for module in ("files", "manifest"):
        monkeypatch.setattr(
            f"glassformer.core.{module}.sync", lambda path: None if unsynced(path) else real(path)
        )
    (tmp_path / "run").mkdir()
    trace = traced_save(tmp_path / "run", [OLD])
    with pytest.raises(AssertionError):
        tried(trace, [OLD], tmp_path, every=False)


@pytest.mark.slow
@pytest.mark.reliability
def test_every_loss_of_a_save(tmp_path, table):
    """Quick: `test_every_prefix_of_a_save`."""
    steps, seen = 0, {}
    for name, before in BEFORE.items():
        (run := tmp_path / name).mkdir()
        trace = traced_save(run, before, PARTS.get(name, 1))
        steps += len(trace)
        (place := tmp_path / f"after {name}").mkdir()
        seen[name] = tried(trace, before, place, every=True)
        assert all(seen[name].values())
    states = sum(sum(one.values()) for one in seen.values())
    table("B1", f"{steps} steps of 4 saves, {states} disks after a loss of power: 0 not whole")


@pytest.mark.slow
@pytest.mark.reliability
def test_a_run_that_lost_power_anywhere_ends_in_the_same_bits(tmp_path, table):
    """The whole run, from its empty folder: encoded data, recipe, log, checkpoints, the exported
    model."""
    made = recipe(tmp_path, train={"steps": 4, "evaluate.every": 2, "save.keep_last": 1})
    (place := tmp_path / "place").mkdir()
    with traced(place) as trace:
        go(made, place / "whole")
    whole, count = place / "whole", 0
    for end, loss, disk in trace.disks(every=False):
        disk.write(tmp_path / f"{count}")
        run = tmp_path / f"{count}" / "whole"
        if (run / "model.safetensors").exists():
            check_model(run)
        go(made, run, resume=(run / "run.lock").exists())
        assert hashes(run) == hashes(whole), trace.told(end, loss)
        assert losses(run) == losses(whole), trace.told(end, loss)
        count += 1
    table("B1", f"{len(trace)} steps of a run, {count} disks: 0 end in other bits")
