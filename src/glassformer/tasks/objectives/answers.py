"""Text to text: a target sequence for a source, or an answer to a row of parts (Notes C, D, E).

an encoder-decoder reads the input as its source      a decoder generates behind the input
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.data.collate import encoder_decoder
from glassformer.data.example import Example
from glassformer.data.records.parts import Mixed
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts_inputs import PartsInputs
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.constraints import CONSTRAINTS
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, matches
from glassformer.tasks.objectives.examples import GeneratedTokens
from glassformer.tasks.objectives.objective import Sample
from glassformer.tasks.predictors.answer import Answer
from glassformer.tasks.predictors.predictor import Parsed
from glassformer.tasks.predictors.text import finish
from glassformer.tasks.shown import shown

SHOWN = 3


class Answers(GeneratedTokens):
    """A text for each input."""

    search: ClassVar[dict[str, Any]]
    """How text is generated for scores and samples."""

    @property
    @abstractmethod
    def begin(self) -> int:
        """The symbol that begins an encoder-decoder's target."""
        ...

    @abstractmethod
    def decoded(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """Generated text for some records."""
        ...

    @abstractmethod
    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """Scores of generated text."""
        ...

    @abstractmethod
    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """Source, target and generated text of the first records."""
        ...

    @property
    def encoder_decoder(self) -> bool:
        """Whether the input is a source."""
        return self.recipe.model.architecture == "encoder_decoder"

    @property
    def greedy(self) -> GenerateConfig:
        """Greedy decoding with the recipe's limits and constraints; sources that are too long go by
        windows."""
        kept = {"eos_token_id", *CONSTRAINTS, "max_new_tokens", "length_ratio", "stop"}
        own = self.recipe.generate.model_dump(include=kept)
        return GenerateConfig.parse(own | self.search)

    def check_search(self) -> None:
        """See `Objective`: an encoder-decoder searches."""
        if not self.encoder_decoder:
            super().check_search()

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `ExampleObjective`."""
        if not self.encoder_decoder:
            return self.processor.collate(rows)
        return encoder_decoder([e for row in rows for e in row], self.begin)

    def measured(self) -> list[str]:
        """See `Objective`."""
        lines, said = self.recipe.train.evaluate.decode_lines, super().measured()
        if lines == 0:
            return said
        inputs = "every input" if lines is None else f"at most {lines:,} inputs"
        longest = self.greedy.max_new_tokens
        return [*said, f"Text is generated greedily for {inputs}, at most {longest:,} tokens each."]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: loss and accuracy of the given targets, then scores of decoded text."""
        scores, inputs = super().evaluate(model, split, of), self.split(split)
        n = len(inputs.records)
        if of.lines == 0 or not n:
            return scores
        count = n if of.lines is None else min(of.lines, n)
        numbers = [i * n // count for i in range(count)]
        found = self.decoded(model, inputs, of, numbers)
        records = [inputs.records[i] for i in numbers]
        return scores | self.scored(found, [r.target for r in records], [r.group for r in records])

    def sampled(self, model: Transformer) -> Sample:
        """See `Objective`: the first inputs, their targets and the generated texts."""
        n = min(SHOWN, len(self.split(self.shown_split).owner))
        names = ("source", "reference", "output")
        rows = [dict(zip(names, row, strict=True)) for row in self.first(model, n)]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        return Sample(text, {"samples": rows, "inputs": self.samples(n)[1]})


def target_of(row: Mixed) -> str:
    """The target of a row; DataError: it has none."""
    if row.target is None:
        raise DataError(
            f"{row.where} has no target to be written; set data.target, or another task"
        )
    return row.target


class PartAnswers(Answers):
    """An answer to a row of parts."""

    metrics = ("loss", "accuracy", "exact_match")
    search: ClassVar[dict[str, Any]] = {"temperature": 0}

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`. DataError: a row without a target."""
        recipe = recipe.with_vocabulary(processor.vocab_size)
        for row in (row for rows in records.values() for row in rows):
            target_of(row)
        if recipe.model.architecture == "encoder_decoder":
            _ = processor.parts.begin  # pyright: ignore
        processor.parts.answer("")  # pyright: ignore  (refused without an end symbol)
        return recipe

    @property
    def begin(self) -> int:
        """See `Answers`."""
        return self.processor.parts.begin

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `ExampleObjective`."""
        return {"answer": self.processor.parts.answer(target_of(record))}

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `ExampleObjective`."""
        own = np.array([len(target["answer"]) for target in self.targets])
        if self.encoder_decoder:
            return np.maximum(self.training.lengths, own)
        return self.training.lengths + own - 1

    @property
    def share_prefix(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `ExampleObjective`."""
        return not self.encoder_decoder

    def count_elements(self) -> int:
        """See `ExampleObjective`: a prefix that examples share counts once."""
        inputs, lengths = self.training, self.lengths
        assert isinstance(inputs, PartsInputs)
        return sum(inputs.bundle_length(own, lengths) for own in inputs.bundles(self.share_prefix))

    def decoded(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """See `Answers`."""
        how = of.how or self.greedy

        def compute(block: Sequence[int]) -> list[str]:
            parsed = [Parsed(None, (one,)) for one in inputs.examples(block)]
            return [one.text for one in finish(Answer(model, self.task).write(parsed, how))]

        return [*chain.from_iterable(of.processes.spread(blocks(numbers), compute))]

    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """See `Answers`."""
        return matches(outputs, references, groups)

    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """See `Answers`."""
        inputs = self.split(self.shown_split)
        outputs = self.decoded(model, inputs, EVERYTHING, range(n))
        records = inputs.records[:n]
        return zip(map(shown, records), (r.target for r in records), outputs, strict=True)

    @property
    def use(self) -> str:
        """See `ExampleObjective`."""
        given = "".join(f" --{kind} FILE" for kind in self.processor.readers)
        return f"glassformer generate {self.folder}{given} --prompt TEXT"
