"""Scores of a model on batches, and of generated text."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.losses import cross_entropy
from glassformer.metrics.language import LanguageModelScore
from glassformer.metrics.writing import exact_match, translation_scores
from glassformer.models.transformer import Transformer, evaluating


def evaluate(
    model: Transformer, batches: Iterable[Batch], precision: torch.dtype = torch.float32
) -> LanguageModelScore:
    """The loss of `model` over all targets of `batches`; no logits are kept."""
    score, device = LanguageModelScore(), next(model.parameters()).device
    with evaluating(model):
        for batch in batches:
            assert batch.targets is not None
            with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                logits = model(batch.to(device)).logits
            targets = batch.targets.to(device)
            loss = cross_entropy(logits, targets)
            score.add(loss.total.item(), loss.count, int((logits.argmax(-1) == targets).sum()))
    return score


def score_outputs(
    outputs: Sequence[str],
    references: Sequence[str],
    groups: Sequence[str | None] = (),
    best: str = "",
) -> dict[str, Any]:
    """`exact_match`, and `bleu` and `chrf` with their signatures; `table` has a row for each group,
    if there are any.

    Without sacreBLEU there is only exact match, and a ConfigError if `best` is one of its scores.
    """
    try:
        scores = translation_scores(outputs, references)
    except ConfigError:
        if best in ("bleu", "chrf"):
            raise
        scores = {}
    return matches(outputs, references, groups) | scores


def matches(
    outputs: Sequence[str], references: Sequence[str], groups: Sequence[str | None] = ()
) -> dict[str, Any]:
    """`exact_match`; `table` has a row for each group, if there are any."""
    members = defaultdict[str, list[tuple[str, str]]](list)
    for group, output, reference in zip(groups, outputs, references, strict=False):
        if group is not None:
            members[group].append((output, reference))
    rows = [
        {"group": group, "n": len(own), "exact_match": exact_match(*zip(*own, strict=True))}
        for group, own in sorted(members.items())
    ]
    return {"exact_match": exact_match(outputs, references)} | ({"table": rows} if rows else {})
