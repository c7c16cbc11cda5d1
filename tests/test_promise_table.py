"""The table of promises is complete, also where xdist's workers ran the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("n", [10, 2])
def test_promise(table, n):
    table(f"E{n}", f"{n} of {n}")
    assert n == 10

def test_other():
    pass
"""


@pytest.mark.slow  # as the tests that print one
def test_a_table_has_the_lines_of_all_workers_in_order(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "promise_table",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    how = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    told = subprocess.run([*command, "-n", "2", "test_some.py"], **how, check=False)
    lines = told.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if " promises " in line)
    assert lines[at + 1 : at + 3] == ["E2   2 of 2", "E10  10 of 10"], told.stdout
    assert told.returncode == 1
