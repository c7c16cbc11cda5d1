"""Processes that are told to stop, that are killed, and that end: together, and nothing is lost."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.distributed import TCPStore

from glassformer.core.manifest import difference
from processes import started
from small_runs import hashes, losses, recipe, values
from torchrun import torchrun, train_without_an_agent

TELLING = """
import os, sys
if "RANK" in os.environ:
    from datetime import timedelta
    from glassformer.core.distributed import processes
    processes.STEP = processes.WORK = timedelta(seconds=15)
    from glassformer.training.folder.history import History
    rank, real = int(os.environ["RANK"]), History.add
    def add(self, step, **values):
        real(self, step, **values)
        if rank == 0 and "train_loss" in values:
            say(f"step {step}")
    def say(line):  # one write, which neither a signal nor another process divides
        os.write(1, f"{line}\\n".encode())
    History.add = add
    say(f"rank {rank} {os.getpid()}")
"""
"""Python runs this when it starts: each process says its number, the first one its steps, and they
wait 15 seconds for each other."""
POISONED = """
import os
from glassformer.__main__ import main
from dataclasses import replace
from glassformer.training.loop.step import TrainingStep
real = TrainingStep.__call__
def poisoned(self, share, step, factor):
    numbers = iter(range(share.first, share.first + len(share.batches)))
    def loss(*given):
        found = self.loss(*given)
        bad = step == 6 and next(numbers) == 1
        return type(found)(found.total * float("nan"), found.count) if bad else found
    return real(replace(self, loss=loss), share, step, factor)
TrainingStep.__call__ = poisoned
main()
"""
"""The second part of step 6 has no finite loss, whoever computes it."""


def telling(folder: Path) -> dict[str, str]:
    """The environment in which processes tell what they do (`TELLING`), with one thread each."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(TELLING)
    path = os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@contextmanager
def training(recipe: Path, run: Path, *options: str) -> Iterator[tuple[Any, Iterator[list[str]]]]:
    """`glassformer train --processes 2`, and what its processes say; errors go to the file `errors`
    beside the run."""
    environment = telling(run.parent)
    command = [sys.executable, "-m", "glassformer", "train", str(recipe), "--run", str(run)]
    command += ["--processes", "2", *(["--resume"] if (run / "recipe.yaml").exists() else [])]
    command += options
    pids = list[int]()

    def told(process: Any) -> Iterator[list[str]]:
        for line in process.stdout:
            words = line.decode().split()
            if words[0] == "rank":
                pids.append(int(words[2]))
            yield words

    with ExitStack() as ends:
        errors = ends.enter_context((run.parent / "errors").open("w"))
        process = ends.enter_context(started(command, 1200, env=environment, stderr=errors))
        try:
            yield process, told(process)
        finally:
            for pid in filter(is_running, pids):
                os.kill(pid, signal.SIGKILL)


def told(lines: Iterator[list[str]], pids: dict[int, int], steps: int) -> int:
    """Read on until both processes started and did some steps; the last one. Their numbers are kept
    in `pids`."""
    step = 0
    for kind, *numbers in lines:
        if kind == "rank":
            pids[int(numbers[0])] = int(numbers[1])
        elif len(pids) == 2:
            step, steps = int(numbers[0]), steps - 1
            if not steps:
                return step
    raise AssertionError(f"the run ended at step {step}")


