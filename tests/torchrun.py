"""Processes of torchrun, for tests: what tests/divided_checks.py finds in them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
MESHES = {2: [[1, 1], [2, 1], [1, 2]], 4: [[4, 1], [2, 1], [2, 2], [1, 2]]}
"""Numbers for "shard" and "tensor", by the number of processes."""


def launched(processes: int, asked: list, folder: Path, seconds: int = 280) -> list[dict[str, Any]]:
    """What the checks find in so many processes."""
    file = folder / "found.json"
    file.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(processes)),
        *(str(TESTS / "divided_checks.py"), json.dumps(asked), str(file)),
    ]
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stderr[:8000]
    return json.loads(file.read_text(encoding="utf-8"))
