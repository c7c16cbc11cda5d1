"""Long computations in steps: generators that yield between two steps, and return their result.

steps = transduce_steps(model, tokenizer, texts, config)
next(steps)                 one step of the search of one batch
finish(steps)               all that are left, and the result
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import torch

Row = TypeVar("Row")
Found = TypeVar("Found")
Steps = Generator[None, None, Found]


def finish(steps: Steps[Found]) -> Found:
    """The result of a computation."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def by_length(
    rows: Sequence[Row],
    length: Callable[[Row], int],
    batch_size: int,
    call: Callable[[list[Row]], Steps[Sequence[Found]]],
) -> Steps[list[Found]]:
    """Results for all rows in order, computed in batches of rows of similar lengths."""
    order = sorted(range(len(rows)), key=lambda i: length(rows[i]))
    found: dict[int, Found] = {}
    for begin in range(0, len(order), batch_size):
        batch = order[begin : begin + batch_size]
        found.update(zip(batch, (yield from call([rows[i] for i in batch])), strict=True))
    return [found[i] for i in range(len(rows))]


def in_threads(
    rows: Sequence[Row],
    length: Callable[[Row], int],
    threads: int,
    call: Callable[[list[Row]], Steps[Sequence[Found]]],
) -> list[Found]:
    """Results for all rows in order, of shares with equal lengths in threads, each of which
    computes alone."""
    order = sorted(range(len(rows)), key=lambda i: -length(rows[i]))
    shares = [order[at::threads] for at in range(min(threads, len(rows)))]
    stopped = Event()

    def finished(share: list[int]) -> Sequence[Found]:
        torch.set_num_threads(1)  # of this thread, and of threads that begin
        steps = call([rows[i] for i in share])
        while not stopped.is_set():
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        return ()

    with ThreadPoolExecutor(threads) as pool:
        try:
            parts = list(pool.map(finished, shares))
        finally:
            stopped.set()
            torch.set_num_threads(threads)
    pairs = (zip(*both, strict=True) for both in zip(shares, parts, strict=True))
    found = {i: one for share in pairs for i, one in share}
    return [found[i] for i in range(len(rows))]
