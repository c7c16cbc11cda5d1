"""Processes that torchrun started together: how they find each other, and end.

A process that is stopped, or whose machine is gone, would hold up the others: `leaving_the_silent`.
"""

import hashlib
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from glassformer.errors import TrainingError
from glassformer.processes import ALONE, PATIENCE, STEP, Processes, patient_group
from glassformer.signals import KILLED

LOST = re.compile(r"gloo/|NCCL|Connection (closed|reset|refused)|Broken pipe|Socket")
"""Messages of a transport about a process that is gone."""
LATE = re.compile(r"[Tt]imed out|[Tt]imeout")
"""Messages of a transport about a process that is silent."""
GRACE = timedelta(seconds=10)
"""Longest wait for a process to say that it is not the silent one."""


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun started with this one, or this one alone.

    At the end they wait for each other, then leave: one that left first would look as if it had
    failed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    kind = "gloo"
    if torch.cuda.is_available():
        kind = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    with _reaching():
        store, rank, count = next(rendezvous("env://", timeout=PATIENCE))
        own = PrefixStore(_agreed_name(store, rank, count), store)
        own.set(f"place {rank}", _place())
        distributed.init_process_group(kind, store=own, rank=rank, world_size=count, timeout=STEP)
        try:
            together = Processes(rank, count, patient=patient_group(PATIENCE), store=own)
            with leaving_the_silent(together):
                yield together
                distributed.barrier(together.patient)
        finally:
            distributed.destroy_process_group()


def _place() -> str:
    """Machine, number and torchrun agent of this process."""
    return f"{socket.gethostname()} {os.getpid()} {os.environ.get('GROUP_RANK', '')}"


def _agreed_name(store: Any, rank: int, count: int) -> str:
    """A name that these processes have in common, and earlier ones, whose keys the store may still
    hold, had not.

    Each writes a number that is drawn now. The first one writes the list of all, again until every
    process has found its own in it: then no number of an earlier process is left.
    """
    own, agreed = f"{_place()} {uuid.uuid4().hex}", set[str]()
    store.set(f"process {rank}", own)
    while True:
        if rank == 0:
            store.set("all", ",".join(store.get(f"process {at}").decode() for at in range(count)))
        found = store.get("all").decode()
        if found not in agreed and own in found.split(","):
            agreed.add(found)
            store.add(found, 1)
        if found in agreed and store.add(found, 0) == count:
            return hashlib.sha256(found.encode()).hexdigest()
        time.sleep(0.01)


def by_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_repeated_start() -> bool:
    """Whether torchrun started this process again, after one that failed."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def processes_here() -> int:
    """The number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@contextmanager
def leaving_the_silent(processes: Processes) -> Iterator[None]:
    """End this process if one of the others keeps it waiting for too long in the body, and report
    which: it is stopped, or its machine is gone.

    Nothing is closed: threads may wait for the silent process too.
    """
    try:
        yield
    except RuntimeError as error:
        if processes.count == 1 or not _is_lost(error) or not _is_silence(processes, error):
            raise
        if said := _report_silence(processes):
            begin = "\n" if sys.stderr.isatty() else ""  # after the line of progress
            sys.stderr.write(f"{begin}glassformer: {said}\n")
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(TrainingError.exit_code)


def _is_lost(error: RuntimeError) -> bool:
    """Whether an error is about another process."""
    return isinstance(error, distributed.DistError) or bool(LOST.search(str(error)))


def _is_silence(processes: Processes, error: RuntimeError) -> bool:
    """Whether an error comes from a silent process: it is late, or a process that waited for it has
    closed its connections. The others learn that this one is not it."""
    processes.store.set_timeout(GRACE)
    with suppress(RuntimeError):  # of a store that is gone
        processes.store.set(f"waits {processes.rank}", "")
        return bool(LATE.search(str(error))) or _is_soon(
            timedelta(seconds=1), lambda: processes.store.check(["reports"])
        )
    return bool(LATE.search(str(error)))


def _is_soon(limit: timedelta, condition: Callable[[], bool]) -> bool:
    """Whether a condition holds within a time."""
    end = time.monotonic() + limit.total_seconds()
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _report_silence(processes: Processes) -> str:
    """A sentence about the processes that do not say within GRACE that they wait too; "": another
    process reports it.

    One of the same agent of torchrun is killed: a stopped process does not end by SIGTERM.
    """
    store, rank = processes.store, processes.rank
    keys = [f"waits {other}" for other in range(processes.count)]
    places = ["process 0, which keeps the store"]
    with suppress(RuntimeError):  # of a store that is gone
        if store.compare_set("reports", "", str(rank)).decode() != str(rank):
            store.wait(["reported"], 2 * GRACE)
            return ""
        _is_soon(GRACE, lambda: store.check(keys))
        places = []
        for other in (other for other, key in enumerate(keys) if not store.check([key])):
            host, pid, agent = store.get(f"place {other}").decode().split(" ")
            places.append(f"process {other} (pid {pid} on {host})")
            if agent and agent == os.environ.get("GROUP_RANK"):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), KILLED)
        store.set("reported", "")
    return (
        f"This run waited for too long for {', '.join(places) or 'a process'}: it is stopped, or "
        "its machine is gone; all processes end, and --max-restarts or --resume continues from the "
        "last checkpoint."
    )


@contextmanager
def _reaching() -> Iterator[None]:
    """Say in a sentence that another process is gone, wherever the body learns it."""
    try:
        yield
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise TrainingError(
            f"Another process of this run cannot be reached ({reason}); its own message says why, "
            "and `--resume` goes on from the last checkpoint."
        ) from None
