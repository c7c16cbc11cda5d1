"""The scores of all tasks: names, units, directions, formats, and comparison with baselines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
Learned = Mapping[str, Any]
"""The scores of baselines (`scores`: by baseline, then by metric), the `metric` of comparison, or
why there are none (`missing`)."""

NAMES = {
    "majority_class": "majority class",
    "naive_bayes": "naive Bayes",
    "most_frequent_tag": "most frequent tag",
}
"""The baselines in words."""


def by_name(learned: Learned) -> dict[str, float]:
    """The score of each baseline by the metric of comparison, under its name in words."""
    scores = learned.get("scores", {})
    return {NAMES[name]: own[learned["metric"]] for name, own in scores.items()}


def verdict(learned: Learned, scores: Mapping[str, Any]) -> str:
    """A sentence for a model that is not better than the best baseline, or on why there is none; ""
    for a better model."""
    if "missing" in learned:
        return f"There are no baselines: {learned['missing']}"
    found = by_name(learned)
    sign = 1 if SCORES[learned["metric"]].higher_is_better else -1
    best = max(found, key=lambda name: sign * found[name])
    better = sign * scores[learned["metric"]] > sign * found[best]
    return "" if better else f"The model is not better than a simple baseline ({best})."


def judge(learned: Learned, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Add `better` to baselines: whether a model of these scores is better than each."""
    if "missing" in learned:
        return dict(learned)
    return {**learned, "better": not verdict(learned, scores)}


def report(
    learned: dict[str, Any], scores: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, Any]:
    """Say a model's score beside those of the baselines, and return these with `better`; without
    any scores, say nothing."""
    if not (learned and scores):
        return learned
    metric = SCORES[learned["metric"]]
    found = {"the model": scores[learned["metric"]], **by_name(learned)}
    values = ", ".join(f"{name} {value:{metric.form}}" for name, value in found.items())
    say(f"validation {metric.text}: {values}. {verdict(learned, scores)}".rstrip())
    return judge(learned, scores)
