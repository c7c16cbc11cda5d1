"""Worker processes: what they import, what ends them, and what replaces them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from select import select

import pytest

import worker_jobs as jobs
from glassformer.core.errors import DataError
from glassformer.core.workers import Workers

WORKERS = Workers(memory=256 << 20, count=2)


def run(function, *arguments):
    return WORKERS.run(function, *arguments, seconds=0.1, what="the thing")


def test_a_worker_imports_what_its_function_needs():
    found = {name.partition(".")[0] for name in run(jobs.modules)}
    assert {"jinja2", "worker_jobs"} <= found
    assert not {"numpy", "torch", "tokenizers", "pytest", "test_workers"} & found


@pytest.mark.parametrize("job", [jobs.spin, jobs.grow, jobs.leave])
def test_one_beyond_its_limits_costs_a_sentence_and_is_replaced(job):
    before = run(jobs.number)
    with pytest.raises(DataError, match="the thing takes too much time or memory"):
        run(job)
    assert run(jobs.number) != before
    with pytest.raises(DataError, match="no such thing"):
        run(jobs.refuse)


def test_one_that_died_while_idle_is_replaced():
    before = run(jobs.number)
    os.kill(before, 9)
    select([os.pidfd_open(before)], [], [])
    assert run(jobs.number) != before


def test_threads_and_forks_share_no_answer():
    with ThreadPoolExecutor(8) as threads:
        parents = {*threads.map(lambda i: run(jobs.number, i), range(64))}
    assert len(parents) <= 2
    if not (child := os.fork()):
        with suppress(BaseException):
            os._exit(run(jobs.number) in parents)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(jobs.number) in parents


SCRIPT = """
import os
from glassformer.core.workers import Workers
print(Workers(1 << 28).run(os.getpid, seconds=1, what="it"), flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_users_script_and_files_at_hand_are_not_run_again(tmp_path):
    """And a worker ends with the process that began it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    data = tmp_path / "data"
    data.mkdir()
    for name in ("json", "pickle", "glassformer", "signal", "multiprocessing"):
        (data / f"{name}.py").write_text("open('RUN', 'w')")
    command = [sys.executable, tmp_path / "script.py"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run(command, cwd=data, env=env, capture_output=True, text=True, check=False)
    assert found.stdout.strip().isdigit(), found.stderr
    with suppress(ProcessLookupError):
        assert select([os.pidfd_open(int(found.stdout))], [], [], 60)[0]
    assert not (data / "RUN").exists()
