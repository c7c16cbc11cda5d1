"""Causes of an answer: the ops `attribute`, `compare`, and the streams `effects`, `sweep`."""

from collections.abc import Iterator
from typing import Any

import torch

from glassformer.axes import Tensor
from glassformer.errors import ConfigError
from glassformer.inspect import attribution, comparing
from glassformer.inspect.faithfulness import faithfulness as measured
from glassformer.inspect.headmetrics import METRICS
from glassformer.inspect.look import Look
from glassformer.inspect.target import Replaced, Target, in_portions, rerun
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.ops_model import name_of
from glassformer.serve.explorer.thumbnails import LARGEST, thumbnails
from glassformer.serve.explorer.wire import Reply, floats


def attribute(
    context: OpContext,
    look: Look,
    target: int,
    position: int,
    against: int | None,
    method: str,
    baseline: str | int,
    faithfulness: bool,
    steps: int,
    seed: int,
) -> Reply:
    """Attribute an outcome to each element; `faithfulness`: add the deletion and insertion curves.

    `logit` is the target's value, with which scores in logits are to be compared.
    """
    own = attribution.METHODS.get(method, (None, ()))[1]
    options: dict[str, Any] = {"baseline": baseline} if "baseline" in own else {}
    found = attribution.attribute(
        look,
        method,
        target,
        position=position,
        against=against,
        check=context.check,
        **options,
    )
    arrays = {"scores": floats(found.scores)}
    if found.source_scores is not None:
        arrays["source"] = floats(found.source_scores)
    header: dict[str, Any] = {
        "method": found.method,
        "logit": found.value,
        "gap": found.gap,
        "change": found.change,
        "steps": found.steps,
    }
    if faithfulness:
        curves = measured(look, found, steps, seed, check=context.check, **options)
        names = ("shares", "deletion", "insertion", "random_deletion", "random_insertion")
        arrays |= {name: floats(getattr(curves, name)) for name in names}
        arrays["random"] = floats(curves.random_deletion.mean(0))
        header["gain"] = dict(zip(("deletion", "insertion"), curves.gain, strict=True))
    return Reply(header, arrays)


def compare(
    context: OpContext,
    a: Look,
    b: Look,
    side: str,
    site: str,
    layer: int,
    head: int,
    k: int,
    number: int,
) -> Reply:
    """Two looks: aligned elements, one head's patterns there, metrics of all heads, outcomes."""
    found = comparing.compare(a, b)
    queries, keys = found.sides(side, site)
    if max(len(queries), len(keys)) > LARGEST:
        raise ConfigError(
            f"{len(queries):,} aligned elements are too many for one picture; compare up to "
            f"{LARGEST:,}."
        )
    arrays = {}
    for name, look in (("a", a), ("b", b)):
        pattern = look.pattern(layer, head, side=side, site=site)
        rows, columns = ([getattr(pair, name) for pair in some] for some in (queries, keys))
        arrays[f"pattern_{name}"] = floats(pattern[rows][:, columns])
        metrics = thumbnails(look, side, site, 4, context.check).metrics
        arrays[f"metrics_{name}"] = floats(metrics)
    header: dict[str, Any] = {
        "alignment": alignment(found.pairs, len(a.elements), len(b.elements)),
        "source_alignment": alignment(
            found.source_pairs, len(a.source_elements), len(b.source_elements)
        ),
        "queries": [[pair.a, pair.b] for pair in queries],
        "keys": [[pair.a, pair.b] for pair in keys],
        "metrics": [{"name": name, "definition": sentence} for name, sentence in METRICS.items()],
    }
    if found.pairs or a.logits.dim() == 1:
        answer = found.answer(number, k)
        rows = zip(answer.ids.tolist(), answer.before.tolist(), answer.after.tolist(), strict=True)
        header["changes"] = [{"id": i, "label": name_of(a, i), "a": p, "b": q} for i, p, q in rows]
        header["kl"] = answer.divergence
    return Reply(header, arrays)


def alignment(pairs: Any, n: int, m: int) -> list[list[int | None]]:
    """All elements of both sequences in order: [i, j], [i, None] or [None, j]."""
    found: list[list[int | None]] = []
    i = j = 0
    for a, b in [*((pair.a, pair.b) for pair in pairs), (n, m)]:
        found += [[at, None] for at in range(i, a)] + [[None, at] for at in range(j, b)]
        found += [[a, b]] if (a, b) != (n, m) else []
        i, j = a + 1, b + 1
    return found


def effects(context: OpContext, **arguments: Any) -> Iterator[dict[str, Any]]:
    """The effect of each head: the change of the logit if its output is the mean everywhere."""
    swept = sweep(context, kind="mean", by="layer_head", source=None, **arguments)
    return (
        {"layer": cell["row"], "head": cell["column"], "change": cell["change"]} for cell in swept
    )


def sweep(
    context: OpContext,
    look: Look,
    target: int,
    position: int,
    against: int | None,
    kind: str,
    by: str,
    source: Look | None,
    side: str,
    site: str,
) -> Iterator[dict[str, Any]]:
    """Replace one place after the other and rerun: {row, column, value, change} of the logit."""
    if kind == "patch" and source is None:
        raise ConfigError("kind='patch' needs `source`, the look whose values are taken; give it.")
    source = source if kind == "patch" else None
    wanted = Target.of(look, target, position, against)
    before = float(wanted.value(rerun(look, wanted)[0])[0])
    length = look.positions().length + len(look.source_elements)
    for layer in range(look.model.config.n_layers):
        place, _ = look.attention(layer, side=side, site=site)
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

    def changed(x: Tensor) -> Tensor:
        new, rows, places = x.clone(), torch.arange(len(some), device=x.device), some.to(x.device)
        if source is not None:
            new[rows, places] = source[some].to(x)
        elif kind == "mean":
            new[rows, places] = x.mean(dim, keepdim=True).expand_as(x)[rows, places]
        else:
            new[rows, places] = 0
        return new

    return changed


OPS = {"attribute": attribute, "compare": compare, "effects": effects, "sweep": sweep}
"""The functions of ops, by the names that requests have."""
