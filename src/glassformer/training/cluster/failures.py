"""What failures cost a long run on many devices, and how often to save: a formula and a simulation.

    MTBF = hours per failure of one device / devices
    best interval T = √(2 · stall · MTBF)                            (Young 1974, Daly 2006)
    lost share      = stall / T + (T / 2 + restart) / MTBF           to first order

A failure stops all devices, as torchrun restarts all processes: what was computed since the last
durable save is computed again.
"""

import math
import random
from dataclasses import dataclass

GPU_HOURS_PER_FAILURE = 50_700.0
"""419 unexpected interruptions in 54 days on 16,384 GPUs (Llama Team 2024)."""


@dataclass(frozen=True)
class Saving:
    """How a checkpoint is written: the seconds that training stands still, and those that writing
    goes on beside it, after which the checkpoint is durable."""

    stall: float
    background: float = 0.0


@dataclass(frozen=True)
class Losses:
    """The best interval between saves and the share of time that is lost with it: by the formula,
    and in the simulation. All times in seconds."""

    mean_time_between_failures: float
    interval: float
    lost: float
    simulated: float


def mean_time_between_failures(devices: int, hours: float = GPU_HOURS_PER_FAILURE) -> float:
    """Seconds between failures of a run on so many devices, each failing once in so many hours."""
    return 3600 * hours / devices


def best_interval(saving: Saving, mtbf: float) -> float:
    """Seconds of work between saves that lose least time, to first order."""
    return math.sqrt(2 * saving.stall * mtbf)


def lost_share(interval: float, saving: Saving, mtbf: float, restart: float) -> float:
    """The share of time that saves, repeated work and restarts take, to first order."""
    again = interval / 2 + saving.background + restart
    return saving.stall / interval + again / mtbf


def losses(saving: Saving, mtbf: float, restart: float, failures: int = 20_000) -> Losses:
    """Formula and simulation at the best interval."""
    interval = best_interval(saving, mtbf)
    share = lost_share(interval, saving, mtbf, restart)
    return Losses(
        mtbf, interval, share, simulated_share(interval, saving, mtbf, restart, failures=failures)
    )


def simulated_share(
    interval: float,
    saving: Saving,
    mtbf: float,
    restart: float,
    *,
    failures: int = 20_000,
    seed: int = 0,
) -> float:
    """The share of time that is lost in a run until it has failed so often.

    The time to the next failure is exponential, and it may come in a restart or a save too. Between
    two failures: restart, then work and stall in turn; a save counts once it is durable.
    """
    draw = random.Random(seed)
    total = useful = 0.0
    for _ in range(failures):
        until = draw.expovariate(1 / mtbf)
        total += until
        durable = (until - restart - saving.background) // (interval + saving.stall)
        useful += max(0.0, durable) * interval
    return 1 - useful / total
