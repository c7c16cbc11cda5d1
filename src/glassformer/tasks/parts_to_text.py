"""Parts to text: an answer to a row of text, images and audio (Notes C, D, E)."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import DataError
from glassformer.data.records.parts import Mixed
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts_inputs import PartsInputs
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, matches
from glassformer.tasks.predictors.answer import Answer
from glassformer.tasks.predictors.predictor import Parsed
from glassformer.tasks.predictors.text import finish
from glassformer.tasks.shown import shown
from glassformer.tasks.text_to_text import TextToText


def target_of(row: Mixed) -> str:
    """The target of a row; DataError: it has none."""
    if row.target is None:
        raise DataError(
            f"{row.where} has no target to be written; set data.target, or another task"
        )
    return row.target


class PartsToText(TextToText):
    """An answer to a row of parts."""

    uses = (Answer, *TextToText.uses)
    verb = "generate"
    metrics = ("loss", "accuracy", "exact_match")
    search: ClassVar[dict[str, Any]] = {"temperature": 0}

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Task`. DataError: a row without a target."""
        recipe = recipe.with_vocabulary(processor.vocab_size)
        for row in (row for rows in records.values() for row in rows):
            target_of(row)
        if recipe.model.architecture == "encoder_decoder":
            _ = processor.parts.begin  # pyright: ignore
        processor.parts.answer("")  # pyright: ignore  (refused without an end symbol)
        return recipe

    @property
    def begin(self) -> int:
        """See `TextToText`."""
        return self.processor.parts.begin

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `RecordTask`."""
        return {"answer": self.processor.parts.answer(target_of(record))}

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `RecordTask`."""
        own = np.array([len(target["answer"]) for target in self.targets])
        if self.encoder_decoder:
            return np.maximum(self.training.lengths, own)
        return self.training.lengths + own - 1

    @property
    def share_prefix(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `RecordTask`."""
        return not self.encoder_decoder

    def count_elements(self) -> int:
        """See `RecordTask`: a prefix that examples share counts once."""
        inputs, lengths = self.training, self.lengths
        assert isinstance(inputs, PartsInputs)
        return sum(inputs.bundle_length(own, lengths) for own in inputs.bundles(self.share_prefix))

    def decoded(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """See `TextToText`."""
        how = of.how or self.greedy

        def compute(block: Sequence[int]) -> list[str]:
            parsed = [Parsed(None, (one,)) for one in inputs.examples(block)]
            return [one.text for one in finish(Answer(model, self).write(parsed, how))]

        return [*chain.from_iterable(of.processes.spread(blocks(numbers), compute))]

    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """See `TextToText`."""
        return matches(outputs, references, groups)

    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """See `TextToText`."""
        inputs = self.split(self.shown_split)
        outputs = self.decoded(model, inputs, EVERYTHING, range(n))
        records = inputs.records[:n]
        return zip(map(shown, records), (r.target for r in records), outputs, strict=True)

    @property
    def use(self) -> str:
        """See `RecordTask`."""
        given = "".join(f" --{kind} FILE" for kind in self.processor.readers)
        return f"glassformer generate {self.folder}{given} --prompt TEXT"
