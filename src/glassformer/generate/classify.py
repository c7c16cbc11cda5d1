"""Classification: the probability of every class for a text or a pair of texts, however long, or
for batches."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.generate.answers import answers
from glassformer.models.transformer import Transformer, evaluating
from glassformer.processors.sequence import SequenceTokenizer

Text = str | tuple[str, str]
"""A text, or a pair of texts."""


def classify(
    model: Transformer,
    tokenizer: SequenceTokenizer,
    texts: Sequence[Text],
    precision: torch.dtype = torch.float32,
) -> np.ndarray:
    """Probabilities float32 [N, C], in the order of the texts; each row sums to 1, or (multi-label)
    each is a sigmoid.

    A text longer than the model is read by overlapping windows, whose probabilities are averaged.
    """
    examples, owner = [], []
    for number, text in enumerate(texts):
        own = tokenizer.sequences(*((text,) if isinstance(text, str) else text))
        examples += [
            Example(
                part.ids,
                token_type_ids=part.token_type_ids if model.config.n_token_types > 1 else None,
            )
            for part in own
        ]
        owner += [number] * len(own)
    if not examples:
        return np.zeros((0, model.config.class_count), np.float32)
    logits = torch.cat(answers(model, examples, precision))
    each = logits.sigmoid() if model.config.multi_label else logits.softmax(-1)
    of = torch.tensor(owner)
    total = torch.zeros(len(texts), each.shape[1]).index_add(0, of, each)
    return (total / of.bincount(minlength=len(texts))[:, None]).numpy()


def classify_patches(
    model: Transformer,
    batches: Iterable[Float[Tensor, "N T P"]],
    precision: torch.dtype = torch.float32,
) -> np.ndarray:
    """Probabilities float32 [N, C] of pictures or recordings given as patches, a batch at a
    time."""
    return classify_batches(model, map(Batch, batches), precision)


def classify_batches(
    model: Transformer, batches: Iterable[Batch], precision: torch.dtype = torch.float32
) -> np.ndarray:
    """Probabilities float32 [N, C] of the sequences of batches, which may have parts."""
    found = [np.zeros((0, model.config.class_count), np.float32)]
    device = next(model.parameters()).device
    with evaluating(model):
        for batch in batches:
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits.float().cpu()
            found.append(
                (logits.sigmoid() if model.config.multi_label else logits.softmax(-1)).numpy()
            )
    return np.concatenate(found)
