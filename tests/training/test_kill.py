"""`kill -9` of a real process, wherever it hits; `--resume` until done; the bits of an
uninterrupted run."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from glassformer.manifest import difference
from small_runs import hashes, losses, values

CALLS = 2_800  # what a step of this recipe makes
STARTED = "import sys; from glassformer.__main__ import main; main()"
# The same command, stopped for good at the n-th call that makes a file durable: inside a save.
IN_A_SAVE = """
import os, sys
real, left = os.fsync, int(os.environ["KILL_AT"])
def fsync(handle):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    real(handle)
os.fsync = fsync
from glassformer.__main__ import main
main()
"""
# The same command, sent a signal at the n-th call, of Python's functions and of C's, after a step
# was logged.
AFTER_A_STEP = """
import os, sys
from glassformer.__main__ import main
from glassformer.training.history import History
real, step, left, number = History.add, *(int(os.environ[name]) for name in ("STEP", "CALL", "SIGNAL"))
def count(frame, event, argument):
    global left
    left -= event in ("call", "c_call")
    if left <= 0:
        sys.setprofile(None)
        os.kill(os.getpid(), number)
def add(self, *arguments, **values):
    real(self, *arguments, **values)
    if values["step"] == step and "train_loss" in values:
        sys.setprofile(count)
History.add = add
main()
"""


def command(code: str, recipe: Path, run: Path, resume: bool) -> list[str]:
    arguments = ["train", str(recipe), "--run", str(run), *(["--resume"] if resume else [])]
    return [sys.executable, "-c", code, *arguments]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The recipe, and a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("kill")
    made = values(
        folder, model={"dropout": 0.1}, train={"steps": 30, "save.every": 5, "evaluate.every": 10}
    )
    (folder / "recipe.yaml").write_text(yaml.safe_dump(made))
    subprocess.run(
        command(STARTED, folder / "recipe.yaml", folder / "whole", False),
        check=True,
        capture_output=True,
    )
    return folder / "recipe.yaml", folder / "whole"


def until_done(recipe: Path, run: Path) -> None:
    done = subprocess.run(command(STARTED, recipe, run, True), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def assert_same(run: Path, whole: Path) -> None:
    assert hashes(run) == hashes(whole)
    assert losses(run) == losses(whole)
    for folder in (run / "checkpoints").glob("step-*"):
        assert difference(folder) is None
    assert not [p for p in run.rglob("*") if ".tmp" in p.name or p.name.startswith(".")]


def interrupted(
    recipe: Path, run: Path, step: int, call: int, number: int
) -> subprocess.CompletedProcess[str]:
    """Train, or go on, until the signal comes at that call after that step."""
    moment = {"STEP": f"{step}", "CALL": f"{call}", "SIGNAL": f"{number:d}"}
    started = command(AFTER_A_STEP, recipe, run, (run / "recipe.yaml").exists())
    return subprocess.run(started, capture_output=True, text=True, env={**os.environ, **moment})


@pytest.mark.slow
def test_three_random_moments(whole, tmp_path):
    recipe, reference = whole
    run, draw = tmp_path / "x", random.Random(0)
    for step in sorted(draw.sample(range(1, 25), 3)):
        killed = interrupted(recipe, run, step, draw.randint(1, CALLS), signal.SIGKILL)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.parametrize(
    "at", [pytest.param(1, marks=pytest.mark.slow), 12, pytest.param(23, marks=pytest.mark.slow)]
)
def test_inside_a_save(whole, tmp_path, at):
    """At 1 nothing is there yet; later it hits the files of the first and the second checkpoint."""
    recipe, reference = whole
    run = tmp_path / "x"
    moment = {**os.environ, "KILL_AT": f"{at}"}
    killed = subprocess.run(command(IN_A_SAVE, recipe, run, False), capture_output=True, env=moment)
    assert killed.returncode == -signal.SIGKILL
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.slow
def test_sigterm_saves_and_ends_with_its_own_code(whole, tmp_path):
    recipe, reference = whole
    run = tmp_path / "x"
    stopped = interrupted(recipe, run, 3, 1, signal.SIGTERM)
    assert stopped.returncode == 143
    assert f"glassformer train --resume --run {run}" in stopped.stderr
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.slow
def test_a_file_size_limit_from_the_system_leaves_the_checkpoint_before(whole, tmp_path):
    recipe, reference = whole
    run = tmp_path / "x"
    short = [*command(STARTED, recipe, run, False), "train.steps=5"]
    subprocess.run(short, check=True, capture_output=True)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from glassformer.__main__ import main; main()"
    )
    full = subprocess.run(command(limited, recipe, run, True), capture_output=True, text=True)
    assert full.returncode == 1
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("glassformer: Cannot write")
    assert "free some space" in last
    assert "Traceback" not in full.stderr
    assert difference(run / "checkpoints" / "step-00000005") is None
    until_done(recipe, run)
    # the five steps had a schedule of their own, so only the end is compared
    assert max((run / "checkpoints").glob("step-*")).name == "step-00000030"
    assert max((reference / "checkpoints").glob("step-*")).name == "step-00000030"
