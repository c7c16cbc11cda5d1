"""Batches made ahead of time by worker processes; the same batches, in the same order, for any
number of them.

A step's batches are a function of the step alone, so a worker needs only its number.
"""

import sys
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from glassformer.core.errors import GlassformerError
from glassformer.core.signals import ignore_requests_to_stop

T = TypeVar("T")
AHEAD = 3
"""Steps that each worker is ahead."""


Batches = Callable[[int], T]
"""The micro-batches of a step, in any form."""


def batches_ahead(batches: Batches[T], begin: int, end: int, workers: int) -> Generator[T]:
    """The micro-batches of each step from `begin` to `end` - 1; `workers` 0: made when they are
    used."""
    if not workers or begin >= end:
        yield from map(batches, range(begin, end))
        return
    context = (
        "fork" if sys.platform.startswith("linux") else None
    )  # the data are shared, not copied
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # more workers than cores are the user's own choice
        made_ahead = iter(
            DataLoader(
                _Steps(batches),
                sampler=range(begin, end),
                batch_size=None,
                num_workers=workers,
                prefetch_factor=AHEAD,
                multiprocessing_context=context,
                worker_init_fn=_begin,
                generator=torch.Generator(),  # the caller's stays unchanged
            )
        )
    try:
        for made in made_ahead:
            if isinstance(made, GlassformerError):
                raise made
            yield made
    finally:
        del made_ahead  # which ends the workers, also where an error's traceback keeps this frame


class _Steps(Dataset[Any]):
    """The batches of a step by its number."""

    def __init__(self, batches: Batches[Any]):
        self._batches = batches

    def __getitem__(self, step: int) -> Any:
        try:
            return self._batches(step)
        except GlassformerError as error:  # raised where the training runs, as one sentence
            return error


def _begin(worker: int) -> None:
    ignore_requests_to_stop()  # the trainer gets them too, saves, and ends its workers
    torch.set_num_threads(1)
