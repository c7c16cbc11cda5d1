"""Scores of a model on a whole split, batch by batch, and of what it writes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.collate import encoder_decoder
from glassformer.data.order import spread
from glassformer.data.pair_split import PairSplit
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


PAIR_TOKENS = 4096
"""Tokens on the longer side of a batch of pairs."""


def score_pairs(
    model: Transformer,
    split: PairSplit,
    bos: int,
    precision: torch.dtype = torch.float32,
    limit: int | None = None,
) -> dict[str, Any]:
    """Loss, perplexity and accuracy of a split's targets, each predicted from its source and the
    target before it.

    DataError: no pair fits into the model.
    """
    order = split.order(model.config.max_length, PAIR_TOKENS)
    steps = spread(order.batches, limit)
    batches = (encoder_decoder(split.examples(order.rows(step)), bos) for step in steps)
    return evaluate(model, batches, precision).result()


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
    members: dict[str, list[int]] = defaultdict(list)
    for i, group in enumerate(groups):
        if group is not None:
            members[group].append(i)
    rows = [
        {
            "group": group,
            "n": len(chosen),
            "exact_match": exact_match(
                [outputs[i] for i in chosen], [references[i] for i in chosen]
            ),
        }
        for group, chosen in sorted(members.items())
    ]
    return {"exact_match": exact_match(outputs, references)} | ({"table": rows} if rows else {})
