"""The head's logits for many sequences: in batches of like length, given back in order."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.collate import packed
from glassformer.data.example import Example
from glassformer.data.order import batches_of
from glassformer.models.transformer import Transformer, evaluating

BATCH_TOKENS = 4096
Batches = Callable[[Sequence[Example]], Iterator[tuple[list[int], Batch]]]
"""Examples to batches, each with the numbers of its examples in the order of their targets."""


def answers(
    model: Transformer,
    examples: Sequence[Example],
    precision: torch.dtype = torch.float32,
    batches: Batches | None = None,
) -> list[Float[Tensor, "W C"]]:
    """Logits for each example in order, float32 on the CPU: [W, C] at elements `at`, or [1, C]."""
    found: list[Tensor | None] = [None] * len(examples)
    device = next(model.parameters()).device
    with evaluating(model):
        for numbers, batch in (batches or packed_batches)(examples):
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits.float().cpu()
            counts = [1 if (at := examples[i].at) is None else len(at) for i in numbers]
            for i, own in zip(numbers, logits.split(counts), strict=True):
                found[i] = own
    return [own for own in found if own is not None]


def packed_batches(examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
    """All examples in packed batches, with the number of the example that each document is."""
    for rows in batches_of(np.array([len(example.ids) for example in examples]), BATCH_TOKENS):
        yield [i for row in rows for i in row], packed(examples, rows)
