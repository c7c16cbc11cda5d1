"""Parts to text: an answer to a row of text, images and audio (Notes C, D, E)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example
from glassformer.data.parts import Mixed
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts_inputs import PartsInputs
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import example_of
from glassformer.runtime.request import Request
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks, matches
from glassformer.tasks.predict.gradually import Steps, finish
from glassformer.tasks.predict.text import Delta, Generated, write
from glassformer.tasks.shown import shown
from glassformer.tasks.text_to_text import TextToText


def target_of(row: Mixed) -> str:
    """The target of a row; DataError: it has none."""
    if row.target is None:
        raise DataError(
            f"{row.where} has no target to be written; set data.target, or another task"
        )
    return row.target


def requests(
    model: Transformer, tokenizer: SequenceBuilder, examples: Sequence[Example], how: GenerateConfig
) -> list[Request]:
    """Return requests for answers; those that examples have are not read.

    The prompt and the answer of a decoder must fit the context, of an encoder-decoder each of them.
    ConfigError: a source that does not.
    """
    ends, context = how.ends(tokenizer.text.specials.get("eos")), model.config.max_length
    read = [example_of(one) for one in examples]
    if model.config.architecture != "encoder_decoder":
        return [Request(one, how, ends) for one in read]
    longest = max((len(one.ids) for one in read), default=0)
    if longest > context:
        raise ConfigError(
            f"The prompt has {longest} elements, patches included, and the context {context}; "
            "shorten its text, or train with a larger model.max_length."
        )
    return [Request([tokenizer.begin], how, ends, limit=context, source=one) for one in read]


class PartsToText(TextToText):
    """An answer to a row of parts."""

    verb = "generate"
    routes = ("generate", "embeddings")
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

    @property
    def elements(self) -> int:
        """See `Task`: a prefix that examples share counts once."""
        inputs, lengths = self.training, self.lengths
        assert isinstance(inputs, PartsInputs)
        return sum(inputs.bundle_length(own, lengths) for own in inputs.bundles(self.share_prefix))

    def decoded(
        self, model: Transformer, inputs: Inputs, of: Evaluation, numbers: Sequence[int]
    ) -> list[str]:
        """See `TextToText`."""
        how = of.how or self.greedy

        def compute(block: Sequence[int]) -> list[str]:
            return [one.text for one in finish(self._answers(model, inputs.examples(block), how))]

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

    def answer_steps(
        self, model: Transformer, inputs: Sequence[Any], how: GenerateConfig, **options: Any
    ) -> Steps[list[Generated]]:
        """The text for each row of parts."""
        examples = [window.example for row in inputs for window in self.processor.windows(row)]
        return self._answers(model, examples, how, **options)

    def _answers(
        self, model: Transformer, examples: Sequence[Example], how: GenerateConfig, **options: Any
    ) -> Steps[list[Generated]]:
        parts = self.processor.parts
        return write(model, parts.text, requests(model, parts, examples, how), **options)

    def generate(
        self,
        model: Transformer,
        prompts: Sequence[str],
        files: Mapping[str, Any],
        how: GenerateConfig,
        **options: Any,
    ) -> list[Generated]:
        """The text for each prompt, beside files that all of them are about."""
        rows = [self.processor.ordered(prompt, files) for prompt in prompts]
        return finish(self.answer_steps(model, rows, how, **options))

    def translate_steps(self, *arguments: Any, **options: Any) -> Steps[list[Any]]:
        """Refused."""
        raise ConfigError(
            f"{self.folder} reads rows of parts; use `glassformer generate` with files."
        )

    def stream(self, *arguments: Any, **options: Any) -> Iterator[Delta]:
        """Refused."""
        raise ConfigError("An answer to parts is given as a whole; leave out --score and --stream.")

    score = stream
