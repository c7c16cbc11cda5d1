"""The processor and its memory while a model trains on a CPU.

one thread for all cores  | every operation is divided among them, and they wait after each
a thread for each part    | every core has separate numbers, and they wait once in a step
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

import torch

MALLOPT = {-1: 2**31 - 1, -3: 32 << 20, -2: 256 << 20}
"""Values of glibc's M_TRIM_THRESHOLD, M_MMAP_THRESHOLD (it refuses more) and M_TOP_PAD."""


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
    """Give this number of threads for the body; None: one is enough, or the device is no CPU."""
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
    """Let glibc's allocator, where it is, keep up to 2 GiB of freed memory. Each step frees large
    blocks and takes them again, and would pay for them page by page (bench/LOG.md has figures)."""
    linux = sys.platform.startswith("linux")
    if linux and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for option, value in MALLOPT.items():
            mallopt(option, value)
