"""Language modelling: running text to windows whose targets are the next tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.collate import evaluation_windows, micro_batches, windows
from glassformer.data.split import texts_for_tokenizer
from glassformer.data.store import Store
from glassformer.data.tokens import TokenSplit, store_tokens, tokens_of, training_order
from glassformer.errors import DataError
from glassformer.losses import LossSum, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.sample import sample
from glassformer.tasks.task import Card, Sample, fingerprint
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer


class LanguageTask:
    """The next token of running text."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run has its tokenizer; otherwise it is made from the training text."""
        self._run = run
        self.tokenizer = (
            Tokenizer.load(run / "tokenizer.json")
            if begun
            else train_tokenizer(recipe.tokenizer, self.training_texts(recipe))
        )
        self.recipe = recipe.with_vocabulary(self.tokenizer.vocab_size)
        train, self.length = (
            self.recipe.train,
            self.recipe.train.length or self.recipe.model.max_length,
        )
        tokens, parts = train.batch_tokens, train.micro_batches
        self.rows = (
            train.batch_size if tokens is None else max(1, tokens // self.length // parts) * parts
        )
        """Sequences in a step."""
        self._stored: Store | None = None

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """What the tokenizer is made from."""
        return texts_for_tokenizer(recipe.data)

    def store(self) -> None:
        """See `Task`. DataError: less text than one training sequence needs."""
        self.tokenizer.save(self._run / "tokenizer.json")
        self._stored = store_tokens(self._run / "tokens", self.tokenizer, self.recipe.data)
        have = len(self.split("train").tokens)
        if have < self.length + 1:
            raise DataError(
                f"The training text has {have} tokens and a training sequence needs "
                f"{self.length + 1}; "
                "use a longer text or a smaller model.max_length."
            )

    def split(self, name: str) -> TokenSplit:
        """The tokens of a split."""
        assert self._stored is not None, "store comes first"
        return tokens_of(self._stored, name, self.recipe.data.documents)

    @property
    def elements(self) -> int:
        """See `Task`."""
        return len(self.split("train").tokens)

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        assert self._stored is not None, "store comes first"
        counts = self._stored.counts
        return fingerprint(counts, (self.split(name).tokens for name in sorted(counts)))

    @property
    def validated(self) -> bool:
        """See `Task`: one token cannot be predicted from another where there is only one."""
        assert self._stored is not None, "store comes first"
        return self._stored.counts.get("validation", {"tokens": 0})["tokens"] >= 2

    def opening(self) -> list[str]:
        """See `Task`."""
        tokens, steps = len(self.split("train").tokens), self.recipe.train.steps
        per_step = self.rows * self.length
        return [
            f"tokenizer: {self.tokenizer.kind}, {self.tokenizer.vocab_size:,} tokens",
            f"{tokens:,} training tokens, {per_step:,} per step, {steps:,} steps = "
            f"{steps * per_step / max(1, tokens):.1f} epochs",
        ]

    def batches(self, step: int) -> list[Batch]:
        """See `Task`."""
        train, split = self.recipe.train, self.split("train")
        starts = training_order(split, self.length, self.rows, train.seed).rows(step)
        parts = micro_batches(starts, train.micro_batches)
        return [windows(split, part, self.length) for part in parts]

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`. DataError: validation text in which nothing can be predicted."""
        if not self.validated:
            return None
        split = self.split("validation")
        limit = self.recipe.train.evaluate_batches
        score = evaluate(
            model,
            evaluation_windows(split, self.rows, self.recipe.model.max_length, limit),
            precision,
        )
        if not score.tokens:
            raise DataError(
                "The validation text has no token to predict; use a longer one or "
                "validation_fraction=0."
            )
        return score.result(split.n_bytes if limit is None else None)

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`."""
        if not self.recipe.train.sample_tokens:
            return None
        text = sample(model, self.tokenizer, self.recipe.train, int(self.split("train").tokens[0]))
        return Sample(text, {"sample": text})

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.decode(batch.elements[0, :24].tolist())

    def card(self) -> Card:
        """See `Task`."""
        return Card(
            "text-generation",
            f"{self.tokenizer.kind}, {self.tokenizer.vocab_size:,} tokens",
            f"{self.rows} x {self.length} tokens",
            f'glassformer generate {self._run} --prompt "..."\nglassformer evaluate {self._run}',
        )
