"""Targets of sources (Notes C, D): an encoder-decoder reads pairs."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.collate import encoder_decoder
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import DECODED
from glassformer.tasks.evaluate import Evaluation, blocks, score_outputs
from glassformer.tasks.objectives.answers import Answers
from glassformer.tasks.predictors.answer import Translate


class PairAnswers(Answers):
    """A target for a source; stored pairs have their targets."""

    metrics = ("loss", "accuracy", *DECODED)
    search: ClassVar[dict[str, Any]] = {"beams": 1, "overflow": "window"}

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`. ConfigError: settings that pairs have no use for."""
        if (best := recipe.train.evaluate.best) in ("bleu", "chrf"):
            score_outputs([""], [""], best=best)  # needs its package before the work
        if recipe.model.architecture != "encoder_decoder":
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
