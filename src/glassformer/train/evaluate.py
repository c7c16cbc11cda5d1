"""Scores of a model on a whole split, batch by batch.

Knows: models and metrics. Does not know: files.
"""

from collections.abc import Iterable

import torch

from glassformer.batch import Batch
from glassformer.losses import cross_entropy
from glassformer.metrics import LanguageModelScore
from glassformer.models.transformer import Transformer, evaluating


def evaluate(
    model: Transformer, batches: Iterable[Batch], precision: torch.dtype = torch.float32
) -> LanguageModelScore:
    """The loss of `model` over all targets of `batches`; no logits are kept."""
    score, device = LanguageModelScore(), next(model.parameters()).device
    with evaluating(model):
        for batch in batches:
            assert batch.targets is not None
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits
            loss = cross_entropy(logits, batch.targets.to(device))
            score.add(loss.total.item(), loss.count)
    return score
