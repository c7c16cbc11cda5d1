"""What speaks for an answer, and what changes it: the ops `attribute`, `compare`, and the streams
`effects`, `sweep`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field

from glassformer.axes import Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.attribution import attribute as attributed
from glassformer.inspect.comparing import compare as compared
from glassformer.inspect.faithfulness import faithfulness
from glassformer.inspect.headmetrics import METRICS
from glassformer.inspect.look import Look
from glassformer.inspect.target import Replaced, Target, in_portions, rerun
from glassformer.serve.explorer.looks import Desk
from glassformer.serve.explorer.ops_model import name_of
from glassformer.serve.explorer.requests import Aimed, Ask, LookAsk, Side, Site, Whole
from glassformer.serve.explorer.thumbnails import LARGEST, thumbs
from glassformer.serve.explorer.wire import Reply, floats


class AttributeAsk(Aimed):
    """By which method."""

    method: str = Field("gradient_x_input", description="the method of attribution")
    baseline: Literal["zero", "mean"] | Whole | None = Field(
        None, description="what stands for an absent element"
    )
    faithfulness: bool = Field(False, description="also the deletion and insertion curves")
    steps: int = Field(20, ge=1, le=200, description="steps of those curves")
    seed: int = Field(0, ge=0, lt=1 << 31, description="of the random orders beside them")


def attribute(desk: Desk, ask: AttributeAsk) -> Reply:
    """How much each element speaks for an outcome; with `faithfulness`, whether taking them away
    bears it out."""
    seen = desk.look(ask.seen)
    options: dict[str, Any] = {} if ask.baseline is None else {"baseline": ask.baseline}
    found = attributed(
        seen,
        ask.method,
        ask.target,
        position=ask.position,
        against=ask.against,
        check=desk.check,
        **options,
    )
    arrays = {"scores": floats(found.scores)}
    if found.source_scores is not None:
        arrays["source"] = floats(found.source_scores)
    header: dict[str, Any] = {
        "method": found.method,
        "gap": found.gap,
        "change": found.change,
        "steps": found.steps,
    }
    if ask.faithfulness:
        curves = faithfulness(seen, found, ask.steps, ask.seed, check=desk.check, **options)
        arrays |= {
            "shares": floats(curves.shares),
            "deletion": floats(curves.deletion),
            "insertion": floats(curves.insertion),
            "random_deletion": floats(curves.random_deletion),
            "random_insertion": floats(curves.random_insertion),
            "random": floats(curves.random_deletion.mean(0)),
        }
        header["gain"] = dict(zip(("deletion", "insertion"), curves.gain, strict=True))
    return Reply(header, arrays)


class CompareAsk(Ask):
    """Which two looks, and which head of them."""

    a: dict[str, Any] = Field(description="a look")
    b: dict[str, Any] = Field(description="another look")
    side: Side = Field("", description="encoder or decoder; empty: the stack that answers")
    site: Site = Field("self", description="self or cross")
    layer: Whole = Field(0, description="the block, from 0")
    head: Whole = Field(0, description="the head, from 0")
    k: int = Field(10, ge=1, le=50, description="outcomes whose probability changed most")
    number: Whole = Field(
        -1, description="at which pair of aligned elements the answer is compared"
    )


def compare(desk: Desk, ask: CompareAsk) -> Reply:
    """Two looks side by side: which elements correspond, one head's patterns there, all metrics,
    the answers."""
    a, b = desk.look(LookAsk.parse(ask.a)), desk.look(LookAsk.parse(ask.b))
    found = compared(a, b)
    queries, keys = found.pairs, found.pairs
    if ask.side == "encoder" and found.source_pairs:
        queries, keys = found.source_pairs, found.source_pairs
    keys = found.source_pairs if ask.site == "cross" else keys
    if max(len(queries), len(keys)) > LARGEST:
        raise ConfigError(
            f"{len(queries):,} aligned elements are too many for one picture; compare up to "
            f"{LARGEST:,}."
        )
    arrays = {}
    for name, look in (("a", a), ("b", b)):
        pattern = look.pattern(ask.layer, ask.head, side=ask.side, site=ask.site)
        rows, columns = ([getattr(pair, name) for pair in some] for some in (queries, keys))
        arrays[f"pattern_{name}"] = floats(pattern[rows][:, columns])
        arrays[f"metrics_{name}"] = floats(thumbs(look, ask.side, ask.site, 4, desk.check).metrics)
    header: dict[str, Any] = {
        "alignment": _whole(found.pairs, len(a.elements), len(b.elements)),
        "source_alignment": _whole(
            found.source_pairs, len(a.source_elements), len(b.source_elements)
        ),
        "queries": [[pair.a, pair.b] for pair in queries],
        "keys": [[pair.a, pair.b] for pair in keys],
        "metrics": [{"name": name, "definition": sentence} for name, sentence in METRICS.items()],
    }
    if found.pairs or a.logits.dim() == 1:
        answer = found.answer(ask.number, ask.k)
        rows = zip(answer.ids.tolist(), answer.before.tolist(), answer.after.tolist(), strict=True)
        header["changes"] = [{"id": i, "label": name_of(a, i), "a": p, "b": q} for i, p, q in rows]
        header["kl"] = answer.divergence
    return Reply(header, arrays)


def _whole(pairs: Any, n: int, m: int) -> list[list[int | None]]:
    """All elements of both sequences in order: [i, j] where two correspond, [i, None] or [None, j]
    where none does."""
    found: list[list[int | None]] = []
    i = j = 0
    for a, b in [*((pair.a, pair.b) for pair in pairs), (n, m)]:
        found += [[at, None] for at in range(i, a)] + [[None, at] for at in range(j, b)]
        found += [[a, b]] if (a, b) != (n, m) else []
        i, j = a + 1, b + 1
    return found


class EffectsAsk(Aimed):
    """Of which stack."""

    side: Side = Field("", description="encoder or decoder; empty: the stack that answers")
    site: Site = Field("self", description="self or cross")


def effects(desk: Desk, ask: EffectsAsk) -> Iterator[dict[str, Any]]:
    """Each head's measured effect: the change of the outcome's logit if the head says the same
    everywhere."""
    swept = sweep(desk, SweepAsk.parse({**ask.model_dump(), "kind": "mean", "by": "layer_head"}))
    return (
        {"layer": cell["row"], "head": cell["column"], "change": cell["change"]} for cell in swept
    )


class SweepAsk(Aimed):
    """What is put where, cell by cell."""

    kind: Literal["patch", "zero", "mean"] = Field(
        "mean",
        description="what takes the place: another look's value, 0, or the mean over positions",
    )
    by: Literal["layer_position", "layer_head"] = Field(
        "layer_head", description="the stream after a block at a position, or what a head says"
    )
    source: dict[str, Any] | None = Field(
        None, description="for patch: the look whose values are taken"
    )
    side: Side = Field("", description="encoder or decoder; empty: the stack that answers")
    site: Site = Field("self", description="self or cross")


def sweep(desk: Desk, ask: SweepAsk) -> Iterator[dict[str, Any]]:
    """One place after the other is changed, and the model run again: {row, column, value, change}
    of the logit."""
    with desk.looks.lock:
        swept = _Sweep.of(desk, ask)
    for layer in range(swept.look.model.config.n_layers):
        with desk.looks.lock:
            count, length = (
                swept.columns(layer),
                swept.look.positions().length + len(swept.look.source_elements),
            )
        for some in in_portions(count, length):
            desk.check()
            with desk.looks.lock:
                values = swept.values(layer, some).tolist()
            for column, value in zip(some.tolist(), values, strict=True):
                yield {
                    "row": layer,
                    "column": column,
                    "value": value,
                    "change": value - swept.before,
                }


@dataclass(frozen=True)
class _Sweep:
    """A look whose points are changed, one column in each row of a batch."""

    look: Look
    source: Look | None
    target: Target
    ask: SweepAsk
    before: float

    @classmethod
    def of(cls, desk: Desk, ask: SweepAsk) -> "_Sweep":
        look, source = desk.look(ask.seen), None
        if ask.kind == "patch":
            if ask.source is None:
                raise ConfigError(
                    "kind='patch' needs `source`, the look whose values are taken; give it."
                )
            source = desk.look(LookAsk.parse(ask.source))
        target = Target.of(look, ask.target, ask.position, ask.against)
        return cls(look, source, target, ask, float(target.value(rerun(look, target)[0])[0]))

    def point(self, layer: int) -> str:
        place, _ = self.look.attention(layer, side=self.ask.side, site=self.ask.site)
        return (
            f"{place}.z"
            if self.ask.by == "layer_head"
            else f"{place.rpartition('.')[0]}.resid_post"
        )

    def columns(self, layer: int) -> int:
        """How many heads or positions there are. ConfigError: the source has others."""
        shape = self.look[self.point(layer)].shape
        if self.source is not None and (other := self.source[self.point(layer)].shape) != shape:
            raise ConfigError(
                f"The source is {list(other)} at {self.point(layer)} and this look "
                f"{list(shape)}; take equal ones."
            )
        return shape[0]

    def values(self, layer: int, some: Tensor) -> Tensor:
        """The target with each of some columns changed."""
        point, dim = self.point(layer), 2 if self.ask.by == "layer_head" else 1  # of positions
        source = None if self.source is None else self.source[point].tensor

        def changed(x: Tensor) -> Tensor:
            new, rows = x.clone(), torch.arange(len(some), device=x.device)
            places = some.to(x.device)
            match self.ask.kind:
                case "zero":
                    new[rows, places] = 0
                case "mean":
                    new[rows, places] = x.mean(dim, keepdim=True).expand_as(x)[rows, places]
                case "patch":
                    assert source is not None
                    new[rows, places] = source[some].to(x)
            return new

        logits, _ = rerun(self.look, self.target, [Replaced(point, changed)], rows=len(some))
        return self.target.value(logits).float().cpu()
