"""Text to text: the target of a source, or an answer to a row of parts (Notes C, D, E).

an encoder-decoder reads the input as its source      a decoder generates after the input
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.collate import encoder_decoder
from glassformer.data.example import Example
from glassformer.data.records.parts import Mixed
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts import check_row
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.selectors.constraints import CONSTRAINTS
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, matches, translations
from glassformer.tasks.objectives.examples import GeneratedTokens, Rows, preview

SHOWN = 3


class Answers(GeneratedTokens):
    """A text for each input."""

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Any, records: Any) -> Recipe:
        """See `Objective`. ConfigError: settings that pairs have no use for; DataError: a row
        without a target."""
        if (best := recipe.train.evaluate.best) in ("bleu", "chrf"):
            translations([""], [""], best)  # needs its package before the work
        pair, own = processor.pair, None
        if pair is not None:
            if not recipe.model.is_encoder_decoder:
                raise ConfigError(
                    "The data are pairs and model.architecture='decoder' reads running text; use "
                    "encoder_decoder."
                )
            apart = recipe.model.source_vocab_size or not pair.shared
            own = pair.source.vocab_size if apart else None
        recipe = recipe.with_vocabulary(processor.vocab_size, own)
        for row in _rows(processor, records):
            target_of(row)
        if recipe.model.is_encoder_decoder:
            _ = processor.begin
        processor.answer("")  # refused without an end symbol
        rows = _rows(processor, records) if recipe.max_length_open else ()
        lengths = (_length(recipe, processor, row) for row in rows)
        return recipe.with_length(max(lengths, default=None))

    def check(self, records: Any) -> None:
        """See `Objective`: also with their answers."""
        super().check(records)
        for row in _rows(self.processor, records):
            check_row(row, _length(self.recipe, self.processor, row), self.recipe.model.max_length)

    def check_size(self) -> None:
        """Raise DataError if no training input, or no validation input, fits into the model."""
        _ = self.feed.order
        inputs, longest = self.data.get("validation"), self.recipe.model.max_length
        if inputs and inputs.too_long(longest) == len(inputs.owner):
            raise DataError(
                f"every validation {self.processor.noun} has a side of more than {longest} tokens; "
                "raise model.max_length, or set data.validation.fraction=0"
            )

    def opening(self) -> list[str]:
        """See `Objective`: also how many inputs are too long."""
        longest, own = self.recipe.model.max_length, self.recipe.train.length
        limits = {
            "train": ("train.length" if own else "model.max_length", own or longest, "training"),
            "validation": ("model.max_length", longest, "validation"),
        }
        sentences = super().opening()
        for split, (field, most, name) in limits.items():
            if split in self.data and (n := self.data[split].too_long(most)):
                sentences.append(
                    f"left out: {n:,} {name} {self.processor.noun}s with a side of more than "
                    f"{most} tokens; raise {field} to use them"
                )
        return sentences

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `ExampleObjective`: an answer."""
        return {"answer": self.processor.answer(target_of(record))}

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `ExampleObjective`: with their answers."""
        if self.training.has_targets:
            return self.training.lengths
        own = np.array([len(target["answer"]) for target in self.targets])
        if self.recipe.model.is_encoder_decoder:
            return np.maximum(self.training.lengths, own)
        return self.training.lengths + own - 1

    @property
    def share_prefix(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `ExampleObjective`: beside a decoder."""
        return not self.recipe.model.is_encoder_decoder

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `ExampleObjective`: of an encoder-decoder, answers beside their sources."""
        if not self.recipe.model.is_encoder_decoder:
            return self.processor.collate(rows)
        return encoder_decoder([e for row in rows for e in row], self.processor.begin)

    @property
    def writer(self) -> type[Any]:
        """The predictor of its texts."""
        return self.task.uses[0]

    @property
    def greedy(self) -> GenerateConfig:
        """Greedy decoding with the recipe's limits and constraints, as the predictor does it."""
        kept = {"eos_token_id", *CONSTRAINTS, "max_new_tokens", "length_ratio", "stop"}
        own = self.recipe.generate.model_dump(include=kept)
        return GenerateConfig.parse(own | self.writer.greedy)

    def explain_scores(self) -> list[str]:
        """See `Objective`: also for how many inputs text is generated."""
        lines, said = self.recipe.train.evaluate.decode_lines, super().explain_scores()
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
        found = self.decode(model, inputs, of, numbers)
        records = [inputs.records[i] for i in numbers]
        references = [one.target for one in records]
        scores |= matches(found, references, [one.group for one in records])
        if "bleu" in self.writer.metrics:
            scores |= translations(found, references, self.recipe.train.evaluate.best)
        return scores

    def decode(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """Return the generated text of some sequences; those of like length together."""
        how, writer = of.how or self.greedy, self.writer(model, self.task)
        sizes = {i: len(preview(inputs.record(i))) for i in numbers}
        order = sorted(numbers, key=sizes.__getitem__)
        parts = of.processes.spread(blocks(order), lambda own: writer.decode(inputs, own, how))
        texts = dict(zip(order, chain.from_iterable(parts), strict=True))
        return [texts[i] for i in numbers]

    def rows(self, model: Transformer) -> Rows:
        """See `ExampleObjective`: the first inputs, their targets and the generated texts."""
        inputs = self.split(self.shown_split)
        numbers = inputs.first(SHOWN)
        records = map(inputs.record, numbers)
        outputs = self.decode(model, inputs, EVERYTHING, numbers)
        rows = [
            {"source": preview(one), "reference": one.target, "output": output}
            for one, output in zip(records, outputs, strict=True)
        ]
        return rows, self.samples(len(rows))[1]

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Objective`: of a pair a source and its target, given or generated."""
        if (pair := self.processor.pair) is None:
            return super().batch_to_check(model, text)
        given = self.task.first_input() if text is None else text
        source, target = given if isinstance(given, tuple) else (given, "")
        if not target:
            (target,) = self.writer(model, self.task).complete([source], self.greedy)
        example = Example(pair.source_ids(source), answer=pair.target_ids(target))
        return encoder_decoder([example], pair.bos)

    @property
    def use(self) -> str:
        """See `Objective`: with files, if rows have some."""
        if self.writer.lines:
            return super().use
        given = "".join(f" --{kind} FILE" for kind in self.processor.readers)
        return f"glassformer generate {self.folder}{given} --prompt TEXT"


def target_of(row: Mixed) -> str:
    """Return the target of a row; DataError: it has none."""
    if row.target is None:
        raise DataError(
            f"{row.where} has no target to be written; set data.target, or another task"
        )
    return row.target


def _rows(processor: Processor, records: Any) -> Iterable[Mixed]:
    """Return the rows of all splits; none of pairs, which are stored with their targets."""
    return chain.from_iterable(records.values()) if processor.pair is None else ()


def _length(recipe: Recipe, processor: Any, row: Mixed) -> int:
    """Return the number of elements of a row, its answer among them."""
    n, answer = len(processor.unfilled(row).ids), len(processor.answer(target_of(row)))
    return max(n, answer) if recipe.model.is_encoder_decoder else n + answer - 1
