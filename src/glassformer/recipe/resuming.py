"""Resume a run by a recipe: what must be as it was, and what is taken over."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, amount
from glassformer.recipe.recipe import Recipe

FIXED = (
    *("task", "processor", "model", "data"),
    *("train.optimizer.kind", "train.seed", "train.finetune"),
)
"""What a run keeps when it is resumed; the other fields may change."""
IN_ORDER = ("train.micro_batches", "train.threads")
"""What it keeps too in deterministic mode, because the order of sums depends on it."""


def with_machine_of(
    recipe: Recipe, begun: Recipe, run: Path, processes: int, say: Callable[[str], None]
) -> Recipe:
    """Return the recipe with the precision and the threads of its run, where it leaves them open:
    today's choice could differ. `processes`: those that share the cores of this machine.
    ConfigError: the order of sums would differ in deterministic mode."""
    train, had = recipe.train, begun.train.threads
    threads = had if train.threads is None else train.threads
    precision = begun.train.precision if train.precision == "auto" else train.precision
    recipe = recipe.with_machine(precision, threads)
    if train.distributed.deterministic and begun.train.distributed.deterministic:
        check_same(recipe, begun, run, IN_ORDER)
    if had is not None and threads == had:
        cores = os.cpu_count() or had
        if not train.distributed.deterministic:
            cores = max(1, cores // processes)
        if cores < had:
            say(
                f"computing with {amount(cores, 'thread')} instead of {had}, because a process "
                "has fewer cores now; the last bits of results will differ"
            )
        recipe = recipe.with_machine(precision, min(had, cores))
    return recipe


def check_same(recipe: Recipe, begun: Recipe, run: Path, fields: Sequence[str] = FIXED) -> None:
    """Raise ConfigError if fields of a recipe differ from those of its run."""
    for field in fields:
        new, old = recipe.values(), begun.values()
        for key in field.split("."):
            new, old = new[key], old[key]
        _check_equal(field, old, new, run)


def _check_equal(name: str, old: Any, new: Any, run: Path) -> None:
    """Raise ConfigError for the innermost field that differs."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            _check_equal(f"{name}.{key}", old[key], new[key], run)
    elif old != new:
        raise ConfigError(
            f"{run} was trained with {name}={old!r}, not {new!r}; resume it with its own recipe or "
            "choose another --run."
        )
