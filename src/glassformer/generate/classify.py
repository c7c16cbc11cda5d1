"""Class probabilities of inputs: means over their windows."""

from collections.abc import Sequence

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.generate.answers import Batches, answers
from glassformer.models.transformer import Transformer


def classify(
    model: Transformer,
    examples: Sequence[Example],
    owner: Sequence[int] | np.ndarray,
    n: int,
    precision: torch.dtype = torch.float32,
    batches: Batches | None = None,
) -> np.ndarray:
    """Probabilities, float32 [N, C], of `n` inputs; example i is a window of input `owner[i]`.

    Rows sum to 1, or (multi-label) are sigmoids. The windows of an input are averaged.
    """
    if not len(examples):
        return np.zeros((n, model.config.class_count), np.float32)
    logits = torch.cat(answers(model, examples, precision, batches))
    each = logits.sigmoid() if model.config.multi_label else logits.softmax(-1)
    of = torch.from_numpy(np.asarray(owner, np.int64))
    total = torch.zeros(n, each.shape[1]).index_add(0, of, each)
    return (total / of.bincount(minlength=n)[:, None]).numpy()
