"""What a run of any kind is asked for, and whether two answers are the same."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from glassformer.core.errors import GlassformerError
from glassformer.run import Run

TEXTS, FEW = ["the", "a cat"], {"max_new_tokens": 6}
QUESTIONS: dict[str, Callable[[Run, Any], Any]] = {
    "look": lambda run, given: run.look(given).logits,
    "scores": lambda run, given: {k: v for k, v in run.evaluate().items() if k != "run"},
    "generate": lambda run, given: run.generate(TEXTS, temperature=0.0, **FEW),
    "sample": lambda run, given: run.generate(TEXTS, seed=3, **FEW),
    "translate": lambda run, given: run.translate(TEXTS),
    "search": lambda run, given: run.translate(TEXTS, beams=3),
    "answer": lambda run, given: run.answer(given, temperature=0.0, **FEW),
    "tag": lambda run, given: run.tag(given),
    "classify": lambda run, given: run.classify(given),
    "embed": lambda run, given: run.embed(given),
    "draw": lambda run, given: run.draw("red", seed=1),
}


def questions(run: Run) -> list[tuple[str, Any]]:
    """The questions that a run answers, each with an input."""
    found, given = [], run.task.first_input()
    for name in QUESTIONS:
        with suppress(GlassformerError):
            answers(run, [(name, given)])
            found.append((name, given))
    return found


def answers(run: Run, asked: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The answers to questions; GlassformerError: one is refused."""
    return {name: QUESTIONS[name](run, given) for name, given in asked}


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal, bit by bit."""
    match one:
        case torch.Tensor():
            return torch.equal(one, other)
        case np.ndarray():
            return np.array_equal(one, other)
        case dict():
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        case list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)
