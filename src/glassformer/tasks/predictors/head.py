"""Base of predictors by the output of a head: logits of sequences, computed in groups."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Batch
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer, evaluating
from glassformer.tasks.predictors.predictor import Chosen, Parsed, Prediction, Predictor

Batches = Callable[[Sequence[Example]], Iterator[tuple[list[int], Batch]]]
"""Examples to batches, each with the numbers of its examples in the order of their targets."""


class HeadPredictor(Predictor[Chosen]):
    """A predictor by what the head of the model says of each sequence."""

    def compute(self, examples: Sequence[Example], options: Chosen) -> Any:
        """Compute what a prediction needs of some sequences: by default their logits."""
        return answers(self.model, examples, self.processor.batches, self.precision)

    @abstractmethod
    def prediction(self, one: Parsed, found: Sequence[Any], options: Chosen) -> Prediction:
        """The prediction of an input, by what was computed for each of its sequences."""
        ...

    def predict(
        self, inputs: Iterable[Parsed], options: Chosen, elements: int
    ) -> Iterator[Prediction | None]:
        """See `Predictor`: a step has at most this many elements, or one sequence."""
        waiting: deque[tuple[Parsed, list[Any]]] = deque()
        """Inputs, with what was computed of their sequences."""
        group: list[tuple[list[Any], Example]] = []
        size = 0

        def compute() -> Iterator[Prediction | None]:
            computed = self.compute([example for _, example in group], options)
            for (found, _), one in zip(group, computed, strict=True):
                found.append(one)
            group.clear()
            yield
            yield from ready()

        def ready() -> Iterator[Prediction]:
            while waiting and len(waiting[0][1]) == len(waiting[0][0].windows):
                yield self.prediction(*waiting.popleft(), options)

        for one in inputs:
            waiting.append((one, found := list[Any]()))
            for example in one.windows:
                if group and size + example.length > elements:
                    yield from compute()
                    size = 0
                group.append((found, example))
                size += example.length
            yield from ready()
        if group:
            yield from compute()


def answers(
    model: Transformer,
    examples: Sequence[Example],
    batches: Batches,
    precision: torch.dtype = torch.float32,
) -> list[Float[Tensor, "W C"]]:
    """Logits for each example in order, float32 on the CPU: [W, C] at elements `at`, or [1, C]."""
    found: dict[int, Tensor] = {}
    device = next(model.parameters()).device
    with evaluating(model):
        for numbers, batch in batches(examples):
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits.float().cpu()
            counts = [1 if (at := examples[i].at) is None else len(at) for i in numbers]
            found.update(zip(numbers, logits.split(counts), strict=True))
    return [found[i] for i in range(len(examples))]
