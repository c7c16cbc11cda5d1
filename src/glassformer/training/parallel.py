"""Threads that compute the parts of a step at the same time, each with its share of the processor's
cores.

one thread for all cores     every operation is divided among them, and they wait for each other
                             after each
a thread for each part       every core has numbers of its own, and they wait for each other once
                             in a step
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def cpu_threads(count: int | None) -> Iterator[int]:
    """So many threads for each operation on a CPU, for this thread and those that it begins; None:
    as many as now. The number before is put back."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield before
        return
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


@contextmanager
def micro_batch_threads(count: int, device: torch.device) -> Iterator[Executor | None]:
    """So many threads, while they are needed; None: one is enough, or the device is no CPU and
    computes by itself."""
    if count == 1 or device.type != "cpu":
        yield None
        return
    cores, there = torch.get_num_threads(), threading.Barrier(count)

    def begin() -> None:
        # a thread's first question gives it the number that was set last, and only the first
        torch.get_num_threads()
        torch.set_num_threads(max(1, cores // count))

    with ThreadPoolExecutor(count, "part", begin) as pool:
        list(pool.map(lambda _: there.wait(), range(count)))  # now each of them has its share
        torch.set_num_threads(cores)  # for this thread and later ones
        yield pool
