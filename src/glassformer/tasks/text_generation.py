"""Text generation: the next token of running text (Notes B, D, E)."""

import hashlib
import json
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.data.collate import Share, evaluation_windows, micro_batches, windows
from glassformer.data.order import WindowOrder
from glassformer.data.tokens import training_order
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.elements import token_names
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.predictors.chat import Chat
from glassformer.tasks.predictors.choose import Choose
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.predictors.generate import Generate
from glassformer.tasks.predictors.score import Score
from glassformer.tasks.task import Card, Sample, Task

READ_WHOLE = 1 << 20
"""Tokens up to which all of a split are hashed."""


class RunningText(Task):
    """Windows of running text; training predicts some of its tokens."""

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Task`."""
        return recipe.with_vocabulary(processor.vocab_size)

    def check_size(self) -> None:
        """Raise DataError for less text than one training sequence needs."""
        _ = self.order

    @property
    def length(self) -> int:
        """See `Task`."""
        return self.recipe.train.length or self.recipe.model.max_length

    @property
    def sequences(self) -> int:
        """See `Task`."""
        train = self.recipe.train
        if train.batch_tokens is None:
            return train.batch_size
        parts = train.micro_batches
        return max(1, train.batch_tokens // self.length // parts) * parts

    @property
    def elements(self) -> int:
        """See `Task`."""
        return len(self.split("train").tokens)

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        counts = {name: len(self.data[name].tokens) for name in sorted(self.data)}
        seen = hashlib.sha256(json.dumps(counts).encode())
        for name in counts:
            tokens = self.data[name].tokens
            seen.update(tokens[:: len(tokens) // READ_WHOLE + 1].tobytes())
        return seen.hexdigest()[:16]

    @property
    def validated(self) -> bool:
        """See `Task`: at least one token must have another before it."""
        return "validation" in self.data and len(self.data["validation"].tokens) >= 2

    def opening(self) -> list[str]:
        """See `Task`."""
        tokens, steps = len(self.split("train").tokens), self.recipe.train.steps
        per_step = self.sequences * self.length
        return [
            *self.processor.description(),
            f"{tokens:,} training tokens, {per_step:,} per step, {steps:,} steps = "
            f"{steps * per_step / max(1, tokens):.1f} epochs",
        ]

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """See `Task`."""
        rows, parts = self.order.rows(step), self.recipe.train.micro_batches
        pieces = micro_batches(rows, parts, rank, count)
        batches = [windows(self.split("train"), own, self.length) for own in pieces.rows]
        return Share(batches, pieces.first, pieces.idle)

    @cached_property
    def order(self) -> WindowOrder:
        """Where the windows of each step begin."""
        seed = self.recipe.train.seed
        return training_order(self.split("train"), self.length, self.sequences, seed)

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """See `Task`: with the next tokens as targets."""
        batch, most = super().batch_to_check(model, text), model.config.max_length
        if not 2 <= (n := batch.elements.shape[1]) <= most:
            raise ConfigError(
                f"The text has {amount(n, 'token')}; between 2 and the context of {most} are "
                "needed."
            )
        targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
        return replace(batch, targets=targets)

    def card(self) -> Card:
        """See `Task`."""
        tokenizer, chats = self.processor.tokenizer, self.processor.template is not None
        return Card(
            f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens",
            f"{self.sequences} x {self.length} tokens",
            f"glassformer chat {self.folder}\n"
            * chats
            + f'glassformer generate {self.folder} --prompt "..."\n'
            f"glassformer evaluate {self.folder}",
        )

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return token_names(self.processor.tokenizer, self.recipe.model.vocab_size)


class TextGeneration(RunningText):
    """The next token of running text."""

    uses = (Generate, Chat, Score, Choose, Embed)
    verb = "generate"
    capabilities, outcome_kind = ("generates",), "tokens"
    summary = "continues a text"

    def measured(self) -> list[str]:
        """See `Task`."""
        longest = self.recipe.model.max_length
        return [f"Each token is predicted from those before it in a window of at most {longest:,}."]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Task`."""
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
        """See `Task`: `train.sample.prompt` continued, the same for the same weights."""
        train, tokenizer = self.recipe.train, self.processor.tokenizer
        prompt = train.sample.prompt
        if not len(tokenizer.encode(prompt)):  # as spaces are to a tokenizer of words
            prompt = tokenizer.decode([int(self.split("train").tokens[0])])
        chosen = {"max_new_tokens": train.sample.tokens, "temperature": 0.8, "seed": train.seed}
        how = GenerateConfig.parse({**chosen, "overflow": "window"})
        text = prompt + Generate(model, self).complete([prompt], how)[0]
        return Sample(text, {"sample": text})
