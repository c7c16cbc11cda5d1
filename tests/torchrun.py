"""Processes of torchrun: runs that they train, and what tests/divided_checks.py finds in them."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore

from glassformer.recipe.recipe import Recipe
from processes import started

TRAINING = """
import json, os, signal, sys
from pathlib import Path
from glassformer.recipe.recipe import Recipe
from glassformer.training import train
from glassformer.core.progress import Progress

runs, killed = json.loads(Path(sys.argv[1]).read_text())
again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
for run, values, resume, stop in runs:
    def listen(line):
        if line["step"] == stop and "train_loss" in line:
            os.kill(os.getpid(), signal.SIGTERM)
        if line["step"] == killed and not again:
            os.kill(os.getpid(), signal.SIGKILL)
    ended = train(Recipe.parse(values), Path(run), resume, progress=Progress(quiet=True), listeners=[listen])
    assert (ended.steps, ended.interrupted) == (stop or ended.steps, stop and signal.SIGTERM)
assert killed is None or again
"""
"""Trains each of the runs in a file; at the step `stop`, the first process gets SIGTERM; at the step
`killed`, once, SIGKILL."""
MESHES = {2: [[1, 1], [2, 1], [1, 2]], 4: [[4, 1], [2, 1], [2, 2], [1, 2]]}
"""Numbers for "shard" and "tensor", by the number of processes."""
Run = tuple[Path, Recipe, bool, int | None]
"""A run folder, its recipe, whether it is resumed, and the step at which it is stopped."""


def torchrun(
    count: int, *command: str, restarts: int = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command of Python in so many processes, each with one thread."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    launcher += [f"--nproc-per-node={count}", f"--max-restarts={restarts}"]
    launcher += ["--", sys.executable, *command]
    return subprocess.run(
        launcher, capture_output=True, text=True, timeout=600, env=_environment(), **options
    )


def _environment() -> dict[str, str]:
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests.parent / "src"), str(tests)])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}


def train_together(
    count: int, runs: Sequence[Run], folder: Path, killed: int | None = None
) -> None:
    """Train runs, one after the other, in `count` processes; at the step `killed` of the first run,
    one is killed, and all are started again."""
    file = str(_runs_file(runs, folder, killed))
    done = torchrun(count, "-c", TRAINING, file, restarts=int(killed is not None))
    assert done.returncode == 0, done.stderr


def train_without_an_agent(count: int, runs: Sequence[Run], folder: Path) -> None:
    """Train runs in `count` processes, each of which ends by itself: no agent watches or ends
    them."""
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port)}
    meeting |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the store above, no new one at the port
    meeting |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    command = [sys.executable, "-c", TRAINING, str(_runs_file(runs, folder))]
    group = []
    with ExitStack() as stack:
        for rank in map(str, range(count)):
            own = _environment() | meeting | {"RANK": rank, "LOCAL_RANK": rank}
            errors = stack.enter_context((folder / f"errors-{rank}").open("w"))
            process = started(command, 600, env=own, stdout=None, stderr=errors)
            group.append(stack.enter_context(process))
        codes = [process.wait() for process in group]
    assert codes == [0] * count, [(folder / f"errors-{rank}").read_text() for rank in range(count)]


def _runs_file(runs: Sequence[Run], folder: Path, killed: int | None = None) -> Path:
    listed = [(str(run), made.values(), resume, stop) for run, made, resume, stop in runs]
    file = folder / "runs.json"
    file.write_text(json.dumps([listed, killed]))
    return file


def launched(processes: int, asked: list, folder: Path) -> list[dict[str, Any]]:
    """What the checks find in so many processes."""
    file = folder / "found.json"
    file.unlink(missing_ok=True)
    checks = Path(__file__).with_name("divided_checks.py")
    done = torchrun(processes, str(checks), json.dumps(asked), str(file))
    assert done.returncode == 0, done.stderr[:8000]
    return json.loads(file.read_text(encoding="utf-8"))
