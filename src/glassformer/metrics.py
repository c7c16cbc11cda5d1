"""Scores that are gathered batch by batch: counters only, never a whole set of logits in memory.

Knows: sums and counts. Does not know: models.
"""

import math
from dataclasses import dataclass


@dataclass
class LanguageModelScore:
    """Loss (nats per target token), perplexity, and bits per byte of the text that the targets stand for."""

    nats: float = 0.0
    tokens: int = 0

    def add(self, nats: float, tokens: int) -> None:
        """Count a batch: the summed loss and the number of targets."""
        self.nats += nats
        self.tokens += tokens

    def result(self, n_bytes: int | None = None) -> dict[str, float]:
        """`loss`, `perplexity` = e^loss (at most e^700), `tokens`, and with the number of bytes, `bits_per_byte`."""
        loss = self.nats / self.tokens if self.tokens else math.nan
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "tokens": self.tokens}
        if n_bytes:
            scores["bits_per_byte"] = self.nats / math.log(2) / n_bytes
        return scores
