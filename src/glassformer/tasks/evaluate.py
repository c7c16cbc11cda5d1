"""Scores of a model on batches, and of generated text."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from glassformer.core.batch import Batch
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.errors import ConfigError
from glassformer.data.order import spread
from glassformer.layers.losses import cross_entropy
from glassformer.metrics.writing import LanguageModelScore, exact_match, translation_scores
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.config import GenerateConfig

T = TypeVar("T")
TOGETHER = 128
"""Inputs of which a process computes the predictions at a time."""


@dataclass(frozen=True)
class Evaluation:
    """How much of a split is scored, and how."""

    precision: torch.dtype = torch.float32
    how: GenerateConfig | None = None
    """How text is generated; None: greedily."""
    limit: int | None = None
    """Batches, spread evenly; None: all."""
    lines: int | None = None
    """Inputs that text is generated for, spread evenly; None: all."""
    rows: int | None = None
    """Rows of a batch; None: windows of running text of about 4096 tokens, else one."""
    processes: Processes = ALONE
    """Those that compute it together; the result does not depend on their number."""

    def records(self, n: int) -> list[int]:
        """Numbers of the records that are scored, of `n`."""
        return spread(n, None if self.limit is None else self.limit * (self.rows or 1))


EVERYTHING = Evaluation()


def blocks(items: Sequence[T]) -> list[Sequence[T]]:
    """Items in blocks of `TOGETHER`, the same for any number of processes."""
    return [items[begin : begin + TOGETHER] for begin in range(0, len(items), TOGETHER)]


def evaluate(
    model: Transformer,
    batches: Iterable[Batch],
    precision: torch.dtype = torch.float32,
    processes: Processes = ALONE,
) -> LanguageModelScore:
    """The loss of `model` over all targets of `batches`, each computed by one of the processes; no
    logits are kept."""
    score, device = LanguageModelScore(), next(model.parameters()).device

    def of_batch(batch: Batch) -> tuple[float, int, int]:
        assert batch.targets is not None
        with torch.autocast(device.type, precision, enabled=precision != torch.float32):
            logits = model(batch.to(device)).logits
        targets = batch.targets.to(device)
        loss = cross_entropy(logits, targets)
        return loss.total.item(), loss.count, int((logits.argmax(-1) == targets).sum())

    with evaluating(model):
        for counted in processes.spread(batches, of_batch):
            score.add(*counted)
    return score


def translations(outputs: Sequence[str], references: Sequence[str], best: str) -> dict[str, Any]:
    """Return `bleu` and `chrf` with their signatures; {} without sacreBLEU.

    ConfigError: it is missing, and `best` is one of its scores.
    """
    try:
        return translation_scores(outputs, references)
    except ConfigError:
        if best in ("bleu", "chrf"):
            raise
        return {}


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
