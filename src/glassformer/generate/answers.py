"""What a model says of sequences, many at a time: packed into rows without padding, given back in
order."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.collate import packed
from glassformer.data.example import Example
from glassformer.data.order import batches_of
from glassformer.models.transformer import Transformer, evaluating

BATCH_TOKENS = 4096


def answers(
    model: Transformer, examples: Sequence[Example], precision: torch.dtype = torch.float32
) -> list[Float[Tensor, "W C"]]:
    """The head's logits for each example in order, float32 on the CPU: [W, C] at its elements `at`,
    or [1, C]."""
    found: list[Tensor | None] = [None] * len(examples)
    with evaluating(model):
        for numbers, batch in packed_batches(examples):
            device = next(model.parameters()).device
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits.float().cpu()
            counts = [1 if (at := examples[i].at) is None else len(at) for i in numbers]
            for i, own in zip(numbers, logits.split(counts), strict=True):
                found[i] = own
    return [own for own in found if own is not None]


def packed_batches(examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
    """All examples in batches, with the number of the example that each document is."""
    for rows in batches_of(np.array([len(example.ids) for example in examples]), BATCH_TOKENS):
        yield [i for row in rows for i in row], packed(examples, rows)
