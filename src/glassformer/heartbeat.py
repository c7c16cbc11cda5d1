"""Signs of life of the processes of a run: one that is stopped, or whose machine is gone, would
hold up the others without end.

    process r    counts its beats in the store of torch.distributed, in a thread, once a second;
                 watches those of process r + 1, the last one those of process 0

It is silent if LIMIT looks in a row, a second apart, find no new beat. Looks are counted, no time
is compared: clocks of machines may differ, and a machine that sleeps with all of its processes
raises no alarm. A thread beats while its process computes, waits or writes, however long.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from glassformer.errors import TrainingError
from glassformer.signals import KILLED

LIMIT = 20
"""Looks in a row without a new beat."""
SILENT = "silent"
"""The key of the process that is silent."""
GROUP = "GROUP_RANK"
"""The variable of the environment with the number of the agent of torchrun that started a process,
and that keeps the store if it is 0."""


class Silence:
    """Looks in a row that found the same number."""

    def __init__(self) -> None:
        self._last, self._looks = 0, 0

    def lasts(self, beats: int) -> bool:
        """Whether the number has been the same for too long; nothing has begun at 0."""
        self._looks = self._looks + 1 if beats == self._last else 0
        self._last = beats
        return beats > 0 and self._looks >= LIMIT


class Heart:
    """What process `rank` of `count` tells the others by a store, and learns of them.

    `leave` gets a sentence, or "" if another process says it, and ends this process.
    """

    def __init__(self, store: Any, rank: int, count: int, leave: Callable[[str], None]):
        self._store, self._rank, self._next = store, rank, (rank + 1) % count
        self._leave, self._silence, self._looks = leave, Silence(), 0
        self._agent = os.environ.get(GROUP, "")
        store.set(f"process {rank}", f"{socket.gethostname()} {os.getpid()} {self._agent}")
        store.add(f"beats {rank}", 1)

    def beat(self) -> None:
        """Give a sign, and look at the next process; leave if one is silent."""
        self._store.add(f"beats {self._rank}", 1)
        if self._silence.lasts(self._store.add(f"beats {self._next}", 0)):
            first = self._store.compare_set(SILENT, "", str(self._next))
            self._leave_without(int(first), int(first) == self._next)
        elif self._store.check([SILENT]):
            self._leave_without(int(self._store.get(SILENT)), False)
        self._looks += 1

    def _leave_without(self, rank: int, tell: bool) -> None:
        """Leave because of a process; one of the same agent is killed, which the agent would wait
        30 seconds for."""
        host, pid, agent = self._store.get(f"process {rank}").decode().split(" ")
        if agent and agent == self._agent:
            with suppress(ProcessLookupError):
                os.kill(int(pid), KILLED)
        said = (
            f"Process {rank} of this run (pid {pid} on {host}) has given no sign for {LIMIT} "
            "seconds: it is stopped, or its machine is gone; all processes end, and go on from the "
            "last checkpoint by --max-restarts or --resume."
        )
        self._leave(said if tell else "")

    def check_store(self, silence: Silence) -> None:
        """Leave if the store has not answered for too long."""
        if silence.lasts(self._looks):
            self._leave(
                f"The store of this run has not answered process {self._rank} on "
                f"{socket.gethostname()} for {LIMIT} seconds: the machine of the first process is "
                "gone, or cannot be reached; the process ends, and --resume goes on from the last "
                "checkpoint."
            )


@contextmanager
def beating(store: Any, rank: int, count: int) -> Iterator[None]:
    """Give and watch signs of life in the body, by a connection to the store that nothing else
    uses."""
    heart, ended = Heart(store, rank, count, _leave), threading.Event()

    def beat() -> None:
        with suppress(RuntimeError):  # of the store: `check` counts that no look comes
            while not ended.wait(1):
                heart.beat()

    def check() -> None:
        silence = Silence()
        while not ended.wait(1):
            heart.check_store(silence)

    # where the store is, its agent may be stopped by Ctrl-Z: the run goes on
    works = [beat] if os.environ.get(GROUP) == "0" else [beat, check]
    threads = [threading.Thread(target=work, name="heartbeat", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(LIMIT)


def _leave(said: str) -> None:
    """Leave at once, also if the main thread waits for a process that is silent."""
    with suppress(OSError):
        if said:
            begin = "\n" if sys.stderr.isatty() else ""  # behind the line that shows where it is
            sys.stderr.write(f"{begin}glassformer: {said}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(TrainingError.exit_code)