def recipe_file(folder: Path, steps: int, shard: int = 1) -> Path:
    made = values(
        folder,
        model={"dropout": 0.1},
        train={
            "steps": steps,
            "save.every": 5,
            "evaluate.every": 20,
            "distributed.deterministic": shard == 1,
            "distributed.shard": shard,
            "micro_batches": 2,
            "threads": 1,
            "workers": 1,
        },
    )
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(made))
    return path


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stopped_by_a_signal(recipe: Path, run: Path, draw: random.Random) -> None:
    """One signal at a random moment, to the launcher or to one process alone."""
    number, pids = draw.choice([signal.SIGTERM, signal.SIGINT]), dict[int, int]()
    with training(recipe, run) as (process, lines):
        told(lines, pids, draw.randint(1, 12))
        hit = draw.choice([process.pid, pids[0], pids[1]])
        os.kill(hit, number)
        last = [int(rest[1]) for rest in lines if rest[0] == "step"]
        assert process.wait(10) == 128 + number
    said = (run.parent / "errors").read_text()
    assert not any(map(is_running, pids.values()))
    newest = max((run / "checkpoints").glob("step-*"))
    assert difference(newest) is None
    stands = int(newest.name.removeprefix("step-"))
    assert f"stopped at step {stands}" in said
    assert stands == losses(run)[-1]["step"]
    assert all(step <= stands for step in last)
    assert not [path for path in run.rglob("*") if ".tmp" in path.name]


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(1500)
def test_signals_stop_all_processes_at_a_checkpoint(tmp_path, table):
    """A8: one of two processes, or what started them, gets SIGTERM or SIGINT."""
    recipe, draw = recipe_file(tmp_path, 100_000), random.Random(0)
    for _ in range(30):
        stopped_by_a_signal(recipe, tmp_path / "run", draw)
    table("A8", "30 signals: 30 checkpoints at the step, exit codes 143 and 130, all gone in 10 s")


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("shard", [1, 2])
def test_killed_processes_are_started_again_and_end_in_the_same_bits(tmp_path, table, shard):
    """F2: a random one of two is killed, 20 times in one run; the model is whole, or divided and
    saved in parts."""
    recipe, draw, pids = recipe_file(tmp_path, 200, shard), random.Random(0), dict[int, int]()
    with training(recipe, tmp_path / "whole") as (process, lines):
        assert [line for line in lines if line == ["step", "200"]]
        assert process.wait() == 0
    with training(recipe, tmp_path / "run", "--max-restarts", "20") as (process, lines):
        for _ in range(20):
            told(lines, pids, draw.randint(2, 12))
            os.kill(pids[draw.randint(0, 1)], signal.SIGKILL)
            pids.clear()
        for _ in lines:
            pass
        assert process.wait() == 0, (tmp_path / "errors").read_text()
    assert hashes(tmp_path / "run") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    how = "a whole model" if shard == 1 else "a divided model"
    table("F2", f"20 kills of a random one of two processes of {how}: ended with the same hash")


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", [1, 2])
def test_a_stopped_process_is_named_and_all_are_started_again(tmp_path, table, shard):
    """F4: SIGSTOP, twice to each of two."""
    recipe, draw, pids = recipe_file(tmp_path, 500, shard), random.Random(0), dict[int, int]()
    with training(recipe, tmp_path / "whole") as (process, lines):
        assert [line for line in lines if line == ["step", "500"]]
        assert process.wait() == 0
    seconds = []
    with training(recipe, tmp_path / "run", "--max-restarts", "4") as (process, lines):
        told(lines, pids, draw.randint(2, 20))
        for rank in 0, 1, 1, 0:
            os.kill(pids[rank], signal.SIGSTOP)
            pids.clear()
            began = time.monotonic()
            told(lines, pids, 1)
            seconds.append(time.monotonic() - began)
            told(lines, pids, draw.randint(1, 20))
        for _ in lines:
            pass
        assert process.wait() == 0
    said = (tmp_path / "errors").read_text()
    named = re.findall(r"too long for process (\d) \(pid \d+ on [^)]+\):", said)
    assert named == ["0", "1", "1", "0"]
    assert said.count("glassformer: ") == 4
    assert hashes(tmp_path / "run") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    slowest = f"training again after {max(seconds):.0f} s at most with a limit of 15"
    table("F4", f"4 stops (SIGSTOP) of one of two: named, {slowest}, ended with the same hash")


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(600)
def test_a_machine_that_is_lost_is_replaced(tmp_path, table):
    """F3: two agents of torchrun stand for two machines. One process is lost, then each of the
    agents with its process, and another agent takes its place."""
    recipe, pids = recipe_file(tmp_path, 60), dict[int, int]()
    with training(recipe, tmp_path / "whole") as (process, lines):
        assert [line for line in lines if line == ["step", "60"]]
        assert process.wait() == 0
    meeting = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += ["--max-restarts=4", "--rdzv-backend=c10d", "--rdzv-conf=is_host=0"]
    command += [f"--rdzv-endpoint=localhost:{meeting.port}", "--rdzv-id=job"]
    command += ["-m", "--", "glassformer", "train", str(recipe), "--run", str(tmp_path / "run")]
    command += ["--resume"]  # which begins where nothing has begun
    read, write = os.pipe()
    environment = telling(tmp_path) | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with (
        ExitStack() as machines,
        os.fdopen(read) as said,
        (tmp_path / "errors").open("w") as errors,
    ):
        options = {"env": environment, "stdout": write, "stderr": errors}
        machine = lambda: machines.enter_context(started(command, 500, **options))
        lines, agents = map(str.split, said), [machine(), machine()]
        told(lines, pids, 8)
        os.kill(pids[1], signal.SIGKILL)
        for lost in 1, 0:
            pids.clear()
            told(lines, pids, 8)
            for pid in [agents[lost].pid, *children(agents[lost].pid)]:
                os.kill(pid, signal.SIGKILL)
            agents[lost] = machine()
        os.close(write)
        assert [line for line in lines if line == ["step", "60"]], (tmp_path / "errors").read_text()
        assert [agent.wait() for agent in agents] == [0, 0]
    assert hashes(tmp_path / "run") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    table("F3", "two agents: a process killed, then each agent killed and replaced: the same hash")


