"""The processor and its memory while a model trains on a CPU.

one thread for all cores     every operation is divided among them, and they wait for each other
                             after each
a thread for each part       every core has numbers of its own, and they wait for each other once
                             in a step
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

import torch

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""The names of glibc's malloc.h, without their M_."""
LARGEST_MMAP_THRESHOLD = 32 << 20
"""Glibc refuses more."""


@contextmanager
def cpu_threads(count: int | None = None) -> Iterator[None]:
    """Use this number of threads for each operation, for this thread and those that it begins; what
    the body sets is set back too."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count or before)
        yield
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


def keep_freed_memory() -> None:
    """Ask glibc's allocator, where it is, to keep up to 2 GiB of freed memory: each step frees
    large blocks and takes them again, and would pay for them page by page (bench/LOG.md has the
    figures)."""
    linux = sys.platform.startswith("linux")
    if linux and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(TOP_PAD, 256 << 20)
