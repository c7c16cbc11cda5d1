"""Abilities of kinds of devices: processors (cpu), NVIDIA and AMD GPUs (cuda), Apple's GPUs (mps).

    cpu   | float64, a generator for each thread
    cuda  | float64, one generator of each device
    mps   | no float64, computed on the CPU instead; one generator

All three have fused optimizers and autocast to bfloat16. The precision of a run is chosen by
measuring: bfloat16 is five times faster than float32 on some CPUs and slower on others.
"""

import math
import mmap
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from platform import python_version
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.errors import ConfigError, amount

Precision = Literal["auto", "float32", "bfloat16"]

WITHOUT_FLOAT64 = frozenset({"mps"})
LARGE = 1 << 23
"""Bytes from which on memory is taken in large pages."""
CLEARLY = 1.5
"""bfloat16 must be this much faster: it costs accuracy, and a run that is repeated here must choose
the same."""


def is_there(device: torch.device) -> bool:
    """Whether this machine has a device."""
    if device.type == "cuda":  # an old driver counts devices that cannot be used
        return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
    if device.type == "mps":
        return torch.backends.mps.is_available() and not device.index
    return device.type == "cpu"


def generator(device: torch.device) -> torch.Generator:
    """Return the generator from which torch draws on a device."""
    if device.type == "cuda":
        torch.cuda.init()  # which makes the generators
        return torch.cuda.default_generators[device.index or 0]
    is_mps = device.type == "mps"
    return torch.mps._get_default_mps_generator() if is_mps else torch.default_generator


def _kind(device: torch.device) -> str:
    """Return the name of a GPU or the instructions of a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"mps, {torch.backends.mps.get_name()}"
    return torch.backends.cpu.get_cpu_capability()


def exact_device(device: torch.device) -> torch.device:
    """Return the device for float64: the CPU for one without float64."""
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def exact(x: Tensor) -> Tensor:
    """Return these numbers in float64, on `exact_device`."""
    return x.to(exact_device(x.device)).double()


def widest(device: torch.device, wanted: torch.dtype) -> torch.dtype:
    """Return the type of numbers to store on a device: the one wanted, or float32 if it is float64
    and the device has none."""
    lacking = wanted == torch.float64 and device.type in WITHOUT_FLOAT64
    return torch.float32 if lacking else wanted


def zeros_in_large_pages(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return zeros for numbers that are read here and there; many of them on a CPU of Linux in
    pages of 2 MiB, of which a processor remembers the places of more memory."""
    size = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or size < LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(shape, dtype=dtype, device=device)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(shape)


@dataclass(frozen=True)
class Machine:
    """The chosen device and precision, the measured peak of matrix products in FLOP/s, and why."""

    device: torch.device
    precision: torch.dtype
    peak: float
    reason: str

    @property
    def precision_name(self) -> Precision:
        """The precision as recipes say it."""
        return "float32" if self.precision == torch.float32 else "bfloat16"


def choose_machine(device: str, precision: Precision, threads: int) -> Machine:
    """Resolve `auto` choices: the best device there is, and on it the precision with the faster
    matrix products.

    Errors: a device that is not there (ConfigError).
    """
    chosen = find_device(device)
    peaks = {dtype: measured_peak(chosen, dtype, threads) for dtype in candidates(precision)}
    first, *others = peaks
    fastest = next((dtype for dtype in others if peaks[dtype] > CLEARLY * peaks[first]), first)
    words = ", ".join(f"{_name(dtype)} {peak / 1e9:,.0f} GFLOP/s" for dtype, peak in peaks.items())
    how = "measured matrix products" if others else "as asked; measured"
    reason = f"{_with_threads(chosen, threads)}, {_name(fastest)} ({how}: {words})"
    return Machine(chosen, fastest, peaks[fastest], reason)


def platform(device: torch.device) -> str:
    """Return in words on which software and device the last bits of results depend."""
    return f"torch {torch.__version__}, {_kind(device)}"


def environment(machine: Machine) -> str:
    """Name the software and the kind of machine that a model was trained with."""
    on = f"{_with_threads(machine.device, torch.get_num_threads())}, {machine.precision_name}"
    return f"Python {python_version()}, {platform(machine.device)}, {on}"


def find_device(device: str) -> torch.device:
    """Return a device by name; `auto` is a GPU if there is one, anything else must exist."""
    if device == "auto":
        return next(filter(is_there, map(torch.device, ("cuda", "mps", "cpu"))))
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"{device!r} is no device; use auto, cpu, cuda, cuda:1 or mps.") from None
    if not is_there(chosen):
        raise ConfigError(f"The device {device!r} is not on this machine; use auto or cpu.")
    return chosen


def candidates(precision: str) -> list[torch.dtype]:
    """Return the precisions that a choice leaves open."""
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    return list(known.values()) if precision == "auto" else [known[precision]]


@cache
def measured_peak(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """FLOP/s of matrix products with this number of threads, the best of several in 0.04 seconds;
    measured once in a process, so that all its runs choose alike."""
    size = 512 if device.type == "cpu" else 4096
    random = torch.Generator(device).manual_seed(0)  # not that of the caller
    a, b = (torch.randn(size, size, device=device, generator=random).to(dtype) for _ in range(2))
    wait = lambda: device.type == "cpu" or torch.accelerator.synchronize(device)
    least, end = float("inf"), time.perf_counter() + 0.04
    torch.mm(a, b)
    while True:
        wait()
        begin = time.perf_counter()
        torch.mm(a, b)
        wait()
        least = min(least, time.perf_counter() - begin)
        if time.perf_counter() > end:
            return 2 * size**3 / least


def _with_threads(device: torch.device, threads: int) -> str:
    return f"{device}, {amount(threads, 'thread')}" if device.type == "cpu" else f"{device}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
