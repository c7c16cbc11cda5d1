"""`glassformer evaluate`: scores of a model, of one of its checkpoints, or of all of them, beside
those of baselines."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import (
    AtStep,
    Device,
    Json,
    OptionalCount,
    Quantize,
    RunFolder,
    given,
    refuse,
)
from glassformer.cli.terminal import print_json
from glassformer.core.errors import CheckpointError, ConfigError, amount, one_line

if TYPE_CHECKING:
    from glassformer.run import Run
    from glassformer.run.checkpoints import CheckpointScores

MOST_ROWS = 30
"""Classes in a table; --json has them all."""
COLUMN = 14
"""Characters of a column of scores."""


def evaluate(
    run: RunFolder,
    data: str | None = None,
    split: str = "validation",
    targets: str | None = None,
    beams: OptionalCount = None,
    checkpoint: AtStep = None,
    all_checkpoints: bool = False,
    shots: Path | None = None,
    n_shots: int | None = None,
    template: str | None = None,
    seed: int | None = None,
    quantize: Quantize = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Score a model on a whole split.

    Loss, perplexity and bits per byte of text; BLEU, chrF and exact match of generated text;
    accuracy and F1 of classes and tags, in all and for each, beside simple baselines.

    data: Other data in the run's format, scored as a whole (file, folder, glob, -).
    split: Split of the run's own data: train, validation, test.
    targets: Targets of --data's sources, line by line.
    beams: Beam width for encoder-decoders; 1: greedy.
    all_checkpoints: Score every checkpoint as training did, beside what it reported.
    shots: Table of labelled texts, examples in prompts; the labels of --data are chosen.
    n_shots: Examples in a prompt, balanced over labels; default 5.
    template: Form of an example; default "Text: {text}\\nLabel: {label}".
    seed: Any examples, by this random seed; default: the first.
    """
    from glassformer.run import load

    asked = {"n_shots": n_shots, "template": template, "seed": seed}
    if shots is None:
        refuse(asked, "Without --shots no label is chosen")
    if all_checkpoints:
        own = {"data": data, "targets": targets, "beams": beams, "checkpoint": checkpoint}
        own |= {"quantize": quantize, "split": None if split == "validation" else split}
        refuse(own, "--all-checkpoints measures as training does")
        return _score_checkpoints(run, device, json)
    opened = load(run, device, checkpoint, quantize=quantize)
    if shots is not None:
        return _score_labels(opened, data, {"examples": shots, **given(asked)}, json)
    if beams is not None:
        opened.task.objective.check_search()
    scores = opened.evaluate(split, data, targets, **given({"beams": beams}))
    scores = given({"checkpoint": checkpoint}) | scores
    return print_json(scores) if json else _print(scores)


def _print(scores: dict[str, Any]) -> None:
    """Print the scores of a split or of other data."""
    step = f" at step {scores['checkpoint']:,}" if "checkpoint" in scores else ""
    of = scores["data"] or f"{scores['split']} split"
    noun = "examples" if "tokens" not in scores else "tokens"
    n, what = scores[noun], noun.replace("tokens", "predicted tokens")
    print(f"{scores['run']}{step}, {of}: {n:,} {what}")
    print_scores(scores)
    _print_table(scores.get("table", []))


def _score_labels(run: "Run", data: str | None, asked: dict[str, Any], as_json: bool) -> None:
    """Print the accuracy of labels that a language model chooses for a labelled table."""
    from glassformer.tasks.predictors.choose import examples_of

    if data is None:
        raise ConfigError("--shots chooses labels of other texts; name their table: --data FILE.")
    few = run.few_shot(**asked)
    scores: dict[str, Any] = {"run": str(run.folder), "data": data}
    scores |= few.evaluate(examples_of(data))
    if scores["shots"] < len(few.shots):
        sys.stderr.write(
            f"{scores['shots']} of {len(few.shots)} shots, since no more fit into the model beside "
            "the longest text\n"
        )
    if as_json:
        print_json(scores)
        return
    print(f"{run.folder}, {data}: {scores['examples']:,} examples, {scores['shots']} shots")
    print_scores(scores)


def _score_checkpoints(folder: Path, device: str, as_json: bool) -> None:
    """Print the scores of each checkpoint."""
    from glassformer.run import checkpoints, load

    run = load(folder, device)
    rows: list[CheckpointScores] = []

    for row in checkpoints.checkpoint_scores(run, lambda text: print(text, file=sys.stderr)):
        if not as_json:
            _print_checkpoint(row, first=not rows)
        rows.append(row)
    if run.recipe is None or not rows:
        raise CheckpointError(f"{folder} has no whole checkpoint; train it again.")
    metric = run.recipe.train.evaluate.best
    found = checkpoints.best(rows, metric)
    if as_json:
        about = [
            {"step": row.step, "mean": row.mean, "scores": row.scores, "reported": row.reported}
            for row in rows
        ]
        print_json({"checkpoints": about, "metric": metric, "best": found.step})
        return
    what = f"the mean at step {found.step:,}" if found.mean else f"step {found.step:,}"
    print(f"best by {metric.replace('_', ' ')}: {what}")


def _print_checkpoint(row: "CheckpointScores", first: bool) -> None:
    """Print a line of numbers, and of the loss that training reported."""
    scores = {name: value for name, value in row.scores.items() if isinstance(value, float)}
    scores["reported loss"] = row.reported.get("loss", float("nan"))
    if first:
        names = (f"{name.replace('_', ' '):>{COLUMN}}" for name in scores)
        print(f"{'step':>8}{''.join(names)}")
    numbers = (f"{value:{COLUMN}.4f}" for value in scores.values())
    print(f"{row.step:8,}{''.join(numbers)}{'  (mean)' if row.mean else ''}", flush=True)


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print scores by group of pairs, or by class, the most frequent classes first."""
    if not rows or "class" not in rows[0]:
        for row in rows:
            print(f"    {row['group']:12} {row['exact_match']:8.2%} of {row['n']:,}")
        return
    shown = sorted(rows, key=lambda row: -row["n"])[:MOST_ROWS]
    width = max(5, *(len(one_line(row["class"])) for row in shown))
    print(f"    {'class':{width}} precision   recall       f1        n")
    for row in shown:
        ratios = f"{row['precision']:9.4f} {row['recall']:8.4f} {row['f1']:8.4f}"
        print(f"    {one_line(row['class']):{width}} {ratios} {row['n']:8,}")
    if len(rows) > MOST_ROWS:
        print(f"    and {len(rows) - MOST_ROWS:,} more, with --json")


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
    more = f" and {amount(len(named) - MOST_NAMED, 'other')}" if len(named) > MOST_NAMED else ""
    print(
        f"  {'unseen':{WIDTH}} {sum(classes.values()):,} of classes that the model does not know: "
        f"{shown}{more}"
    )
