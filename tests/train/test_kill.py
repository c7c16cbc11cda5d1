"""`kill -9` of a real process, wherever it hits; `--resume` until done; the bits of an uninterrupted run."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from glassformer.files import check_manifest
from small_runs import hashes, losses, values

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


def command(code: str, recipe: Path, run: Path, resume: bool) -> list[str]:
    arguments = ["train", str(recipe), "--run", str(run), *(["--resume"] if resume else [])]
    return [sys.executable, "-c", code, *arguments]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The recipe, and a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("kill")
    made = values(folder, model={"dropout": 0.1}, train={"steps": 60, "save_every": 7, "evaluate_every": 20})
    (folder / "recipe.yaml").write_text(yaml.safe_dump(made))
    subprocess.run(command(STARTED, folder / "recipe.yaml", folder / "whole", False), check=True, capture_output=True)
    return folder / "recipe.yaml", folder / "whole"


def until_done(recipe: Path, run: Path) -> None:
    done = subprocess.run(command(STARTED, recipe, run, True), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def assert_same(run: Path, whole: Path) -> None:
    assert hashes(run) == hashes(whole)
    assert losses(run) == losses(whole)
    for folder in (run / "checkpoints").glob("step-*"):
        check_manifest(folder)
    assert not [p for p in run.rglob("*") if ".tmp" in p.name or p.name.startswith(".")]


@pytest.mark.slow
def test_three_random_moments(whole, tmp_path):
    recipe, reference = whole
    run, draw, kills = tmp_path / "x", random.Random(0), 0
    while kills < 3:
        process = subprocess.Popen(
            command(STARTED, recipe, run, (run / "recipe.yaml").exists()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not (run / "recipe.yaml").exists() and process.poll() is None:
            time.sleep(0.01)
        wanted, before = draw.randint(1, 15), len(losses(run))
        while len(losses(run)) < before + wanted and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.slow), 12, pytest.param(23, marks=pytest.mark.slow)])
def test_inside_a_save(whole, tmp_path, at):
    """At 1 nothing is there yet; later it hits the files of the first and the second checkpoint."""
    recipe, reference = whole
    run = tmp_path / "x"
    killed = subprocess.run(
        command(IN_A_SAVE, recipe, run, False), capture_output=True, env={"KILL_AT": str(at), "OMP_NUM_THREADS": "1"}
    )
    assert killed.returncode == -signal.SIGKILL
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.slow
def test_sigterm_saves_and_ends_with_its_own_code(whole, tmp_path):
    recipe, reference = whole
    run = tmp_path / "x"
    process = subprocess.Popen(command(STARTED, recipe, run, False), stderr=subprocess.PIPE, text=True)
    while not losses(run) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"glassformer train --resume --run {run}" in said
    until_done(recipe, run)
    assert_same(run, reference)


@pytest.mark.slow
def test_a_file_size_limit_from_the_system_leaves_the_checkpoint_before(whole, tmp_path):
    recipe, reference = whole
    run = tmp_path / "x"
    wide = [f"train.steps={7}"]
    subprocess.run([*command(STARTED, recipe, run, False), *wide], check=True, capture_output=True)
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
    check_manifest(run / "checkpoints" / "step-00000007")
    until_done(recipe, run)
    # the seven steps had a schedule of their own, so only the end is compared
    assert max((run / "checkpoints").glob("step-*")).name == "step-00000060"
    assert max((reference / "checkpoints").glob("step-*")).name == "step-00000060"
