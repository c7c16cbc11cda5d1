"""Text generation: the next token of running text, or of the assistant's messages (Notes B, D, E).

ids       <|user|>  2 + 2 ?  <eos>  <|assistant|>  4      <eos>
targets                                            4      <eos>
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError, amount
from glassformer.data.example import Example
from glassformer.data.records.conversations import ASSISTANT, Conversation, Messages
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Window
from glassformer.processors.tokenized import PackedInputs
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from glassformer.tasks.objectives.examples import GeneratedTokens, Rows
from glassformer.tasks.objectives.feed import ExampleFeed, WindowFeed
from glassformer.tasks.objectives.objective import Sample
from glassformer.tasks.predictors.chat import Chat
from glassformer.tasks.predictors.generate import Generate

SHOWN = 3


class ConversationFeed(ExampleFeed):
    """Conversations, packed; their targets are in them."""

    def check(self) -> None:
        """Raise DataError where no target of the conversations fits into the model."""
        data = self.objective.data
        for name in ("train", "validation"):
            if name in data and not len(data[name].owner):
                raise DataError(
                    f"no answer of the {name} conversations is within the "
                    f"{self.processor.facts.window} tokens that the model reads; raise "
                    "model.max_length"
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
        inputs, limit = self.objective.data[split], f"{self.processor.facts.window} tokens"
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

    def collate_examples(self, examples: Sequence[Example]) -> Iterator[Batch]:
        """See `ExampleFeed`: packed."""
        return (batch for _, batch in self.processor.batches(examples))

    def n_bytes(self, split: str) -> int:
        """Return the number of UTF-8 bytes of the targets of a split."""
        inputs, decode = self.objective.split(split), self.processor.tokenizer.decode
        every = inputs.examples(range(len(inputs.owner)))
        return sum(len(decode(example.targets).encode()) for example in every)


class NextToken(GeneratedTokens):
    """The next token of running text, or of the assistant's messages in conversations."""

    has_next = True

    @property
    def _runs(self) -> bool:
        """Whether it learns from running text."""
        return self.processor.name == "documents"

    @property
    def feeds(self) -> Any:
        """See `Objective`: as the inputs are stored."""
        return WindowFeed if self._runs else ConversationFeed

    @classmethod
    def data_of(cls, recipe: Recipe, inputs: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """See `Objective`: conversations with their targets."""
        longest = recipe.train.length or recipe.model.max_length
        change = partial(_with_targets, longest=longest)
        return {
            name: of.with_targets(change) if isinstance(of, PackedInputs) else of
            for name, of in inputs.items()
        }

    def explain_scores(self) -> list[str]:
        """See `Objective`: by what is predicted."""
        longest = self.recipe.model.max_length
        if self._runs:
            return [
                f"Each token is predicted from those before it in a window of at most {longest:,}."
            ]
        if self.recipe.data.loss_on == "all":
            return ["Loss, perplexity and bits per byte are of every token of a conversation."]
        return [
            "Loss, perplexity, accuracy and bits per byte are of the assistant's text and of the "
            "symbol that ends it, given all before; no other token is counted."
        ]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: only of the targets."""
        score = self.score_targets(model, split, of)
        if not score.tokens:
            raise DataError(
                f"the {self.split(split).described} has no token to predict; use a longer one, or "
                "set data.validation.fraction=0"
            )
        return score.result(self.feed.n_bytes(split) if of.limit is None else None)

    def make_sample(self, model: Transformer) -> Sample:
        """See `Objective`: `train.sample.prompt` continued, the same for the same weights; of
        conversations answers to the first questions."""
        if not self._runs:
            return super().make_sample(model)
        train, tokenizer = self.recipe.train, self.processor.tokenizer
        prompt = train.sample.prompt
        if not len(tokenizer.encode(prompt)):  # as spaces are to a tokenizer of words
            prompt = tokenizer.decode([int(self.split("train").tokens[0])])
        chosen = {"max_new_tokens": train.sample.tokens, "temperature": 0.8, "seed": train.seed}
        how = GenerateConfig.parse({**chosen, "overflow": "window"})
        text = prompt + Generate(model, self.task).complete([prompt], how)[0]
        return Sample(text, {"sample": text})

    def rows(self, model: Transformer) -> Rows:
        """See `ExampleObjective`: the first questions, their answers and those of the model."""
        split = self.split(self.shown_split)
        asked = (_question(split.record(i)) for i in range(len(split.owner)))
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

    @property
    def use(self) -> str:
        """See `Objective`: a conversation, or a text."""
        chat = [f"glassformer chat {self.folder}"] * (self.processor.template is not None)
        text = [f'glassformer generate {self.folder} --prompt "..."'] * self._runs
        return "\n".join([*chat, *text])


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
