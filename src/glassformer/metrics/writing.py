"""Scores of text: of predicted tokens, gathered batch by batch without keeping logits, and of
written text against references."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.core.errors import ConfigError


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
        count = self.tokens or math.nan
        scores = {
            "loss": (loss := self.nats / count),
            "perplexity": math.exp(min(loss, 700.0)),
            "accuracy": self.correct / count,
            "tokens": self.tokens,
        }
        if n_bytes:
            scores["bits_per_byte"] = self.nats / math.log(2) / n_bytes
        return scores


def exact_match(outputs: Sequence[str], references: Sequence[str]) -> float:
    """The share of outputs that are their reference, character by character, in [0, 1]."""
    return sum(map(str.__eq__, outputs, references)) / max(1, len(references))


def translation_scores(outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Corpus `bleu` and `chrf` in [0, 100] with their signatures, by sacreBLEU: cased, 13a,
    detokenized (Post 2018).

    ConfigError: sacreBLEU is not installed.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ConfigError(
            "BLEU and chrF need sacreBLEU; run pip install 'glassformer[eval]'."
        ) from None
    scores: dict[str, Any] = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        scores[name] = metric.corpus_score(list(outputs), [list(references)]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores
