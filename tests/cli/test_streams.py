"""Standard streams that are closed, full or cut, and names that the system refuses: one sentence or
none, never a traceback, never a file that `print` writes into."""

import ctypes
import os
import shutil
import subprocess
import sys

import pytest

PROGRAM = (sys.executable, "-m", "glassformer")


def shell(command: str, *arguments: object, cwd=None) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which "$@" is the program with its arguments."""
    given = ["sh", "-c", command, "sh", *PROGRAM, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, cwd=cwd)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_behind_standard_output(trained):
    done = shell('"$@" > /dev/full', "generate", trained, "--prompt", "the")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "glassformer: Cannot read or write: No space left on device; check where the output goes."
    ]
    both = shell('"$@" > /dev/full 2> /dev/full', "generate", trained, "--prompt", "the")
    assert (both.returncode, both.stdout, both.stderr) == (1, "", "")


@pytest.mark.parametrize(
    "closed",
    [
        *(
            pytest.param("<&-", marks=pytest.mark.slow),
            pytest.param("2>&-", marks=pytest.mark.slow),
            pytest.param(">&-", marks=pytest.mark.slow),
        ),
        "<&- >&- 2>&-",
    ],
)
def test_streams_that_are_closed(trained, recipe, tmp_path, closed, cli):
    done = shell(f'"$@" {closed}', "generate", trained, "--prompt", "the")
    assert (done.returncode, done.stderr) == (0, "")
    run = tmp_path / "run"
    done = shell(f'"$@" {closed}', "train", recipe, "train.steps=2", "--run", run)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert b"loss" not in (run / "run.lock").read_bytes()
    assert cli("verify", run).code == 0, "nothing was printed into a file of the run"


LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "RECIPE", "--run", LONG],
        ["train", "RECIPE", f"data.train.path={LONG}", "--run", "x"],
        ["train", "RECIPE", f"train.init_from={LONG}", "--run", "x"],
        ["generate", LONG],
        ["train", f"{LONG}.yaml", "--run", "x"],
        ["data", "show", "RECIPE", "--html", f"{LONG}.html"],
        ["inspect", LONG],
        ["tokenize", LONG],
    ],
    ids=lambda arguments: " ".join(arguments)[:24],
)
def test_a_name_that_is_too_long(cli, recipe, tmp_path, arguments, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = cli(*(recipe if one == "RECIPE" else one for one in arguments))
    assert said.code in (1, 2)
    assert "File name too long" in said.err
    assert "should not" not in said.err
    assert list(tmp_path.iterdir()) == []


def _drop_capabilities() -> None:
    """Take CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH from the program that follows."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
@pytest.mark.parametrize(
    "place",
    [
        "tokens",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("checkpoints", "tokenizer.json", "")),
    ],
)
def test_what_may_not_be_read_is_not_missing(trained, tmp_path, place):
    """Root, too, is refused without the capabilities that let it read everything."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    (run / place).chmod(0)
    try:
        command = ["evaluate"] if place in ("tokens", "checkpoints") else ["generate"]
        done = subprocess.run(
            [*PROGRAM, *command, run, *(["--prompt", "the"] * (not place))],
            preexec_fn=_drop_capabilities,
            capture_output=True,
            text=True,
        )
    finally:
        (run / place).chmod(0o755 if place != "tokenizer.json" else 0o644)
    if place == "checkpoints":  # nothing of them is used
        assert done.returncode == 0, done.stderr
        return
    assert "Permission denied" in done.stderr or "is not readable" in done.stderr
    assert "does not exist" not in done.stderr
    assert "should not" not in done.stderr
