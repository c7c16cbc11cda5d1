"""What kinds of devices can do: processors (cpu), NVIDIA and AMD GPUs (cuda), Apple's GPUs (mps).

    cpu   float64   a generator for each thread
    cuda  float64   one generator of each device
    mps   no float64, computed on the CPU instead; one generator

All three have fused optimizers and autocast to bfloat16.
"""

import math
import mmap
from contextlib import suppress

import torch
from torch import Tensor

WITHOUT_FLOAT64 = frozenset({"mps"})
LARGE = 1 << 23
"""Bytes from which on memory is taken in large pages."""


def is_there(device: torch.device) -> bool:
    """Whether this machine has a device."""
    match device.type:
        case "cpu":
            return True
        case "cuda":
            return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
        case "mps":
            return torch.backends.mps.is_available() and not device.index
        case _:
            return False


def best() -> torch.device:
    """A GPU if there is one, else the CPU."""
    kinds = map(torch.device, ("cuda", "mps", "cpu"))
    return next(filter(is_there, kinds))


def wait(device: torch.device) -> None:
    """Wait until a device has computed what it was given; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def generator(device: torch.device) -> torch.Generator:
    """The generator from which torch draws on a device."""
    match device.type:
        case "cuda":
            torch.cuda.init()  # which makes the generators
            return torch.cuda.default_generators[device.index or 0]
        case "mps":
            return torch.mps._get_default_mps_generator()
        case _:
            return torch.default_generator


def described(device: torch.device) -> str:
    """What of a device the last bits of results depend on: a GPU's name, a CPU's instructions."""
    match device.type:
        case "cuda":
            return torch.cuda.get_device_name(device)
        case "mps":
            return f"mps, {torch.backends.mps.get_name()}"
        case _:
            return torch.backends.cpu.get_cpu_capability()


def exact_device(device: torch.device) -> torch.device:
    """Where float64 is computed: on the device, or on the CPU for one without float64."""
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def exact(x: Tensor) -> Tensor:
    """The same numbers in float64, on `exact_device`."""
    return x.to(exact_device(x.device)).double()


def widest(device: torch.device, wanted: torch.dtype) -> torch.dtype:
    """The type of numbers to store on a device: the one wanted, or float32 in place of float64."""
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
