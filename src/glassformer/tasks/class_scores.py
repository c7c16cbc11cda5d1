"""How good a model's classes are, of texts, pictures or recordings: one table of scores for all of
them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from glassformer.metrics.classes import ClassScore, MultiLabelScore
from glassformer.metrics.worst import Worst
from glassformer.models.transformer import Transformer
from glassformer.tasks.classes import LARGEST_TABLE, Classes, class_names

Judged = tuple[np.ndarray, Sequence[str], str]
"""The probability of every class, float32 [C]; the right ones by name; what was classified, to be
shown."""


def scores_of(model: Transformer, judged: Iterable[Judged]) -> dict[str, Any]:
    """Scores of a model's classes: `loss`, `accuracy`, `micro_f1`, `macro_f1`, `ece`, a table by
    class, the worst.

    A class that the model does not know is wrong, and counted by name in `unseen_classes`.
    """
    names, multi = class_names(model), model.config.multi_label
    classes, worst, unseen = Classes(names), Worst(), Counter[str]()
    single, several = ClassScore(names), MultiLabelScore(names)
    nats = known = 0.0
    for row, labels, shown in judged:
        gold = classes.numbers(labels)
        unseen.update(
            label for label, number in zip(labels, gold.tolist(), strict=True) if number < 0
        )
        p = row.astype(np.float64)[None]
        if multi:
            truth = np.zeros((1, len(names)), bool)
            truth[0, gold[gold >= 0]] = True
            several.add(truth, p, unseen=(gold < 0).sum(keepdims=True))
            loss = float(-np.log(np.maximum(np.where(truth, p, 1 - p), 1e-30)).sum())
            nats, known = nats + loss, known + len(names)
            predicted = ", ".join(
                name for name, chance in zip(names, row, strict=True) if chance >= 0.5
            )
        else:
            single.add(gold[:1], p)
            loss = float(-np.log(max(p[0, gold[0]], 1e-30))) if gold[0] >= 0 else 0.0
            nats, known = nats + loss, known + int(gold[0] >= 0)
            predicted = names[int(row.argmax())]
        about = {"predicted": predicted, "probability": float(row.max())}
        worst.add(loss, {"text": shown, "class": ", ".join(labels), **about})
    score = several if multi else single
    confusion = (
        {}
        if multi or len(names) > LARGEST_TABLE
        else {"names": list(names), "counts": single.confusion()}
    )
    return {
        "loss": nats / max(1, known),
        **score.result(),
        "table": score.table(),
        **({"confusion": confusion} if confusion else {}),
        "reliability": score.reliability(),
        "worst": worst.rows(),
        **({"unseen_classes": dict(unseen)} if unseen else {}),
    }
