"""B1: after a loss of power at any moment of a save, the old checkpoint is loaded or the new one."""

import json
from pathlib import Path

import pytest
import torch

from glassformer.manifest import difference
from glassformer.training.checkpoint import Checkpoints, State

from .crashing_disk import Loss, Trace, found, traced
from .small import model

OLD, NEW = 3, 7


def save(run: Path, step: int, best: int | None = None) -> None:
    state = State(step, "d", best_step=best, best_score=1.0)
    Checkpoints(run).save(model(step), {"a:b": torch.full((300,), step)}, state)


def loaded(run: Path) -> int:
    """The step that a run would go on from, all of its files looked at."""
    checkpoints = Checkpoints(run)
    checkpoints.sweep()
    state, passed = checkpoints.newest()
    assert not passed, passed
    made = model(0)
    optimizer = checkpoints.load(state.step, made)
    assert (made.embed.element.weight == state.step).all()
    assert (optimizer["a:b"] == state.step).all()
    assert all(difference(checkpoints.path(step)) is None for step in checkpoints.steps())
    best = checkpoints.folder / "best.json"
    assert json.loads(best.read_text())["step"] in checkpoints.steps()
    assert {one.name for one in checkpoints.folder.iterdir()} == {
        "best.json",
        *(checkpoints.path(step).name for step in checkpoints.steps()),
    }
    return state.step


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Trace:
    """A save of a run that has two checkpoints, and lets the older one go."""
    run = tmp_path_factory.mktemp("traced")
    save(run, 1, best=1)
    save(run, OLD, best=OLD)
    with traced(run) as trace:
        save(run, NEW, best=NEW)
    return trace


def test_every_prefix(trace, tmp_path):
    for end in range(len(trace) + 1):
        pending = frozenset(trace.pending(end))
        for loss in {Loss(), Loss(pending)}:
            step = loaded(found(trace, end, loss, tmp_path / "x"))
            assert step in (OLD, NEW), trace.told(end, loss)


@pytest.mark.slow
@pytest.mark.reliability
def test_every_loss(trace, tmp_path, table):
    seen = {OLD: 0, NEW: 0}
    for end in range(len(trace) + 1):
        for loss in trace.losses(end):
            seen[loaded(found(trace, end, loss, tmp_path / "x"))] += 1
    table("B1", f"{len(trace)} steps, {sum(seen.values())} losses: {seen}")
