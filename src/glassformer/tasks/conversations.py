"""Text generation learned from conversations: the assistant's messages, given what comes before."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import DataError, amount
from glassformer.data.order import spread
from glassformer.data.records.conversations import ASSISTANT, Conversation, Messages
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.generative import GenerativeTask
from glassformer.tasks.predictors.chat import Chat, Reply
from glassformer.tasks.predictors.choose import Choose
from glassformer.tasks.predictors.score import Score
from glassformer.tasks.task import Card, Sample

SHOWN = 3


class Conversations(GenerativeTask):
    """The next message of the assistant; every prompt is a message of the user."""

    uses = (Chat, Reply, Score, Choose, *GenerativeTask.uses)
    verb = "chat"
    summary = "answers messages"

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Task`."""
        return recipe.with_vocabulary(processor.vocab_size)

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
        """See `RecordTask`: examples have them."""
        return [{}] * len(numbers)

    def opening(self) -> list[str]:
        """See `Task`: also what is predicted, and what is left out."""
        examples = self.training.examples(range(len(self.training.owner)))
        every = self.elements
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
                f"left out: the end of {amount(len(cut), rest)} of more than {limit} "
                f"({sum(cut):,} tokens); raise model.max_length to use them"
            )
        if whole := len(inputs.records) - len(inputs.owner):
            yield (
                f"left out: {amount(whole, rest)} of more than {limit} (no answer within them); "
                "raise model.max_length to use them"
            )

    def measured(self) -> list[str]:
        """See `Task`."""
        if self.processor.facts.predicts_all:
            return ["Loss, perplexity and bits per byte are of every token of a conversation."]
        return [
            "Loss, perplexity, accuracy and bits per byte are of the assistant's text and of the "
            "symbol that ends it, given all before; no other token is counted."
        ]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Task`: of the targets alone, in packed rows."""
        inputs = self.split(split)
        groups = inputs.groups(model.config.max_length)
        chosen = (inputs.examples(groups[i]) for i in spread(len(groups), of.limit))
        batches = (batch for own in chosen for _, batch in self.processor.batches(own))
        score = evaluate(model, batches, of.precision)
        decode, every = self.processor.tokenizer.decode, inputs.examples(range(len(inputs.owner)))
        n_bytes = sum(len(decode(example.targets).encode()) for example in every)
        return score.result(n_bytes if of.limit is None else None)

    def sampled(self, model: Transformer) -> Sample:
        """See `Task`: the first questions, their answers and those of the model."""
        split = self.split(self.shown_split)
        asked = map(_question, (split.records[int(i)] for i in split.owner.tolist()))
        found = [*islice((one for one in asked if one[0]), SHOWN)]
        how = self.recipe.generate.model_copy(
            update={"max_new_tokens": self.recipe.train.sample.tokens, "seed": 0}
        )
        outputs = [Chat(model, self).complete([asked], how)[0] for asked, _ in found]
        rows = [
            {"source": asked[-1].content, "reference": answer, "output": output}
            for (asked, answer), output in zip(found, outputs, strict=True)
        ]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        return Sample(text, {"samples": rows, "inputs": [row["source"] for row in rows]})

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Task`: with the next tokens as targets."""
        batch = super().batch_to_check(model, text)
        targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
        return replace(batch, targets=targets)

    def card(self) -> Card:
        """See `Task`."""
        return replace(
            super().card(),
            use=f"glassformer chat {self.folder}\nglassformer evaluate {self.folder}",
        )


def _question(record: Conversation) -> tuple[Messages, str]:
    """A conversation up to its first answer, and the answer; before a greeting is nothing."""
    place = next(i for i, one in enumerate(record.messages) if one.role == ASSISTANT)
    return record.messages[:place], record.messages[place].content
