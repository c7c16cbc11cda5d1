"""Text to text: a target sequence for a source, or an answer to a row of parts (Notes C, D, E).

an encoder-decoder reads the input as its source      a decoder generates behind the input
"""

from abc import abstractmethod
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
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.constraints import CONSTRAINTS
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, score_outputs
from glassformer.tasks.generative import GenerativeTask
from glassformer.tasks.predictors.answer import Translate
from glassformer.tasks.predictors.choose import Choose
from glassformer.tasks.predictors.score import ScoreTargets
from glassformer.tasks.task import Sample

SHOWN = 3


class TextToText(GenerativeTask):
    """A text for each input."""

    summary = "maps a text to another text"
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
        """See `Task`: an encoder-decoder searches."""
        if not self.encoder_decoder:
            super().check_search()

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `RecordTask`."""
        if not self.encoder_decoder:
            return self.processor.collate(rows)
        return encoder_decoder([e for row in rows for e in row], self.begin)

    def measured(self) -> list[str]:
        """See `Task`."""
        lines, said = self.recipe.train.evaluate.decode_lines, super().measured()
        if lines == 0:
            return said
        inputs = "every input" if lines is None else f"at most {lines:,} inputs"
        longest = self.greedy.max_new_tokens
        return [*said, f"Text is generated greedily for {inputs}, at most {longest:,} tokens each."]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Task`: loss and accuracy of the given targets, then scores of decoded text."""
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
        """See `Task`: the first inputs, their targets and the generated texts."""
        n = min(SHOWN, len(self.split(self.shown_split).owner))
        names = ("source", "reference", "output")
        rows = [dict(zip(names, row, strict=True)) for row in self.first(model, n)]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        return Sample(text, {"samples": rows, "inputs": self.samples(n)[1]})


class PairsToText(TextToText):
    """A target for a source; stored pairs have their targets."""

    uses = (Translate, ScoreTargets, Choose, *TextToText.uses)
    verb = "translate"
    metrics = ("loss", "accuracy", *DECODED)
    search: ClassVar[dict[str, Any]] = {"beams": 1, "overflow": "window"}

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Task`. ConfigError: settings that pairs have no use for."""
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
        """See `Task`."""
        return self.processor.pair

    @property
    def begin(self) -> int:
        """See `TextToText`."""
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
        """See `RecordTask`."""
        return [{}] * len(numbers)

    def opening(self) -> list[str]:
        """See `Task`: also how many pairs are too long."""
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
        """See `TextToText`."""
        sources, how = [inputs.records[i].source for i in numbers], of.how or self.greedy
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))

        def compute(block: Sequence[int]) -> list[str]:
            given = [sources[i] for i in block]
            return Translate(model, self).complete(given, how, len(block))

        texts = chain.from_iterable(of.processes.spread(blocks(order), compute))
        return [text for _, text in sorted(zip(order, texts, strict=True))]

    def scored(
        self, outputs: list[str], references: list[str], groups: list[str | None]
    ) -> dict[str, Any]:
        """See `TextToText`."""
        return score_outputs(outputs, references, groups, best=self.recipe.train.evaluate.best)

    def first(self, model: Transformer, n: int) -> Iterator[tuple[str, str, str]]:
        """See `TextToText`: spread over the split; training pairs are decoded from their ids."""
        inputs, pair = self.split(self.shown_split), self.pair
        if records := inputs.records:
            chosen = [records[i * max(1, len(records) // n)] for i in range(n)]
            sources, targets = [r.source for r in chosen], [r.target for r in chosen]
        else:
            read = (pair.source.decode(inputs.split.source.row(i)) for i in range(n))
            sources = [text.removeprefix(pair.prefix) for text in read]
            targets = [pair.target.decode(inputs.split.target.row(i)) for i in range(n)]
        outputs = Translate(model, self).complete(sources, self.greedy)
        return zip(sources, targets, outputs, strict=True)

    def source_piece(self, index: int) -> str:
        """See `Task`."""
        return self.pair.source.piece(index)

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Task`: a source and its target, given or generated."""
        given = self.first_input() if text is None else text
        source, target = given if isinstance(given, tuple) else (given, "")
        if not target:
            (target,) = Translate(model, self).complete([source], self.greedy)
        example = Example(self.pair.source_ids(source), answer=self.pair.target_ids(target))
        return encoder_decoder([example], self.begin)
