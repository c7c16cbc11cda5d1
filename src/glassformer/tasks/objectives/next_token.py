"""Text generation: the next token of running text (Notes B, D, E)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError, DataError, counted
from glassformer.data.collate import evaluation_windows
from glassformer.data.order import spread
from glassformer.data.records.conversations import ASSISTANT, Conversation, Messages
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.tokens.elements import EncodedInput
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.objectives.examples import GeneratedTokens
from glassformer.tasks.objectives.feed import WindowFeed
from glassformer.tasks.objectives.objective import Card, Objective, Sample
from glassformer.tasks.predictors.chat import Chat
from glassformer.tasks.predictors.generate import Generate

SHOWN = 3


class WindowObjective(Objective):
    """Windows of running text; training predicts some of its tokens."""

    feeds = WindowFeed

    def check_size(self) -> None:
        """Raise DataError for less text than one training sequence needs."""
        _ = self.feed.order

    @property
    def validated(self) -> bool:
        """See `Objective`: at least one token must have another before it."""
        return "validation" in self.data and len(self.data["validation"].tokens) >= 2

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Objective`: with the next tokens as targets."""
        batch, most = super().batch_to_check(model, text), model.config.max_length
        if not 2 <= (n := batch.elements.shape[1]) <= most:
            raise ConfigError(
                f"The text has {counted(n, 'token')}; between 2 and the context of {most} are "
                "needed."
            )
        targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
        return replace(batch, targets=targets)

    def card(self) -> Card:
        """See `Objective`."""
        tokenizer, chats = self.processor.tokenizer, self.processor.template is not None
        return Card(
            f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens",
            f"{self.feed.sequences} x {self.feed.length} tokens",
            f"glassformer chat {self.folder}\n"
            * chats
            + f'glassformer generate {self.folder} --prompt "..."\n'
            f"glassformer evaluate {self.folder}",
        )


class NextToken(WindowObjective):
    """The next token of running text."""

    def encode(self, given: Any) -> EncodedInput:
        """See `Objective`: up to the next token."""
        return self.processor.prompt(given)

    def measured(self) -> list[str]:
        """See `Objective`."""
        longest = self.recipe.model.max_length
        return [f"Each token is predicted from those before it in a window of at most {longest:,}."]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`."""
        tokens, length = self.split(split), model.config.max_length
        rows = of.rows or max(1, 4096 // length)
        batches = evaluation_windows(tokens, rows, length, of.limit)
        score = evaluate(model, batches, of.precision, of.processes)
        if not score.tokens:
            raise DataError(
                f"the {tokens.described} has no token to predict; use a longer one, or set "
                "data.validation.fraction=0"
            )
        return score.result(tokens.n_bytes if of.limit is None else None)

    def sampled(self, model: Transformer) -> Sample:
        """See `Objective`: `train.sample.prompt` continued, the same for the same weights."""
        train, tokenizer = self.recipe.train, self.processor.tokenizer
        prompt = train.sample.prompt
        if not len(tokenizer.encode(prompt)):  # as spaces are to a tokenizer of words
            prompt = tokenizer.decode([int(self.split("train").tokens[0])])
        chosen = {"max_new_tokens": train.sample.tokens, "temperature": 0.8, "seed": train.seed}
        how = GenerateConfig.parse({**chosen, "overflow": "window"})
        text = prompt + Generate(model, self.task).complete([prompt], how)[0]
        return Sample(text, {"sample": text})


class AnswerTokens(GeneratedTokens):
    """The next message of the assistant; every prompt is a message of the user."""

    def check_size(self) -> None:
        """Raise DataError where no target of the training conversations fits into the model."""
        for name in ("train", "validation"):
            if name in self.data and not len(self.data[name].owner):
                raise DataError(
                    f"no answer of the {name} conversations is within the {self.window} tokens "
                    "that the model reads; raise model.max_length"
                )

    @property
    def window(self) -> int:
        """Tokens that are read of a conversation."""
        return self.processor.facts.window

    def targets_of(self, inputs: Inputs, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """See `ExampleObjective`: examples have them."""
        return [{}] * len(numbers)

    def opening(self) -> list[str]:
        """See `Objective`: also what is predicted, and what is left out."""
        examples = self.training.examples(range(len(self.training.owner)))
        every = self.feed.elements
        bearing = sum(len(one.at) for one in examples if one.at is not None)
        said = [
            *super().opening(),
            f"loss is on {bearing:,} of {every:,} tokens ({bearing / every:.1%})",
        ]
        return [*said, *(one for name in self.data for one in self._left_out(name))]

    def _left_out(self, split: str) -> Iterator[str]:
        """Yield sentences on what of the conversations of a split is beyond the model."""
        inputs, limit = self.data[split], f"{self.window} tokens"
        rest = f"{split} conversation"
        if cut := inputs.cut:
            yield (
                f"left out: the end of {counted(len(cut), rest)} of more than {limit} "
                f"({sum(cut):,} tokens); raise model.max_length to use them"
            )
        if whole := len(inputs.records) - len(inputs.owner):
            yield (
                f"left out: {counted(whole, rest)} of more than {limit} (no answer within them); "
                "raise model.max_length to use them"
            )

    def measured(self) -> list[str]:
        """See `Objective`."""
        if self.processor.facts.predicts_all:
            return ["Loss, perplexity and bits per byte are of every token of a conversation."]
        return [
            "Loss, perplexity, accuracy and bits per byte are of the assistant's text and of the "
            "symbol that ends it, given all before; no other token is counted."
        ]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: of the targets alone, in packed rows."""
        inputs = self.split(split)
        groups = inputs.groups(model.config.max_length)
        chosen = (inputs.examples(groups[i]) for i in spread(len(groups), of.limit))
        batches = (batch for own in chosen for _, batch in self.processor.batches(own))
        score = evaluate(model, batches, of.precision)
        decode, every = self.processor.tokenizer.decode, inputs.examples(range(len(inputs.owner)))
        n_bytes = sum(len(decode(example.targets).encode()) for example in every)
        return score.result(n_bytes if of.limit is None else None)

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
        batch = super().batch_to_check(model, text)
        targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
        return replace(batch, targets=targets)

    def card(self) -> Card:
        """See `Objective`."""
        return replace(
            super().card(),
            use=f"glassformer chat {self.folder}\nglassformer evaluate {self.folder}",
        )


def _question(record: Conversation) -> tuple[Messages, str]:
    """A conversation up to its first answer, and the answer; before a greeting is nothing."""
    place = next(i for i, one in enumerate(record.messages) if one.role == ASSISTANT)
    return record.messages[:place], record.messages[place].content
