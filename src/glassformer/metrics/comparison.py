"""The score of a model beside those of baselines, and a plain sentence where it is not better."""

from collections.abc import Callable, Mapping
from typing import Any

from glassformer.metrics.scores import SCORES

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
    best = max(found, key=found.__getitem__)
    better = scores[learned["metric"]] > found[best]
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
