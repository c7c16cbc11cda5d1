"""Text generation: the next token of running text (Notes B, D, E)."""

from dataclasses import replace
from typing import Any

import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError, DataError, counted
from glassformer.data.collate import evaluation_windows
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.elements import token_names
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.objectives.feed import WindowFeed
from glassformer.tasks.objectives.objective import Card, Objective, Sample
from glassformer.tasks.predictors.generate import Generate


class WindowObjective(Objective):
    """Windows of running text; training predicts some of its tokens."""

    feeds = WindowFeed

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`."""
        return recipe.with_vocabulary(processor.vocab_size)

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

    def outcomes(self) -> tuple[str, ...]:
        """See `Objective`."""
        return token_names(self.processor.tokenizer, self.recipe.model.vocab_size)


class NextToken(WindowObjective):
    """The next token of running text."""

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
