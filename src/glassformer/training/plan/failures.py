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
from typing import Self

GPU_HOURS_PER_FAILURE = 50_700.0
"""419 unexpected interruptions in 54 days on 16,384 GPUs (Llama Team 2024)."""


@dataclass(frozen=True)
class Losses:
    """The best interval between saves and the share of time that is lost with it: by the formula,
    and in the simulation. All times in seconds."""

    mean_time_between_failures: float
    interval: float
    lost: float
    simulated: float

    @classmethod
    def of(cls, stall: float, mtbf: float, restart: float) -> Self:
        """Formula and simulation at the best interval, for saves that training waits for `stall`
        seconds."""
        interval = math.sqrt(2 * stall * mtbf)
        lost = stall / interval + (interval / 2 + restart) / mtbf
        return cls(mtbf, interval, lost, simulated_share(interval, stall, mtbf, restart))


def mean_time_between_failures(devices: int, hours: float = GPU_HOURS_PER_FAILURE) -> float:
    """Seconds between failures of a run on so many devices, each failing once in so many hours."""
    return 3600 * hours / devices


def simulated_share(
    interval: float,
    stall: float,
    mtbf: float,
    restart: float,
    *,
    failures: int = 20_000,
    seed: int = 0,
) -> float:
    """The share of time that is lost in a run until it has failed so often.

    The time to the next failure is exponential, and it may come in a restart or a save too. Between
    two failures: restart, then work and stall in turn.
    """
    draw = random.Random(seed)
    total = useful = 0.0
    for _ in range(failures):
        until = draw.expovariate(1 / mtbf)
        total += until
        useful += max(0.0, (until - restart) // (interval + stall)) * interval
    return 1 - useful / total
