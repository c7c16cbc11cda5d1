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

from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.collate import joined
from glassformer.data.example import Example
from glassformer.layers.heads import Pool, pool
from glassformer.models.transformer import Transformer
from glassformer.models.trunk import check_trunk, streams
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tasks.predict.classify import groups
from glassformer.tasks.predict.gradually import Steps

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
    pooling = _check_pool(how)
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
        own = windows_for(own, how)
        examples += [Example(ids) for ids in own]
        owners += [number - 1] * len(own)
    sums = _Sums(model, pooling, layer, len(texts))
    sums.add(examples, owners)
    return sums.vectors(normalize)


def embed_steps(
    model: Transformer, texts: Sequence[Sequence[np.ndarray]], how: str, normalize: bool
) -> Steps[np.ndarray]:
    """Compute vectors step by step, by the windows of each text, at least one."""
    sums = _Sums(model, _check_pool(how), None, len(texts))
    windows = [(Example(ids), i) for i, own in enumerate(texts) for ids in windows_for(own, how)]
    at = 0
    for group in groups([example for example, _ in windows]):
        sums.add(group, [owner for _, owner in windows[at : at + len(group)]])
        at += len(group)
        yield
    return sums.vectors(normalize)


def _check_pool(how: str) -> Pool:
    for known in POOLS:
        if how == known:
            return known
    raise ConfigError(f"There is no pool {how!r}; {suggest(how, POOLS)}")


def windows_for(windows: Sequence[np.ndarray], how: str) -> Sequence[np.ndarray]:
    """The windows of a text that a pool reads."""
    return {"mean": windows, "first": windows[:1], "last": windows[-1:]}[how]


class _Sums:
    """Pooled vectors of windows, added up by their texts."""

    def __init__(self, model: Transformer, how: Pool, layer: int | None, n: int):
        self.model, self.layer = model, layer
        self.how: Pool = how
        self.total = torch.zeros(n, model.config.d_model, dtype=torch.float64)
        self.weight = torch.zeros(n, 1, dtype=torch.float64)

    def add(self, examples: Sequence[Example], owners: Sequence[int]) -> None:
        """Compute windows, each of the text with the number of its owner."""
        device = next(self.model.parameters()).device
        lengths = [len(one.ids) for one in examples]
        for numbers, batch in joined(examples):
            (hidden,), places = streams(self.model, batch.to(device), [self.layer])
            of = torch.tensor([owners[i] for i in numbers])
            size = torch.tensor([[lengths[i]] for i in numbers], dtype=torch.float64)
            self.total.index_add_(0, of, pool(hidden, places, self.how).cpu().double() * size)
            self.weight.index_add_(0, of, size)

    def vectors(self, normalize: bool) -> np.ndarray:
        """The vector of each text."""
        mean = self.total / self.weight.clamp(min=1)
        return (torch.nn.functional.normalize(mean, dim=1) if normalize else mean).float().numpy()
