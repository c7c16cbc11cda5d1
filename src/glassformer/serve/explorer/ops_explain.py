"""Explanations: the ops `lens`, `ledger`, `attribute`, `compare`, and the stream `sweep`."""

from collections.abc import Iterator, Sized
from dataclasses import asdict
from typing import Any

import torch

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect import attribution, comparing
from glassformer.inspect import ledger as ledgers
from glassformer.inspect import lens as lenses
from glassformer.inspect.look import Look
from glassformer.inspect.points import Replaced
from glassformer.inspect.target import Target, in_portions, rerun
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.ops_attention import LARGEST, METRIC_LIST, thumbnails
from glassformer.serve.explorer.ops_model import name_of, outcome
from glassformer.serve.explorer.wire import Reply

FROZEN = (
    "Norms and the non-linear parts of the head are held at their values in this run, so that "
    "shares add up to the logit. A share is not the effect of removing a part: the norms would "
    "change."
)


def lens(context: OpContext, look: Look, k: int, **chosen: Any) -> Reply:
    """The outcomes after each layer: ids and probabilities [layers, positions, k], and names.

    `chosen`: layers, positions, and a target whose probability is given too; see `lens`.
    """
    found = lenses.lens(look, k, **chosen)
    labels = {i: name_of(look, i) for i in found.ids.unique().tolist()}
    arrays = {"ids": found.ids, "p": found.probabilities}
    if found.of_target is not None:
        arrays["target"] = found.of_target
    header = {"labels": labels, "layers": list(found.layers), "positions": list(found.positions)}
    return Reply(header, arrays)


def ledger(
    context: OpContext, look: Look, target: int, position: int, against: int | None
) -> Reply:
    """A logit as the sum of the contributions of all parts, and the check of the sum."""
    found = ledgers.ledger(look, target, position=position, against=against)
    header = {name: getattr(found, name) for name in ("bias", "total", "logit", "gap")}
    others = {
        "entries": [asdict(entry) for entry in found.entries],
        "position": found.target.position,
        "target": outcome(look, target),
        "against": None if against is None else outcome(look, against),
        "note": FROZEN,
    }
    return Reply(header | others)


def attribute(
    context: OpContext,
    look: Look,
    target: int,
    method: str,
    baseline: str | int,
    faithfulness: bool,
    steps: int,
    seed: int,
    **place: Any,
) -> Reply:
    """Attribute an outcome to each element; `faithfulness`: add the deletion and insertion curves.

    `logit` is the target's value, with which scores in logits are to be compared. `place`: position
    and against.
    """
    known = attribution.options_of(method)
    options: dict[str, Any] = {"baseline": baseline} if "baseline" in known else {}
    with context.checking(look.model):
        found = attribution.attribute(look, method, target, **place, **options)
        curves = (
            attribution.faithfulness(look, found, steps, seed, **options) if faithfulness else None
        )
    arrays = {"scores": found.scores}
    if found.source_scores is not None:
        arrays["source"] = found.source_scores
    header: dict[str, Any] = {"logit": found.value}
    header |= {name: getattr(found, name) for name in ("method", "gap", "change", "steps")}
    if curves is not None:
        arrays |= vars(curves) | {"random": curves.random_deletion.mean(0)}
        header["gain"] = dict(zip(("deletion", "insertion"), curves.gain, strict=True))
    return Reply(header, arrays)


def compare(
    context: OpContext, a: Look, b: Look, layer: int, head: int, k: int, number: int, **where: Any
) -> Reply:
    """Two looks: aligned elements, one head's patterns there, metrics of all heads, outcomes."""
    found = comparing.compare(a, b)
    queries, keys = found.sides(**where)
    if max(len(queries), len(keys)) > LARGEST:
        raise ConfigError(
            f"{len(queries):,} aligned elements are too many for one image; compare up to "
            f"{LARGEST:,}."
        )
    arrays = {}
    for name, look in (("a", a), ("b", b)):
        rows, columns = ([getattr(pair, name) for pair in some] for some in (queries, keys))
        arrays[f"pattern_{name}"] = look.pattern(layer, head, **where)[rows][:, columns]
        arrays[f"metrics_{name}"] = thumbnails(context, look, 4, **where).arrays["metrics"]
    header: dict[str, Any] = {
        "alignment": alignment(found.pairs, a.elements, b.elements),
        "queries": [[pair.a, pair.b] for pair in queries],
        "keys": [[pair.a, pair.b] for pair in keys],
        "metrics": METRIC_LIST,
    }
    if found.pairs or a.logits.dim() == 1:
        answer = found.answer(number, k)
        rows = zip(answer.ids.tolist(), answer.before.tolist(), answer.after.tolist(), strict=True)
        header["changes"] = [outcome(a, i) | {"a": p, "b": q} for i, p, q in rows]
        header["kl"] = answer.divergence
    return Reply(header, arrays)


def alignment(pairs: Any, first: Sized, second: Sized) -> list[list[int | None]]:
    """All elements of both sequences in order: [i, j], [i, None] or [None, j]."""
    found: list[list[int | None]] = []
    i = j = 0
    for a, b in [*((pair.a, pair.b) for pair in pairs), (len(first), len(second))]:
        found += [[at, None] for at in range(i, a)] + [[None, at] for at in range(j, b)] + [[a, b]]
        i, j = a + 1, b + 1
    return found[:-1]


def sweep(
    context: OpContext,
    look: Look,
    target: int,
    position: int,
    against: int | None,
    kind: str,
    by: str,
    source: Look | None,
    **where: Any,
) -> Iterator[dict[str, Any]]:
    """Replace one place after the other and rerun: {row, column, value, change} of the logit."""
    if kind == "patch" and source is None:
        raise ConfigError("kind='patch' needs `source`, the look whose values are taken; give it.")
    source = source if kind == "patch" else None
    wanted = Target.of(look, target, position, against)
    before = float(wanted.value(rerun(look, wanted)[0])[0])
    length = look.positions().length + len(look.source_elements)
    for layer in range(len(look.stack(where["side"]).blocks)):
        place, _ = look.attention(layer, **where)
        point = f"{place}.z" if by == "layer_head" else f"{place.rpartition('.')[0]}.resid_post"
        shape, other = look[point].shape, source and source[point]
        if other and other.shape != shape:
            raise ConfigError(
                f"The source is {list(other.shape)} at {point} and this look {list(shape)}; "
                f"take equal ones."
            )
        dim = 2 if by == "layer_head" else 1  # of positions
        for some in in_portions(shape[0], length):
            context.check()
            change = Replaced(point, _replacement(kind, some, dim, other and other.tensor))
            logits, _ = rerun(look, wanted, [change], rows=len(some))
            values = wanted.value(logits).float().cpu().tolist()
            for column, value in zip(some.tolist(), values, strict=True):
                yield {"row": layer, "column": column, "value": value, "change": value - before}


def _replacement(kind: str, some: Tensor, dim: int, source: Tensor | None) -> Any:
    """Replace column some[i] in row i of a batch."""

    def change(x: Tensor) -> Tensor:
        new, rows, places = x.clone(), torch.arange(len(some), device=x.device), some.to(x.device)
        other = x.mean(dim, keepdim=True) if kind == "mean" else x.new_zeros(())
        if source is not None:
            other = source.to(x)
        new[rows, places] = other.expand_as(x)[rows, places]
        return new

    return change


OPS = lens, ledger, attribute, compare, sweep
"""Functions of ops, with the names that requests have."""
