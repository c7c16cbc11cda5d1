"""What is written of rows of parts: answers, captions, transcripts; by a decoder, or for an
encoder's source."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.data.parts import Mixed
from glassformer.errors import DataError
from glassformer.generate.answer import answer
from glassformer.generate.config import GenerateConfig
from glassformer.losses import LossSum, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.tasks.evaluate import evaluate, matches
from glassformer.tasks.multimodal import ROWS, SHOWN, MixtureTask, shown
from glassformer.tasks.task import Card, Sample


class AnswerTask(MixtureTask):
    """A text for each row; loss is on its tokens alone."""

    def _said(self, row: Mixed, parts: Sequence[tuple[str, str | np.ndarray]]) -> Example:
        if row.target is None:
            raise DataError(
                f"{row.where} has no target to be written; set data.target, or model.head=classify"
            )
        return self.tokenizer.example(parts, answer=row.target)

    @property
    def _bundling(self) -> bool:
        return not self._crossed

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`: loss and accuracy of the tokens of the given answers, then what greedy
        decoding answers."""
        if not self.validated:
            return None
        train = self.recipe.train
        return self.split_scores(
            model, "validation", precision, train.evaluate_batches, train.decode_lines
        )

    def split_scores(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        limit: int | None = None,
        lines: int | None = None,
        how: GenerateConfig | None = None,
    ) -> dict[str, Any]:
        """Scores of a split: of `limit` batches, and of the answers to `lines` rows, spread evenly;
        None: all."""
        scores = evaluate(
            model, (batch for _, batch in self.plain_batches(split, limit)), precision
        ).result()
        numbers = self.readable(split)
        if lines is not None and lines < len(numbers):
            numbers = [numbers[i * len(numbers) // lines] for i in range(lines)]
        if not numbers:
            return scores
        found = self.answers(model, split, numbers, how)
        rows = self.rows(split, numbers)
        return scores | matches(
            found, [row.target or "" for row in rows], [row.group for row in rows]
        )

    def answers(
        self,
        model: Transformer,
        split: str,
        numbers: Sequence[int],
        how: GenerateConfig | None = None,
    ) -> list[str]:
        """What the model answers to rows of a split, in their order; greedy unless it is said
        how."""
        found: list[str] = []
        for begin in range(0, len(numbers), 4 * ROWS):
            examples = self.sequences(split, numbers[begin : begin + 4 * ROWS])
            found += [
                one.text for one in answer(model, self.tokenizer, examples, how or self._greedy)
            ]
        return found

    @property
    def _greedy(self) -> GenerateConfig:
        """Greedy answers are quick and rank models as a search would."""
        of = self.recipe.generate
        return GenerateConfig.parse(
            {"max_new_tokens": of.max_new_tokens, "stop": of.stop, "temperature": 0}
        )

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation rows (else training rows), what is right and what was
        found."""
        if not self.recipe.train.sample_tokens:
            return None
        split = "validation" if self.validated else "train"
        numbers = self.readable(split)[:SHOWN]
        rows = [
            {"source": shown(row), "reference": row.target or "", "output": output}
            for row, output in zip(
                self.rows(split, numbers), self.answers(model, split, numbers), strict=True
            )
        ]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        return Sample(text, {"samples": rows})

    def card(self) -> Card:
        """See `Task`."""
        kinds = [kind for kind in ("image", "audio") if kind in self.files]
        given = " ".join(f"--{kind} FILE" for kind in kinds)
        use = f"glassformer generate {self._run} {given} --prompt TEXT".replace("  ", " ")
        return self.card_of(f"{'-'.join(kinds)}-text-to-text".lstrip("-"), use)
