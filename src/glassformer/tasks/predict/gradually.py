"""Long computations in steps: generators that yield between two steps, and return their result.

steps = transduce_steps(model, tokenizer, texts, config)
next(steps)                 one step of the search of one batch
finish(steps)               all that are left, and the result
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

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
