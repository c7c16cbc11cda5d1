"""Base of predictors that write texts: options and the recipe's section, requests to the engine.

Parsed ──requests──> Request, one for each piece ──write──> Text of each ──text──> Text of the input
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from glassformer.core.errors import amount
from glassformer.data.example import Example
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import tokens_of
from glassformer.runtime.request import Request
from glassformer.runtime.trace import Watch
from glassformer.tasks.options import Options
from glassformer.tasks.predictors.predictor import WHOLE, Chosen, Parsed, Predictor
from glassformer.tasks.predictors.text import Delta, Text, Writing, finish, write
from glassformer.tasks.task import Task


def config_of(task: Task, options: Options) -> GenerateConfig:
    """Return the recipe's section `generate` with the choices that were made.

    ConfigError: they do not fit together.
    """
    chosen = options.model_fields_set & GenerateConfig.model_fields.keys()
    return task.recipe.generate.with_changes({name: getattr(options, name) for name in chosen})


BATCHES = 8
"""Inputs of this many batches are sorted by length together, if they are there already."""


def reply_of(means: str) -> dict[str, Any]:
    """The schema of a text that means this."""
    return {"text": {"type": "string", "description": means}}


class Writer(Predictor[Chosen]):
    """A text for each input."""

    batch_size: int = 64
    """Texts at the same time."""
    reply = reply_of("the generated text")
    _known: tuple[Any, GenerateConfig] | None = None
    """The last options, and the section with them."""

    @abstractmethod
    def read(self, given: Any, how: GenerateConfig, number: int = 1) -> Parsed:
        """Read an input; see `parse`."""
        ...

    @abstractmethod
    def requests(self, one: Parsed, how: GenerateConfig) -> list[Request]:
        """Requests to the engine: none for a blank input, one for each piece of another."""
        ...

    def text(self, pieces: list[Text], how: GenerateConfig) -> Text:
        """The text of an input from the texts of its pieces."""
        return pieces[0] if pieces else Text(finish="end")

    def show(self, one: Parsed, text: Text, options: Chosen) -> Text:
        """Return the text with what is printed beside it."""
        return text

    def resize(self, batch_size: int) -> None:
        """See `Predictor`: of several batches, texts of like length are written together."""
        self.batch_size, self.together = batch_size, BATCHES * batch_size

    def how(self, options: Chosen) -> GenerateConfig:
        """The recipe's section `generate` with these choices; see `config_of`."""
        if self._known is None or self._known[0] is not options:  # it is read for every input
            self._known = options, config_of(self.task, options)
        return self._known[1]

    def check(self, options: Chosen) -> None:
        """Raise ConfigError for choices that do not fit together."""
        self.how(options)

    def parse(
        self, given: Any, options: Chosen, where: str = "The input", number: int = 1
    ) -> Parsed:
        """Read an input."""
        return self.read(given, self.how(options), number)

    def write(
        self,
        inputs: Iterable[Parsed],
        how: GenerateConfig,
        batch_size: int | None = None,
        **more: Any,
    ) -> Writing:
        """Yield the new text after each step, and return the text of each input; see `write`."""
        rows = [self.requests(one, how) for one in inputs]
        every, size = [*chain.from_iterable(rows)], batch_size or self.batch_size
        tokenizer = self.processor.tokenizer
        made = iter((yield from write(self.model, tokenizer, every, self.continues, size, **more)))
        return [self.text([next(made) for _ in own], how) for own in rows]

    def predict(
        self, inputs: Iterable[Parsed], options: Chosen, elements: int = WHOLE
    ) -> Iterator[Text | None]:
        """Yield the prediction of each input, and None after each step."""
        inputs, found = list(inputs), list[Text]()
        for _ in self._steps(inputs, options, found):
            yield
        for one, text in zip(inputs, found, strict=True):
            yield self.show(one, text, options)

    def _steps(
        self, inputs: list[Parsed], options: Chosen, found: list[Text]
    ) -> Iterator[list[Delta]]:
        drafts = getattr(options, "draft", None)
        found += yield from self.write(inputs, self.how(options), drafts=drafts)

    def stream(self, one: Parsed, options: Chosen) -> Iterator[Delta]:
        """Yield the text as it grows; the last piece says why it ended."""
        return chain.from_iterable(self._steps([one], options, []))

    def record(self, one: Parsed, options: Chosen, watch: Watch) -> Text:
        """Write a text with a record of each step; see `runtime.trace`."""
        return finish(self.write([one], self.how(options), watch=watch))[0]

    def complete(
        self, inputs: Iterable[Any], how: GenerateConfig, batch_size: int | None = None
    ) -> list[str]:
        """Return the texts of inputs."""
        parsed = [self.read(one, how, number) for number, one in enumerate(inputs, 1)]
        return [one.text for one in finish(self.write(parsed, how, batch_size))]

    def unknown(self, example: Example) -> str:
        """A sentence on the tokens that the vocabulary lacks; "": there are none."""
        tokenizer = self.processor.tokenizer
        unknown = tokenizer.specials.get("unk")
        n = 0 if unknown is None else tokens_of(example).count(unknown)
        if not n:
            return ""
        lacks = f"{amount(n, 'token')} of the prompt {'is' if n == 1 else 'are'}"
        return f"{lacks} not in the vocabulary, and read as {tokenizer.symbol(unknown)}"
