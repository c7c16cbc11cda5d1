"""Shards of running text made by several processes: a line of JSON in, a line of JSON out.

    {"work": "encode", "job": {...}}  ->  {"result": 31000000}
                                      ->  {"error": "DataError", "said": "..."}

This file is also their program: `python -m glassformer.processors.shard_processes TOKENIZER`. A
process that is lost is started again, and makes its shard again. When the one that asks ends, its
processes end too.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from typing import Any

from glassformer.data.shards import Each, Job, Work, done, in_this_process
from glassformer.errors import ConfigError, DataError, GlassformerError, counted
from glassformer.files import scratch_folder
from glassformer.tokenizers.text import Tokenizer

ATTEMPTS = 3
"""Processes that may be lost with the same shard."""
ERRORS = {kind.__name__: kind for kind in (ConfigError, DataError)}
ALONE = {"TOKENIZERS_PARALLELISM": "false"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)
"""Settings of libraries for a process that has one core."""


def by_processes(tokenizer: Tokenizer, n: int | None = None) -> Each:
    """Jobs done by `n` processes (None: one for each core); of one job, or by one process, here."""

    def each(work: Work, jobs: Sequence[Job]) -> Iterator[tuple[int, int]]:
        processes = min(n or cores(), len(jobs))
        if processes < 2:
            yield from in_this_process(tokenizer)(work, jobs)
            return
        with scratch_folder() as folder:
            tokenizer.save(folder / "tokenizer.json")
            pool = _Pool(folder / "tokenizer.json", work, jobs)
            try:
                pool.start(processes)
                for _ in jobs:
                    yield pool.result()
            finally:
                pool.end()

    return each


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Pool:
    """Processes that take one job after the other, each from a thread that waits for it."""

    def __init__(self, tokenizer: Path, work: Work, jobs: Sequence[Job]) -> None:
        self._command = [sys.executable, "-m", __name__, str(tokenizer)]
        self._work, self._jobs = work, jobs
        self._todo, self._done = SimpleQueue[int](), Queue[tuple[int, dict[str, Any]]]()
        self._lock, self._ended = threading.Lock(), False
        self._processes, self._threads = list[subprocess.Popen[str]](), list[threading.Thread]()
        for number in range(len(jobs)):
            self._todo.put(number)

    def start(self, processes: int) -> None:
        """Begin."""
        for _ in range(processes):
            thread = threading.Thread(target=self._serve, daemon=True)
            self._threads.append(thread)
            thread.start()

    def result(self) -> tuple[int, int]:
        """The number and the result of the next job that is done; its error is raised."""
        while True:
            with suppress(Empty):  # Windows hears of Ctrl-C only in between
                number, reply = self._done.get(timeout=0.2)
                break
        if "error" in reply:
            raise ERRORS.get(reply["error"], RuntimeError)(reply["said"])
        return number, reply["result"]

    def end(self) -> None:
        """Stop all processes."""
        with self._lock:
            self._ended = True
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        """Have one job after the other done by a process, until none is left or all is over."""
        process, lost, number = None, 0, self._next()
        while number is not None and (process := process or self._process()) is not None:
            reply = self._asked(process, number)
            if reply is None:
                _close(process)
                process, lost = None, lost + 1
            if reply is not None or lost == ATTEMPTS:
                self._done.put((number, reply or self._lost(number)))
                lost, number = 0, self._next()
        if process is not None:
            _close(process)

    def _next(self) -> int | None:
        try:
            return self._todo.get_nowait()
        except Empty:
            return None

    def _process(self) -> "subprocess.Popen[str] | None":
        """A new process; None: all is over."""
        source = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        with self._lock:
            if self._ended:
                return None
            made = subprocess.Popen(
                self._command,
                env=os.environ | ALONE | {"PYTHONPATH": path},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._processes.append(made)
            return made

    def _asked(self, process: "subprocess.Popen[str]", number: int) -> dict[str, Any] | None:
        """The reply of a process; None: it is lost."""
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"work": self._work, "job": asdict(self._jobs[number])}
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError):  # a pipe that is closed, half a line
            return None

    def _lost(self, number: int) -> dict[str, Any]:
        files = [source["path"] for source in self._jobs[number].sources]
        return {
            "error": "DataError",
            "said": f"{counted(ATTEMPTS, 'process')} ended without a word while they read "
            f"{files[0]}; free memory, or set data.workers to less than {cores()}",
        }


def _close(process: "subprocess.Popen[str]") -> None:
    process.kill()
    with suppress(OSError):  # what it does not read any more
        process.communicate()


def main() -> None:
    """Do the jobs of standard input, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asks
    lines = SimpleQueue[str]()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    tokenizer = Tokenizer.load(sys.argv[1])
    while True:
        asked = json.loads(lines.get())
        try:
            reply = {"result": done(asked["work"], Job(**asked["job"]), tokenizer)}
        except GlassformerError as error:
            reply = {"error": type(error).__name__, "said": str(error)}
        except Exception as error:  # noqa: BLE001 - told where it was asked for
            reply = {"error": "", "said": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _read(lines: "SimpleQueue[str]") -> None:
    """Take lines as they come; end with who asks, also within a job."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
