"""Time that failures cost a long run on many devices, and how often to save.

    MTBF = hours per failure of one device / devices
    best interval T = √(2 · stall · MTBF)                            (Young 1974, Daly 2006)

A failure stops all devices, as torchrun restarts all processes: what was computed since the last
durable save is computed again.
"""

import math
import random
from dataclasses import dataclass

GPU_HOURS_PER_FAILURE = 50_700.0
"""419 unexpected interruptions in 54 days on 16,384 GPUs (Llama Team 2024)."""
SIMULATED = 20_000
"""Failures of a simulated run."""


@dataclass(frozen=True)
class Losses:
    """The best interval between saves, and the share of time that is lost with it. All times in
    seconds."""

    mean_time_between_failures: float
    interval: float
    lost: float


def losses(stall: float, mtbf: float, restart: float) -> Losses:
    """Return the losses at the best interval, for saves that training waits for `stall` seconds."""
    interval = math.sqrt(2 * stall * mtbf)
    return Losses(mtbf, interval, lost_share(interval, stall, mtbf, restart))


def lost_share(interval: float, stall: float, mtbf: float, restart: float) -> float:
    """Share of time that a simulated run loses.

    The time to the next failure is exponential, and it may come in a restart or a save too. Between
    two failures: restart, then work and stall in turn.
    """
    draw = random.Random(0)
    total = useful = 0.0
    for _ in range(SIMULATED):
        until = draw.expovariate(1 / mtbf)
        total += until
        useful += max(0.0, (until - restart) // (interval + stall)) * interval
    return 1 - useful / total
