"""Text generation: the next token of running text, or of the assistant's messages (Notes B, D, E).

ids       <|user|>  2 + 2 ?  <eos>  <|assistant|>  4      <eos>
targets                                            4      <eos>
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.data.example import Example
from glassformer.data.order import spread
from glassformer.data.records.conversations import ASSISTANT, Conversation, Messages
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Window
from glassformer.processors.tokenized import PackedInputs
from glassformer.processors.tokens.elements import EncodedInput
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.objectives.examples import ExampleObjective
from glassformer.tasks.objectives.feed import ExampleFeed, WindowFeed
from glassformer.tasks.objectives.objective import Sample
from glassformer.tasks.predictors.chat import Chat
from glassformer.tasks.predictors.generate import Generate

SHOWN = 3


class ConversationFeed(ExampleFeed):
    """Conversations, packed; their targets are in them."""

    @property
    def window(self) -> int:
        """Tokens that are read of a conversation."""
        return self.processor.facts.window

    def check(self) -> None:
        """Raise DataError where no target of the conversations fits into the model."""
        data = self.objective.data
        for name in ("train", "validation"):
            if name in data and not len(data[name].owner):
                raise DataError(
                    f"no answer of the {name} conversations is within the {self.window} tokens "
                    "that the model reads; raise model.max_length"
                )

    def opening(self) -> list[str]:
        """See `Feed`: also what is predicted, and what is left out."""
        examples = self.objective.training.examples(range(len(self.objective.training.owner)))
        every = self.elements
        bearing = sum(len(one.at) for one in examples if one.at is not None)
        said = [
            *super().opening(),
            f"loss is on {bearing:,} of {every:,} tokens ({bearing / every:.1%})",
        ]
        return [*said, *(one for name in self.objective.data for one in self._left_out(name))]

    def _left_out(self, split: str) -> Iterator[str]:
        """Yield sentences on what of the conversations of a split is beyond the model."""
        inputs, limit = self.objective.data[split], f"{self.window} tokens"
        rest = f"{split} conversation"
        if cut := inputs.cut:
            yield (
                f"left out: the end of {amount(len(cut), rest)} of more than {limit} "
                f"({sum(cut):,} tokens); raise model.max_length to use them"
            )
        if whole := len(inputs.records) - len(inputs.owner):
            yield (
                f"left out: {amount(whole, rest)} of more than {limit} (no answer within them); "
                "raise model.max_length to use them"
            )

    def scored(self, split: str, of: Evaluation, longest: int) -> Iterator[Batch]:
        """Yield the packed rows of a split that an evaluation scores."""
        inputs = self.objective.split(split)
        groups = inputs.groups(longest)
        for number in spread(len(groups), of.limit):
            own = inputs.examples(groups[number])
            yield from (batch for _, batch in self.processor.batches(own))

    def n_bytes(self, split: str) -> int:
        """Return the number of UTF-8 bytes of the targets of a split."""
        inputs, decode = self.objective.split(split), self.processor.tokenizer.decode
        every = inputs.examples(range(len(inputs.owner)))
        return sum(len(decode(example.targets).encode()) for example in every)


FEEDS = {"documents": WindowFeed, "messages": ConversationFeed}


class NextToken(ExampleObjective):
    """The next token of running text, or of the assistant's messages in conversations."""

    @property
    def feeds(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `Objective`: as the inputs are stored."""
        return FEEDS[self.processor.name]

    @property
    def _runs(self) -> bool:
        """Whether it learns from running text."""
        return self.feeds is WindowFeed

    @classmethod
    def data_of(cls, recipe: Recipe, inputs: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """See `Objective`: conversations with their targets."""
        longest = recipe.train.length or recipe.model.max_length
        change = partial(_with_targets, longest=longest)
        return {
            name: of.with_targets(change) if isinstance(of, PackedInputs) else of
            for name, of in inputs.items()
        }

    def encode(self, given: Any) -> EncodedInput:
        """See `Objective`: up to the next token."""
        return self.processor.prompt(given)

    def measured(self) -> list[str]:
        """See `Objective`."""
        longest = self.recipe.model.max_length
        if self._runs:
            return [
                f"Each token is predicted from those before it in a window of at most {longest:,}."
            ]
        if self.recipe.data.loss_on == "all":
            return ["Loss, perplexity and bits per byte are of every token of a conversation."]
        return [
            "Loss, perplexity, accuracy and bits per byte are of the assistant's text and of the "
            "symbol that ends it, given all before; no other token is amount."
        ]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: of the targets alone."""
        batches = self.feed.scored(split, of, model.config.max_length)
        score = evaluate(model, batches, of.precision, of.processes)
        if not score.tokens:
            raise DataError(
                f"the {self.split(split).described} has no token to predict; use a longer one, or "
                "set data.validation.fraction=0"
            )
        return score.result(self.feed.n_bytes(split) if of.limit is None else None)

    def sampled(self, model: Transformer) -> Sample:
        """See `Objective`: `train.sample.prompt` continued, the same for the same weights; of
        conversations answers to the first questions."""
        if not self._runs:
            return super().sampled(model)
        train, tokenizer = self.recipe.train, self.processor.tokenizer
        prompt = train.sample.prompt
        if not len(tokenizer.encode(prompt)):  # as spaces are to a tokenizer of words
            prompt = tokenizer.decode([int(self.split("train").tokens[0])])
        chosen = {"max_new_tokens": train.sample.tokens, "temperature": 0.8, "seed": train.seed}
        how = GenerateConfig.parse({**chosen, "overflow": "window"})
        text = prompt + Generate(model, self.task).complete([prompt], how)[0]
        return Sample(text, {"sample": text})

    def rows(self, model: Transformer) -> tuple[list[dict[str, Any]], list[Any]]:
        """See `ExampleObjective`: the first questions, their answers and those of the model."""
        split = self.split(self.shown_split)
        asked = map(_question, (split.records[int(i)] for i in split.owner.tolist()))
        found = [*islice((one for one in asked if one[0]), SHOWN)]
        how = self.recipe.generate.model_copy(
            update={"max_new_tokens": self.recipe.train.sample.tokens, "seed": 0}
        )
        outputs = [Chat(model, self.task).complete([asked], how)[0] for asked, _ in found]
        rows = [
            {"source": asked[-1].content, "reference": answer, "output": output}
            for (asked, answer), output in zip(found, outputs, strict=True)
        ]
        return rows, [row["source"] for row in rows]

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Objective`: with the next tokens as targets."""
        return with_next_tokens(super().batch_to_check(model, text), model.config.max_length)

    @property
    def use(self) -> str:
        """See `Objective`."""
        chat = [f"glassformer chat {self.folder}"] * (self.processor.template is not None)
        text = [f'glassformer generate {self.folder} --prompt "..."'] * self._runs
        return "\n".join([*chat, *text])


def with_next_tokens(batch: Batch, longest: int) -> Batch:
    """Return a batch with the next tokens as targets; ConfigError: it has one token, or too many
    for a model."""
    if not 2 <= (n := batch.elements.shape[1]) <= longest:
        raise ConfigError(
            f"The text has {amount(n, 'token')}; between 2 and the context of {longest} are needed."
        )
    targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
    return replace(batch, targets=targets)


def _with_targets(window: Window, longest: int) -> Window | None:
    """Return the beginning of a conversation with its targets: the assistant's tokens, or all where
    none are marked; None: there is no target in it."""
    one = window.example
    ids = one.ids[: longest + 1]
    at = np.arange(len(ids) - 1) if one.said is None else np.flatnonzero(one.said[1 : len(ids)])
    if not len(at):
        return None
    example = Example(ids[:-1], targets=ids[at + 1].astype(np.int64), at=at)
    return Window(example, cut=len(one.ids) - len(ids))


def _question(record: Conversation) -> tuple[Messages, str]:
    """Return a conversation up to its first answer, and the answer; before a greeting, nothing."""
    place = next(i for i, one in enumerate(record.messages) if one.role == ASSISTANT)
    return record.messages[:place], record.messages[place].content
