"""`embed`: the vector of a text, from the stream of the trunk, pooled (Note D: contextualized).

    `mean`    of all elements that the model reads, <bos> and <eos> among them where it was trained
              with them.
    `first`   that of the first element (<bos>, BERT's way).
    `last`    that of the last one (Note D; a decoder's).

A classify head with the same `pool` reads this vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.collate import join_examples
from glassformer.data.example import Example
from glassformer.layers.heads import Pool, pool
from glassformer.models.trunk import check_trunk, streams
from glassformer.processors.tokens.text_reader import TextReader, parts_of
from glassformer.tasks.options import EmbedOptions
from glassformer.tasks.predictors.head import HeadPredictor
from glassformer.tasks.predictors.predictor import ALL, OfText, Parsed, Prediction, check_text
from glassformer.tasks.task import Task

Sum = tuple[Float[Tensor, "D"], int]
"""The pooled vector of a window times its elements, float64, and their number."""


@dataclass(frozen=True)
class Vector(Prediction):
    """The vector of a text, float32 [D]; zeros of a blank one."""

    vector: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """The vector."""
        return self.vector

    def line(self) -> str:
        """See `Prediction`: numbers with spaces between."""
        return " ".join(map(str, self.numbers or ()))

    @property
    def numbers(self) -> list[float] | None:
        """The vector to nine digits, which distinguish neighbouring float32; None: it is blank."""
        if not self.vector.any():
            return None
        return [float(f"{value:.9g}") for value in self.vector.tolist()]

    def json(self) -> dict[str, Any]:
        """See `Prediction`: `vector`."""
        return {"vector": self.numbers}

    def columns(self) -> dict[str, Any]:
        """See `Prediction`: `vector`, None of a blank text."""
        return {"vector": self.vector if self.vector.any() else None}


class Embed(OfText[EmbedOptions], HeadPredictor[EmbedOptions]):
    """Vectors of texts.

    A text longer than the model is read by overlapping windows: the mean of their elements, the
    first of the first, the last of the last.
    """

    name, routes = "embed", ("embeddings",)
    together = 1 << 10
    whole = ALL
    has_lines = False
    reply: ClassVar = {"vector": {"type": "array", "items": {"type": "number"}}}

    @classmethod
    def misfit(cls, task: Task) -> tuple[str, str] | None:
        """See `Predictor`: files are no text."""
        if task.processor.tokenizer:
            return None
        verb = "inspect" if task.uses[0] is cls else task.uses[0].name
        return f"reads {task.processor.noun}s, not text", f"; use `glassformer {verb}`."

    def check(self, options: EmbedOptions) -> None:
        """See `Predictor`: a layer or a prompt that there is not."""
        check_trunk(self.model, [options.layer])
        self.reader(options.prompt)

    @property
    def pool(self) -> Pool:
        """The pool that the model was trained to; BERT's pooler was trained for another task."""
        own = self.task.recipe.model
        return own.pool if own.head == "pool" and not own.pooler else "mean"

    def reader(self, prompt: str | None = None) -> TextReader:
        """Reader of texts with the prompt of this name; ConfigError: there is none."""
        own, reader = self.task.recipe.processor.vectors, self.processor.reader
        prompts = {} if own is None else own.prompts
        if prompt is not None and not prompts:
            raise ConfigError(
                f"This model has no prompts, and {prompt!r} was asked for; leave it out."
            )
        if own is None:
            return reader
        name = own.prompt if prompt is None else prompt
        if name is not None and name not in prompts:
            raise ConfigError(f"There is no prompt {name!r}; {suggest(name, prompts)}")
        before = "" if name is None else prompts[name]
        return replace(reader, prefix=before, cut=own.max_length, lowercase=own.lowercase)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """See `Predictor`: the one of texts."""
        return ("text_field",)

    def parse(
        self, given: Any, options: EmbedOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`: a text, or token ids. `about` is the number of tokens that it has."""
        reader, how = self.reader(options.prompt), options.pool or self.pool
        if isinstance(given, list):
            ids = parts_of(np.array(given, np.int32), reader.room)
            parts = [reader.framed(part) for part in ids]
        else:
            parts = reader.windows(check_text(given))
        chosen = {"mean": parts, "first": parts[:1], "last": parts[-1:]}[how]
        n_tokens = sum(len(part) for part in parts)
        return Parsed(given, [Example(ids) for ids in chosen], n_tokens, number)

    def compute(self, examples: Sequence[Example], options: EmbedOptions) -> Sequence[Sum]:
        """See `HeadPredictor`: a sum for each sequence."""
        how: Pool = options.pool or self.pool
        device, found = next(self.model.parameters()).device, dict[int, Sum]()
        for numbers, batch in join_examples(examples):
            (hidden,), places = streams(self.model, batch.to(device), [options.layer])
            sizes = [examples[i].length for i in numbers]
            sums = pool(hidden, places, how).cpu().double() * torch.tensor(sizes)[:, None]
            found.update(zip(numbers, zip(sums, sizes, strict=True), strict=True))
        return [found[i] for i in range(len(examples))]

    def prediction(self, one: Parsed, found: Sequence[Sum], options: EmbedOptions) -> Vector:
        """See `HeadPredictor`: the mean of all elements."""
        own = self.task.recipe.processor.vectors
        unit = own is None or own.normalize if options.normalize is None else options.normalize
        total = torch.zeros(1, self.model.config.d_model, dtype=torch.float64)
        for vector, _ in found:
            total += vector
        mean = total / max(1, sum(size for _, size in found))
        mean = torch.nn.functional.normalize(mean, dim=1) if unit else mean
        return Vector(mean[0].float().numpy())

    def predict_given(self, given: Any, changes: Mapping[str, Any]) -> tuple[bool, list[Any]]:
        """See `Predictor`. DataError: a text has no tokens."""
        single, texts = self.several(given)
        _, found = super().predict_given(texts, changes)
        for number, (text, one) in enumerate(zip(texts, found, strict=True), 1):
            if not one.vector.any():
                raise DataError(
                    f"Text {number} of {len(texts)} is {text[:40]!r}, which has no tokens; leave "
                    "it out."
                )
        return single, found

    def gather(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """See `Predictor`: [N, D]."""
        return np.array(values, np.float32).reshape(-1, self.model.config.d_model)
