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
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.collate import encoder_decoder
from glassformer.data.example import Example
from glassformer.data.records.parts import Mixed
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts_inputs import PartsInputs
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import DECODED
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.selectors.constraints import CONSTRAINTS
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, matches, score_outputs
from glassformer.tasks.objectives.examples import GeneratedTokens, shown
from glassformer.tasks.predictors.answer import Answer, Translate
from glassformer.tasks.predictors.predictor import Parsed
from glassformer.tasks.predictors.text import finish

SHOWN = 3


class Answers(GeneratedTokens):
    """A text for each input."""

    search: ClassVar[dict[str, Any]] = {"temperature": 0}
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

    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """Scores of generated text."""
        return matches(outputs, references, groups)

    @abstractmethod
    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """Source, target and generated text of the first records."""
        ...

    @property
    def greedy(self) -> GenerateConfig:
        """Greedy decoding with the recipe's limits and constraints; sources that are too long go by
        windows."""
        kept = {"eos_token_id", *CONSTRAINTS, "max_new_tokens", "length_ratio", "stop"}
        own = self.recipe.generate.model_dump(include=kept)
        return GenerateConfig.parse(own | self.search)

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `ExampleObjective`."""
        if not self.recipe.model.is_encoder_decoder:
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

    def rows(self, model: Transformer) -> tuple[list[dict[str, Any]], list[Any]]:
        """See `ExampleObjective`: the first inputs, their targets and the generated texts."""
        n = min(SHOWN, len(self.split(self.shown_split).owner))
        names = ("source", "reference", "output")
        found = self.first(model, n)
        rows = [dict[str, Any](zip(names, row, strict=True)) for row in found]
        return rows, self.samples(n)[1]


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

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`. DataError: a row without a target."""
        recipe = recipe.with_vocabulary(processor.vocab_size)
        for row in (row for rows in records.values() for row in rows):
            target_of(row)
        if recipe.model.is_encoder_decoder:
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
        if self.recipe.model.is_encoder_decoder:
            return np.maximum(self.training.lengths, own)
        return self.training.lengths + own - 1

    @property
    def share_prefix(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `ExampleObjective`."""
        return not self.recipe.model.is_encoder_decoder

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


class PairAnswers(Answers):
    """A target for a source; stored pairs have their targets."""

    metrics = ("loss", "accuracy", *DECODED)
    search: ClassVar[dict[str, Any]] = {"beams": 1, "overflow": "window"}

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`. ConfigError: settings that pairs have no use for."""
        if (best := recipe.train.evaluate.best) in ("bleu", "chrf"):
            score_outputs([""], [""], best=best)  # needs its package before the work
        if not recipe.model.is_encoder_decoder:
            raise ConfigError(
                "The data are pairs and model.architecture='decoder' reads running text; use "
                "encoder_decoder."
            )
        pair: PairTokenizer = processor.pair  # pyright: ignore
        apart = recipe.model.source_vocab_size or not pair.shared
        own = pair.source.vocab_size if apart else None
        return recipe.with_vocabulary(pair.target.vocab_size, own)

    @property
    def pair(self) -> PairTokenizer:
        """See `Objective`."""
        return self.processor.pair

    @property
    def begin(self) -> int:
        """See `Answers`."""
        return self.pair.bos

    def check_size(self) -> None:
        """Raise DataError if no training pair, or no validation pair, fits into the model."""
        _ = self.feed.order
        inputs, longest = self.data.get("validation"), self.recipe.model.max_length
        if inputs and inputs.too_long(longest) == len(inputs.split):
            raise DataError(
                f"every validation pair has a side of more than {longest} tokens; raise "
                "model.max_length, or set data.validation.fraction=0"
            )

    def targets_of(self, inputs: Inputs, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """See `ExampleObjective`."""
        return [{}] * len(numbers)

    def opening(self) -> list[str]:
        """See `Objective`: also how many pairs are too long."""
        longest, own = self.recipe.model.max_length, self.recipe.train.length
        limits = {
            "train": ("train.length" if own else "model.max_length", own or longest, "training"),
            "validation": ("model.max_length", longest, "validation"),
        }
        sentences = super().opening()
        for split, (field, most, name) in limits.items():
            if split in self.data and (n := self.data[split].too_long(most)):
                sentences.append(
                    f"left out: {n:,} {name} pairs with a side of more than {most} tokens; raise "
                    f"{field} to use them"
                )
        return sentences

    def decoded(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """See `Answers`."""
        sources, how = [inputs.records[i].source for i in numbers], of.how or self.greedy
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))

        def compute(block: Sequence[int]) -> list[str]:
            given = [sources[i] for i in block]
            return Translate(model, self.task).complete(given, how, len(block))

        texts = chain.from_iterable(of.processes.spread(blocks(order), compute))
        return [text for _, text in sorted(zip(order, texts, strict=True))]

    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """See `Answers`."""
        return score_outputs(outputs, references, groups, best=self.recipe.train.evaluate.best)

    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """See `Answers`: spread over the split; training pairs are decoded from their ids."""
        inputs, pair = self.split(self.shown_split), self.pair
        if records := inputs.records:
            chosen = [records[i * max(1, len(records) // n)] for i in range(n)]
            sources, targets = [r.source for r in chosen], [r.target for r in chosen]
        else:
            read = (pair.source.decode(inputs.split.source.row(i)) for i in range(n))
            sources = [text.removeprefix(pair.prefix) for text in read]
            targets = [pair.target.decode(inputs.split.target.row(i)) for i in range(n)]
        outputs = Translate(model, self.task).complete(sources, self.greedy)
        return zip(sources, targets, outputs, strict=True)

    def source_piece(self, index: int) -> str:
        """See `Objective`."""
        return self.pair.source.piece(index)

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Objective`: a source and its target, given or generated."""
        given = self.task.first_input() if text is None else text
        source, target = given if isinstance(given, tuple) else (given, "")
        if not target:
            (target,) = Translate(model, self.task).complete([source], self.greedy)
        example = Example(self.pair.source_ids(source), answer=self.pair.target_ids(target))
        return encoder_decoder([example], self.begin)
