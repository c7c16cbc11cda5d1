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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from glassformer.core.distributed.processes import ALONE, PATIENCE, STEP, Processes, patient_group
from glassformer.core.errors import TrainingError
from glassformer.core.signals import KILLED

LOST = re.compile(r"gloo/|NCCL|Connection (closed|reset|refused)|Broken pipe|Socket")
"""Messages of a transport about a process that is gone."""
LATE = re.compile(r"[Tt]imed out|[Tt]imeout")
"""Messages of a transport about a process that is silent."""
GRACE = timedelta(seconds=10)
"""Longest wait for a process to say that it is not the silent one."""


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that torchrun started with this one; give them, or only this one.

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
        distributed.init_process_group(kind, store=own, rank=rank, world_size=count, timeout=STEP)
        try:
            together = Processes(rank, count, patient=patient_group(PATIENCE))
            yield together
            distributed.barrier(together.patient)
        finally:
            distributed.destroy_process_group()


def _agreed_name(store: Any, rank: int, count: int) -> str:
    """A name that these processes have in common, and earlier ones, whose keys the store may still
    hold, had not.

    Each writes a number that is drawn now. The first one writes the list of all, again until every
    process has found its own in it: then no number of an earlier process is left.
    """
    own, agreed = uuid.uuid4().hex, set[str]()
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
    if processes.count == 1:
        yield
        return
    watch = patient_group(GRACE)
    places = processes.gather([socket.gethostname(), os.getpid(), os.environ.get("GROUP_RANK")])
    try:
        yield
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        silent = _find_silent(processes, watch)
        if not silent and not LATE.search(str(error)):
            raise
        if silent:
            begin = "\n" if sys.stderr.isatty() else ""  # after the line of progress
            sys.stderr.write(f"{begin}glassformer: {_end(silent, places)}\n")
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(TrainingError.exit_code)


def _is_lost(error: RuntimeError) -> bool:
    """Whether an error is about another process."""
    return isinstance(error, distributed.DistError) or bool(LOST.search(str(error)))


def _find_silent(processes: Processes, watch: Any) -> list[int]:
    """Return the processes that do not come to a barrier, for the first process, which reports
    them; for the others, the first one if it is silent itself."""
    try:
        limit = GRACE if processes.first else 3 * GRACE
        distributed.monitored_barrier(watch, limit, wait_all_ranks=True)
    except RuntimeError as error:
        if not processes.first:
            return [0] if LATE.search(str(error)) and processes.rank == 1 else []
        found = re.search(r"Ranks? ([\d, ]+) failed to pass", str(error))
        return [int(rank) for rank in found[1].split(",") if rank.strip()] if found else []
    return []


def _end(silent: list[int], places: list[Any]) -> str:
    """Kill the silent processes of the same agent of torchrun, which a SIGTERM does not end while
    they are stopped; return a sentence about all of them."""
    names = []
    for rank in silent:
        host, pid, agent = places[rank]
        names.append(f"process {rank} (pid {pid} on {host})")
        if agent is not None and agent == os.environ.get("GROUP_RANK"):
            with suppress(ProcessLookupError):
                os.kill(pid, KILLED)
    return (
        f"This run waited for too long for {', '.join(names)}: it is stopped, or its machine is "
        "gone; all processes end, and --max-restarts or --resume continues from the last "
        "checkpoint."
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
