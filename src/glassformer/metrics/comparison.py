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


def compared(learned: Learned) -> dict[str, float]:
    """The score of each baseline by the metric of comparison, under its name in words."""
    scores = learned.get("scores", {})
    return {NAMES[name]: own[learned["metric"]] for name, own in scores.items()}


def is_better(learned: Learned, scores: Mapping[str, Any]) -> bool:
    """Whether a model's score is above that of every baseline."""
    return scores[learned["metric"]] > max(compared(learned).values())


def judged(learned: Learned, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The same with `better`: whether a model of these scores is better than every baseline."""
    missing = "missing" in learned
    return {**learned, **({} if missing else {"better": is_better(learned, scores)})}


def beside(learned: Learned, scores: Mapping[str, Any]) -> str:
    """A model's score and those of the baselines in a line."""
    form, metric = SCORES[learned["metric"]].form, learned["metric"]
    found = {"the model": scores[metric], **compared(learned)}
    told = ", ".join(f"{name} {value:{form}}" for name, value in found.items())
    return f"validation {SCORES[metric].text}: {told}. {verdict(learned, scores)}".rstrip()


def report(
    learned: dict[str, Any], scores: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, Any]:
    """Say a model's score beside those of the baselines, and return these with `better`; without
    any scores, say nothing."""
    if not (learned and scores):
        return learned
    say(beside(learned, scores))
    return judged(learned, scores)


def verdict(learned: Learned, scores: Mapping[str, Any]) -> str:
    """A sentence for a model that is not better than the best baseline, or on why there is none; ""
    for a better model."""
    if "missing" in learned:
        return f"There are no baselines: {learned['missing']}"
    if is_better(learned, scores):
        return ""
    found = compared(learned)
    best = max(found, key=found.__getitem__)
    return f"The model is not better than a simple baseline ({best})."
