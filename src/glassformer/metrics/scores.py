"""The scores of all tasks: names, units, which direction is better, and how they are printed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """Name, formats and direction of a score."""

    text: str
    form: str
    """Python's format of a value in a line."""
    table: str = ".4f"
    """The same in a table."""
    unit: str = ""
    higher_is_better: bool = True
    curve: bool = False
    """Whether a report has a curve of it."""
    logged: bool = False
    """Whether training logs it after the loss."""


SCORES = {
    "loss": Score("loss", ".4f", unit="nats per target", higher_is_better=False),
    "perplexity": Score("perplexity", ".2f", ",.3f", higher_is_better=False),
    "bits_per_byte": Score("bits per byte", ".4f", higher_is_better=False),
    "accuracy": Score("accuracy", ".2%", curve=True, logged=True),
    "precision": Score("precision", ".2%"),
    "recall": Score("recall", ".2%"),
    "f1": Score("F1", ".2%", curve=True, logged=True),
    "micro_f1": Score("micro F1", ".2%"),
    "macro_f1": Score("macro F1", ".2%", curve=True),
    "ece": Score("ECE", ".2%", higher_is_better=False),
    "exact_match": Score("exact match", ".2%", curve=True, logged=True),
    "bleu": Score("BLEU", ".2f", ".2f", curve=True, logged=True),
    "chrf": Score("chrF", ".2f", ".2f", curve=True, logged=True),
    "bits_per_pixel": Score("bits per pixel", ".4f", higher_is_better=False),
}
"""In the order of reports; `bleu` and `chrf` go from 0 to 100."""
