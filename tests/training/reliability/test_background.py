"""B4: a save in the background has what was there when it began, one at a time, and its errors
arrive."""

import threading
from types import SimpleNamespace

import pytest
import torch

from glassformer.core.errors import CheckpointError
from glassformer.recipe.train import OptimizerConfig, SaveConfig
from glassformer.training.folder import saving
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import fill, fill_optimizer, tensors_to_save
from glassformer.training.folder.part_files import Part
from glassformer.training.folder.saving import Saving
from glassformer.training.loop.optimizer import Optimizer
from small_runs import go, hashes, losses, recipe

from .small import model

IN_BACKGROUND = {"save.background": True, "save.every": 1, "evaluate.every": 2}


class Log:
    """A history without lines."""

    def sync(self) -> None: ...


@pytest.fixture
def under_way(tmp_path) -> Saving:
    checkpoints = Checkpoints(tmp_path, SaveConfig(background=True))
    task = SimpleNamespace(recipe=None, objective=SimpleNamespace(validated=True))
    return Saving(task, checkpoints, Log(), State(0, "d"), say=lambda text: None)


@pytest.fixture
def held(monkeypatch) -> threading.Event:
    """The writer waits for this event before its first byte."""
    event, real = threading.Event(), Part.save

    def waits(*arguments):
        assert event.wait(60)
        return real(*arguments)

    monkeypatch.setattr(Part, "save", waits)
    return event


def snapshots(one: Saving, event: threading.Event, n: int) -> int:
    """How many saves have the state of their own step, though weights, optimizer and counters go on
    before the first byte is written."""
    made = model(0)
    optimizer = Optimizer(made, OptimizerConfig())
    state, same = State(0, "d"), 0
    for step in range(1, n + 1):
        for parameter in made.parameters():
            parameter.grad = torch.full_like(parameter, step)
        optimizer.step(1.0)
        wanted = {name: p.detach().clone() for name, p in made.named_parameters()}
        moments = {name: value.clone() for name, value in optimizer.state().items()}
        event.clear()
        state = State(step, "d", tokens=step)
        weights, now = Part(tensors_to_save(made)), Part(optimizer.state())
        one.save(weights, now, state, origin=None, exported=None)
        with torch.no_grad():
            for tensor in (*made.parameters(), *optimizer.state().values()):
                tensor.add_(1)
        event.set()
        one.wait(state)
        found = model(0)
        restored = Optimizer(found, OptimizerConfig())
        fill(one.checkpoints, step, found)
        fill_optimizer(one.checkpoints, step, restored.blank)
        same += (
            one.checkpoints.state(step) == state
            and all(torch.equal(p, wanted[name]) for name, p in found.named_parameters())
            and all(torch.equal(v, moments[name]) for name, v in restored.state().items())
        )
    return same


def test_what_is_saved_is_what_was_there(under_way, held):
    assert snapshots(under_way, held, 5) == 5


@pytest.mark.slow
@pytest.mark.reliability
def test_two_hundred_snapshots(under_way, held, table):
    """Quick: `test_what_is_saved_is_what_was_there`."""
    same = snapshots(under_way, held, 200)
    table("B4", f"{same} of 200 saves have the state of their step")
    assert same == 200


def test_without_a_copy_later_weights_would_be_saved(under_way, held, monkeypatch):
    monkeypatch.setattr(saving, "snapshot", lambda *parts: parts)
    assert snapshots(under_way, held, 2) == 0


def test_one_at_a_time(under_way, held, monkeypatch):
    """The second save begins when the first one is there."""
    held.set()
    real, together = Checkpoints.save, []

    def save(self, model, optimizer, state):
        together.append(state.step)
        real(self, model, optimizer, state)
        together.append(state.step)

    monkeypatch.setattr(Checkpoints, "save", save)
    state = State(0, "d")
    for step in (1, 2, 3):
        weights = Part(tensors_to_save(model(step)))
        state = under_way.save(weights, None, State(step, "d"), origin=None, exported=None)
    under_way.wait(state)
    assert together == [1, 1, 2, 2, 3, 3]


def test_a_run_is_the_same_as_without(tmp_path):
    made = recipe(tmp_path, train=IN_BACKGROUND)
    go(made, tmp_path / "x")
    go(recipe(tmp_path, train=IN_BACKGROUND | {"save.background": False}), tmp_path / "y")
    assert hashes(tmp_path / "x") == hashes(tmp_path / "y")
    assert losses(tmp_path / "x") == losses(tmp_path / "y")
    assert (tmp_path / "x" / "README.md").exists()


def test_errors_arrive_where_the_run_waits(tmp_path, monkeypatch):
    real, here = Checkpoints.save, set()

    def save(self, model, optimizer, state):
        here.add(threading.current_thread() is threading.main_thread())
        if state.step > 2:
            raise CheckpointError("Cannot write it; free some space.")
        real(self, model, optimizer, state)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(CheckpointError, match=r"3 saves in a row .* of step 5: Cannot write it"):
        go(recipe(tmp_path, train=IN_BACKGROUND), tmp_path / "x")
    assert here == {False}
    assert Checkpoints(tmp_path / "x").steps() == [1, 2]


def test_a_bug_in_the_thread_ends_the_run(tmp_path, monkeypatch):
    def save(self, model, optimizer, state):
        raise ZeroDivisionError

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(ZeroDivisionError):
        go(recipe(tmp_path, train=IN_BACKGROUND), tmp_path / "x")


@pytest.mark.parametrize("background", [True, False])
def test_a_signal_waits_for_the_save_and_tries_a_refused_one_again(
    tmp_path, monkeypatch, background
):
    """The save of the step at which the signal comes is refused once."""
    real, refused = Checkpoints.save, []

    def save(self, model, optimizer, state):
        if state.step == 3 and not refused:
            refused.append(state.step)
            raise CheckpointError("Cannot write it.")
        real(self, model, optimizer, state)

    monkeypatch.setattr(Checkpoints, "save", save)
    stopping = [None, None, None, 15]  # asked before each step
    monkeypatch.setattr("glassformer.training.loop.train.Stop", lambda: _Stop(stopping))
    result, said = go(
        recipe(tmp_path, train=IN_BACKGROUND | {"save.background": background}), tmp_path / "x"
    )
    assert "refused to save (1 in a row; 3 end the run): Cannot write it." in said
    assert (result.steps, result.interrupted) == (3, 15)
    assert Checkpoints(tmp_path / "x").steps()[-1] == 3


class _Stop:
    """A request that has come when this was asked so many times."""

    def __init__(self, stopping):
        self._stopping = iter(stopping)

    @property
    def signal(self):
        return next(self._stopping, 15)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass
