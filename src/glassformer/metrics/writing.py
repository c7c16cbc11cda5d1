"""Scores of written text against references."""

from collections.abc import Sequence
from typing import Any

from glassformer.errors import ConfigError


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
