"""Texts to vectors: the trunk's stream, pooled; one vector for each text, however long.

    mean    of all elements that the model reads, <bos> and <eos> among them where it was trained
            with them
    first   that of the first element (<bos>, BERT's way)
    last    that of the last one (Note D; a decoder's)

These are the vectors that a classify head with the same `pool` reads. Source: Note D
(contextualized representations).
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch

from glassformer.data.collate import joined
from glassformer.data.example import Example
from glassformer.errors import ConfigError, DataError, suggest
from glassformer.layers.heads import Pool, pool
from glassformer.models.transformer import Transformer
from glassformer.models.trunk import check_trunk, streams
from glassformer.processors.text_reader import TextReader

POOLS: tuple[Pool, ...] = get_args(Pool)


def embed(
    model: Transformer,
    reader: TextReader,
    texts: Sequence[str],
    how: str = "mean",
    layer: int | None = None,
    normalize: bool = True,
    empty: Literal["refuse", "zeros"] = "refuse",
) -> np.ndarray:
    """A vector for each text, float32 [N, D], of length 1 with `normalize`.

    `layer`: after that block, 0 for the static embedding, None for the end of the trunk (see
    `models.trunk`). A text longer than the model is read by overlapping windows: the mean of their
    elements, the first of the first, the last of the last. ConfigError: a pool or a layer that
    there is not. DataError: a text that is `empty`, having no tokens.
    """
    if how not in POOLS:
        raise ConfigError(f"There is no pool {how!r}; {suggest(how, POOLS)}")
    check_trunk(model, [layer])
    examples: list[Example] = []
    owners: list[int] = []
    for number, text in enumerate(texts, 1):
        own = reader.windows(text)
        if not own and empty == "refuse":
            raise DataError(
                f"Text {number} of {len(texts)} is {text[:40]!r}, which has no tokens; leave it "
                "out."
            )
        own = {"mean": own, "first": own[:1], "last": own[-1:]}[how]
        examples += [Example(ids) for ids in own]
        owners += [number - 1] * len(own)
    total = torch.zeros(len(texts), model.config.d_model, dtype=torch.float64)
    weight = torch.zeros(len(texts), 1, dtype=torch.float64)
    device, lengths = next(model.parameters()).device, [len(one.ids) for one in examples]
    for numbers, batch in joined(examples):
        (hidden,), places = streams(model, batch.to(device), [layer])
        of = torch.tensor([owners[i] for i in numbers])
        size = torch.tensor([[lengths[i]] for i in numbers], dtype=torch.float64)
        total.index_add_(0, of, pool(hidden, places, how).cpu().double() * size)
        weight.index_add_(0, of, size)
    mean = total / weight.clamp(min=1)
    return (torch.nn.functional.normalize(mean, dim=1) if normalize else mean).float().numpy()
