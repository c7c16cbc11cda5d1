"""Scores on the terminal, beside those of baselines."""

from typing import Any

from glassformer.core.errors import counted, one_line

MOST_NAMED = 10
"""Unseen classes that are named; --json has them all."""
WIDTH = 14
"""Letters of the name of a score."""


def print_scores(scores: dict[str, Any]) -> None:
    """Print scores of an evaluation, of its baselines, and the classes that no model could give."""
    for name, value in scores.items():
        if isinstance(value, float):
            signature = scores.get(f"{name}_signature", "")
            print(f"  {name.replace('_', ' '):{WIDTH}} {value:.4f}  {signature}".rstrip())
    if "spans" in scores:
        print(f"  {'spans':{WIDTH}} {scores['spans']:,}")
    if "baselines" in scores:
        _baselines(scores["baselines"], scores)
    _unseen(scores.get("unseen_classes", {}))


def _baselines(learned: dict[str, Any], scores: dict[str, Any]) -> None:
    """Print the scores of baselines on the same data, and whether the model is not better."""
    from glassformer.metrics.scores import by_name, verdict

    for name, value in by_name(learned).items():
        print(f"  {name:{WIDTH}} {value:.4f}  (baseline, {learned['metric'].replace('_', ' ')})")
    if said := verdict(learned, scores):
        print(f"  {said}")


def _unseen(classes: dict[str, int]) -> None:
    """Print the number of classes that the model cannot give, the most frequent of them by name."""
    if not classes:
        return
    named = sorted(classes.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{one_line(name)} ({count:,})" for name, count in named[:MOST_NAMED])
    more = f" and {counted(len(named) - MOST_NAMED, 'other')}" if len(named) > MOST_NAMED else ""
    print(
        f"  {'unseen':{WIDTH}} {sum(classes.values()):,} of classes that the model does not know: "
        f"{shown}{more}"
    )
