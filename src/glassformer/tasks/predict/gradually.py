"""Long computations in steps: generators that yield between two steps, and return their result.

steps = transduce_steps(model, tokenizer, texts, config)
next(steps)                 one step of the search of one batch
finish(steps)               all that are left, and the result
"""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")
Steps = Generator[object, None, Found]


def finish(steps: Steps[Found]) -> Found:
    """The result of a computation."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
