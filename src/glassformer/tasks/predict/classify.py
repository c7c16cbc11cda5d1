"""The head's logits for many examples, and class probabilities of inputs: means over their
windows."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.tasks.predict.gradually import Steps
from glassformer.tasks.predictors.predictor import STEP, Batches, answers


def answer_steps(
    model: Transformer, examples: Sequence[Example], batches: Batches
) -> Steps[list[Float[Tensor, "W C"]]]:
    """Compute the logits of `answers` in steps of about `STEP` elements."""
    found = list[Tensor]()
    for group in groups(examples):
        found += answers(model, group, batches)
        yield
    return found


def groups(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Split examples into runs of at most `STEP` elements, or of a single one."""
    begin = size = 0
    for number, example in enumerate(examples):
        if number > begin and size + example.length > STEP:
            yield examples[begin:number]
            begin, size = number, 0
        size += example.length
    if examples:
        yield examples[begin:]


def classify(
    model: Transformer,
    examples: Sequence[Example],
    owner: Sequence[int] | np.ndarray,
    n: int,
    batches: Batches,
    precision: torch.dtype = torch.float32,
) -> np.ndarray:
    """Probabilities, float32 [N, C], of `n` inputs; example i is a window of input `owner[i]`.

    Rows sum to 1, or (multi-label) are sigmoids. The windows of an input are averaged; an input
    without any has NaN.
    """
    return average(model, answers(model, examples, batches, precision), owner, n)


def average(
    model: Transformer, logits: Sequence[Tensor], owner: Sequence[int] | np.ndarray, n: int
) -> np.ndarray:
    """Return the probabilities of `classify` from the logits of its examples."""
    if not len(logits):
        return np.full((n, model.config.class_count), np.nan, np.float32)
    rows = torch.cat([*logits])
    each = rows.sigmoid() if model.config.multi_label else rows.softmax(-1)
    of = torch.from_numpy(np.asarray(owner, np.int64))
    total = torch.zeros(n, each.shape[1]).index_add(0, of, each)
    return (total / of.bincount(minlength=n)[:, None]).numpy()
