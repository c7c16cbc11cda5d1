"""What an export would be, told before training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The kind of model in a target, and the fields that keep a model from being one."""

    name: str | None
    """The class or architecture there, the nearest one where fields differ; None: no class is for
    the task."""
    differences: tuple[str, ...] = ()
