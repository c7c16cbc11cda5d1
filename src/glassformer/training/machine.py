"""Where and in which precision to compute, chosen by measuring, with the reason in words.

bfloat16 is five times faster than float32 on some CPUs and slower on others; only a measurement
tells.
"""

import time
from dataclasses import dataclass
from functools import cache
from platform import python_version

import torch

from glassformer.core.devices import best, described, is_there, wait
from glassformer.core.errors import ConfigError, counted
from glassformer.recipe.train import Precision

CLEARLY = 1.5
"""bfloat16 must be this much faster: it costs accuracy, and a run that is repeated here must choose
the same."""


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


def choose_machine(device: str, precision: str) -> Machine:
    """Resolve `auto` choices: the best device there is, and on it the precision with the faster
    matrix products.

    Errors: a device that is not there (ConfigError).
    """
    chosen = find_device(device)
    threads = torch.get_num_threads()
    peaks = {dtype: measured_peak(chosen, dtype, threads) for dtype in candidates(precision)}
    first, *others = peaks
    fastest = next((dtype for dtype in others if peaks[dtype] > CLEARLY * peaks[first]), first)
    words = ", ".join(f"{_name(dtype)} {peak / 1e9:,.0f} GFLOP/s" for dtype, peak in peaks.items())
    how = "measured matrix products" if len(peaks) > 1 else "as asked; measured"
    on = f"{chosen}, {counted(threads, 'thread')}" if chosen.type == "cpu" else f"{chosen}"
    return Machine(chosen, fastest, peaks[fastest], f"{on}, {_name(fastest)} ({how}: {words})")


def platform(device: torch.device) -> str:
    """What the last bits of results depend on beside the recipe, in words."""
    return f"torch {torch.__version__}, {described(device)}"


def environment(machine: Machine) -> str:
    """The software and the kind of machine that a model was trained with, in words."""
    device = machine.device
    threads = f", {counted(torch.get_num_threads(), 'thread')}" if device.type == "cpu" else ""
    on = f"{platform(device)}, {device}{threads}, {machine.precision_name}"
    return f"Python {python_version()}, {on}"


def find_device(device: str) -> torch.device:
    """`auto` is a GPU if there is one; anything else must exist."""
    if device == "auto":
        return best()
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"{device!r} is no device; use auto, cpu, cuda, cuda:1 or mps.") from None
    if not is_there(chosen):
        raise ConfigError(f"The device {device!r} is not on this machine; use auto or cpu.")
    return chosen


def candidates(precision: str) -> list[torch.dtype]:
    """The precisions that a choice leaves open."""
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    return list(known.values()) if precision == "auto" else [known[precision]]


@cache
def measured_peak(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """FLOP/s of matrix products with this number of threads, the best of several in 0.04 seconds;
    measured once in a process, so that all its runs choose alike."""
    size = 512 if device.type == "cpu" else 4096
    random = torch.Generator(device).manual_seed(0)  # the caller's own stays as it is
    a, b = (torch.randn(size, size, device=device, generator=random).to(dtype) for _ in range(2))
    least, end = float("inf"), time.perf_counter() + 0.04
    torch.mm(a, b)
    while True:
        wait(device)
        begin = time.perf_counter()
        torch.mm(a, b)
        wait(device)
        least = min(least, time.perf_counter() - begin)
        if time.perf_counter() > end:
            return 2 * size**3 / least


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
