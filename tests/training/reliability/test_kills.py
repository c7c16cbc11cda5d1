"""A1: `kill -9` of a real process, wherever it hits; `--resume`; the bits of an uninterrupted run."""

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from every import slow_but
from glassformer.core.manifest import difference
from glassformer.training.folder.checkpoints import Checkpoints
from small_runs import hashes, losses, values

from .killing import Moment, Processes, processes

N_KILLS, EVERY = 50, 5
STEP_CALLS, SAVE_CALLS = 2_800, 140
"""What a step of this recipe calls, and a save with an export of the system."""


@pytest.fixture(scope="module")
def glassformer(tmp_path_factory):
    with processes(tmp_path_factory.mktemp("processes")) as made:
        yield made


@pytest.fixture(scope="module")
def whole(glassformer, tmp_path_factory):
    """The recipe, and a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("kill")
    made = values(
        folder,
        model={"dropout": 0.1},
        train={"steps": 30, "save.every": EVERY, "evaluate.every": 10},
    )
    (folder / "recipe.yaml").write_text(yaml.safe_dump(made))
    assert glassformer(train(folder / "recipe.yaml", folder / "whole")) == 0, glassformer.text
    return folder / "recipe.yaml", folder / "whole"


def train(recipe: Path, run: Path) -> list[str]:
    """Train, or go on."""
    resume = ["--resume"] if (run / "run.lock").exists() else []
    return ["train", f"{recipe}", "--run", f"{run}", *resume]


def assert_same(run: Path, whole: Path) -> None:
    assert hashes(run) == hashes(whole)
    assert losses(run) == losses(whole)
    for folder in (run / "checkpoints").glob("step-*"):
        assert difference(folder) is None
    assert not [path for path in run.rglob(".*")]


def kill(
    glassformer: Processes, recipe: Path, run: Path, whole: Path, moment: Moment, *changes: str
) -> bool:
    """Kill a run at that moment, and finish a copy of what is left of it; False: it ended before."""
    if glassformer([*train(recipe, run), *changes], moment) != -signal.SIGKILL:
        assert_same(run, whole)
        return False
    copy = run.with_name("copy")
    shutil.copytree(run, copy)
    assert glassformer([*train(recipe, copy), *changes]) == 0, glassformer.text
    assert_same(copy, whole)
    shutil.rmtree(copy)
    return True


@pytest.mark.parametrize("background", slow_but(["false", "true"], "true"))
def test_two_kills_inside_a_save(glassformer, whole, tmp_path, background):
    """One before anything is there, and one in the second checkpoint."""
    recipe, reference = whole
    how = f"train.save.background={background}"
    for calls in (1, SAVE_CALLS + 20):
        run, moment = tmp_path / f"{calls}", Moment(True, calls)
        assert glassformer([*train(recipe, run), how], moment) == -signal.SIGKILL
    assert glassformer([*train(recipe, run), how]) == 0, glassformer.text
    assert_same(run, reference)


@pytest.mark.slow
@pytest.mark.reliability
def test_fifty_kills(glassformer, whole, tmp_path, table):
    """Every other one inside a save; each run goes on from what the kill left, and is killed again,
    until it is done. Quick: `test_two_kills_inside_a_save`."""
    recipe, reference = whole
    draw, kills, inside, runs = random.Random(0), 0, 0, 0
    while kills < N_KILLS:
        runs, run = runs + 1, tmp_path / f"{runs}"
        how = f"train.save.background={str(runs % 2 == 0).lower()}"
        while kills < N_KILLS:
            saving = kills % 2 == 0
            calls = draw.randint(1, SAVE_CALLS if saving else STEP_CALLS)
            moment = Moment(saving, calls, draw.randint(1, 2 * EVERY))
            if not kill(glassformer, recipe, run, reference, moment, how):
                break
            kills, inside = kills + 1, inside + saving
    table(
        "A1",
        f"{kills} kills of {runs} runs, {inside} of them inside a save: "
        f"{kills} of {kills} go on to the same bits",
    )


@pytest.mark.slow
def test_sigterm_saves_and_ends_with_its_own_code(glassformer, whole, tmp_path):
    recipe, reference = whole
    run = tmp_path / "x"
    code = glassformer(train(recipe, run), Moment(False, 1, 3, signal.SIGTERM))
    assert code == 143
    assert f"glassformer train --resume --run {run}" in glassformer.text
    assert Checkpoints(run).steps() == [3]
    assert glassformer(train(recipe, run)) == 0, glassformer.text
    assert_same(run, reference)


@pytest.mark.slow
def test_a_file_size_limit_from_the_system_leaves_the_checkpoint_before(
    glassformer, whole, tmp_path
):
    recipe, run = whole[0], tmp_path / "x"
    assert glassformer([*train(recipe, run), "train.steps=5"]) == 0
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from glassformer.__main__ import main; main()"
    )
    command = [sys.executable, "-c", limited, *train(recipe, run)]
    full = subprocess.run(command, capture_output=True, text=True, check=False)
    assert full.returncode == 1
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("glassformer: 3 saves in a row were refused, the last one of step 20: ")
    assert "Cannot write" in last
    assert "free some space" in last
    assert "Traceback" not in full.stderr
    assert difference(Checkpoints(run).path(5)) is None
    assert glassformer(train(recipe, run)) == 0, glassformer.text
    assert Checkpoints(run).steps()[-1] == 30
