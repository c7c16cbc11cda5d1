"""Answers while memory that torch allocates without a value holds NaN."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import glassformer as gf
from properties.answers import answers, questions, same


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that torch allocates without a value holds NaN, or the largest integer."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.empty(1000).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def poisoned_memory(runs: dict[str, Path]) -> tuple[int, list[str]]:
    """The number of answers, and those that changed."""
    cases, problems = 0, list[str]()
    for kind, folder in runs.items():
        asked = questions(gf.load(folder))
        whole = answers(gf.load(folder), asked)
        with poisoned():
            again = answers(gf.load(folder), asked)
        cases += len(whole)
        problems += [f"{kind}, {name}" for name, _ in asked if not same(whole[name], again[name])]
    return cases, problems
