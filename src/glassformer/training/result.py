"""How a run ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """How a run ended: steps done, the last evaluation, the best score by `metric`, a command to
    use the model with, whether it was interrupted (by which signal), and baselines.
    """

    run: Path
    steps: int
    scores: dict[str, Any]
    best: float | None
    metric: str
    use: str
    seconds: float
    interrupted: int | None = None
    baselines: Mapping[str, Any] = field(default_factory=dict)
