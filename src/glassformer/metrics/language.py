"""Scores of predicted tokens, gathered batch by batch without keeping logits."""

import math
from dataclasses import dataclass


@dataclass
class LanguageModelScore:
    """Loss (nats per target), perplexity, accuracy, and bits per byte of the targets' text."""

    nats: float = 0.0
    tokens: int = 0
    correct: int = 0

    def add(self, nats: float, tokens: int, correct: int) -> None:
        """Count a batch: the summed loss, the number of targets, and how many of them were the
        likeliest token."""
        self.nats += nats
        self.tokens += tokens
        self.correct += correct

    def result(self, n_bytes: int | None = None) -> dict[str, float]:
        """`loss`, `perplexity` = e^loss (at most e^700), `accuracy`, `tokens`, and from the bytes,
        `bits_per_byte`."""
        loss = self.nats / self.tokens if self.tokens else math.nan
        scores = {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "accuracy": self.correct / self.tokens if self.tokens else math.nan,
            "tokens": self.tokens,
        }
        if n_bytes:
            scores["bits_per_byte"] = self.nats / math.log(2) / n_bytes
        return scores