def children(pid: int) -> list[int]:
    """The numbers of the processes that a process started."""
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return list(map(int, done.stdout.split()))


@pytest.mark.slow
@pytest.mark.reliability
def test_a_loss_that_is_not_finite_stops_or_skips_in_all_processes(tmp_path, table):
    """A7: a part of the second of two processes is poisoned at step 6; quick:
    tests/training/test_resume.py."""
    recipe, runs = recipe_file(tmp_path, 12), {}
    for name, count, skip in ("one", 1, 1), ("two", 2, 1), ("stopped", 2, 0):
        run = runs[name] = tmp_path / name
        given = [str(recipe), f"train.skip_not_finite={skip}", "--run", str(run)]
        done = torchrun(count, "-c", POISONED, "train", *given)
        assert (done.returncode == 0) == bool(skip), done.stderr
    assert done.stderr.count("At step 6 the loss is nan") == 1
    assert [path.name for path in (runs["stopped"] / "checkpoints").glob("s*")] == ["step-00000005"]
    skipped = [line["step"] for line in losses(runs["two"]) if "skipped" in line]
    assert skipped == [7]
    assert hashes(runs["two"]) == hashes(runs["one"])
    assert losses(runs["two"]) == losses(runs["one"])
    table("A7", "a loss of one of two processes is not finite: both stop, or both skip the step")


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(3000)
def test_processes_end_without_an_error(tmp_path, table):
    """F5: two steps of a whole or of a divided model, with a loading process and a save in the
    background; nobody leaves before all are done; quick: tests/test_processes.py."""
    for number in range(200):
        divided = {"distributed.shard": 1 + number % 2}
        made = recipe(tmp_path, train=divided | {"steps": 2, "workers": 1, "save.background": True})
        train_without_an_agent(2, [(tmp_path / "run", made, False, None)], tmp_path)
        assert (tmp_path / "run" / "model.safetensors").is_file()
        shutil.rmtree(tmp_path / "run")
    table("F5", "200 of 200 trainings by two processes: both ended with exit code 0")
