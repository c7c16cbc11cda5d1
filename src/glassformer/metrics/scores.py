"""The scores of all tasks: which direction is better, and how they are printed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """Direction and format of a score."""

    form: str
    """Python's format of a value."""
    higher_is_better: bool = True
    curve: bool = False
    """Whether a report has a curve of it."""
    logged: bool = False
    """Whether training logs it behind the loss."""


RATIO = Score(".2%")
SCORES = {
    "loss": Score(".4f", higher_is_better=False),
    "perplexity": Score(".2f", higher_is_better=False),
    "bits_per_byte": Score(".4f", higher_is_better=False),
    "accuracy": Score(".2%", curve=True, logged=True),
    "precision": RATIO,
    "recall": RATIO,
    "f1": Score(".2%", curve=True, logged=True),
    "micro_f1": RATIO,
    "macro_f1": Score(".2%", curve=True),
    "ece": Score(".2%", higher_is_better=False),
    "exact_match": Score(".2%", curve=True, logged=True),
    "bleu": Score(".2f", curve=True, logged=True),
    "chrf": Score(".2f", curve=True, logged=True),
    "bits_per_pixel": Score(".4f", higher_is_better=False),
}
"""In the order of reports; `loss` is in nats per target, `bleu` and `chrf` from 0 to 100."""
