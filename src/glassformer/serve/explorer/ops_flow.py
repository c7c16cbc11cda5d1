"""The residual stream: the ops `lens`, `ledger`, `project`."""

from dataclasses import asdict

import torch

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect import ledger as ledgers
from glassformer.inspect import lens as lenses
from glassformer.inspect.look import Look
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.ops_model import name_of
from glassformer.serve.explorer.wire import Reply, floats, integers

FROZEN = (
    "Norms and the non-linear parts of the head are held at their values in this run, so that "
    "shares add up to the logit. A share is not the effect of removing a part: the norms would "
    "change."
)
MOST_CELLS = 1 << 17
"""Cells of a lens in one answer."""


def lens(
    context: OpContext,
    look: Look,
    k: int,
    layers: list[int] | None,
    positions: list[int] | None,
    target: int | None,
) -> Reply:
    """The outcomes after each layer: ids and probabilities [layers, positions, k], and names."""
    rows = look.model.config.n_layers + 1 if layers is None else len(layers)
    count = len(positions or look.elements)
    if rows * count * k > MOST_CELLS:
        raise ConfigError(
            f"A lens of {rows} layers and {count:,} positions is too large for one answer; "
            f"name at most {MOST_CELLS // k // max(1, rows):,} positions."
        )
    found = lenses.lens(look, k, layers=layers, positions=positions, target=target)
    labels = {i: name_of(look, i) for i in found.ids.unique().tolist()}
    arrays = {"ids": integers(found.ids), "p": floats(found.probabilities)}
    if found.of_target is not None:
        arrays["target"] = floats(found.of_target)
    header = {"labels": labels, "layers": list(found.layers), "positions": list(found.positions)}
    return Reply(header, arrays)


def ledger(
    context: OpContext, look: Look, target: int, position: int, against: int | None
) -> Reply:
    """A logit as the sum of the contributions of all parts, and the check of the sum."""
    found = ledgers.ledger(look, target, position=position, against=against)
    header = {
        "entries": [asdict(entry) for entry in found.entries],
        "bias": found.bias,
        "total": found.total,
        "logit": found.logit,
        "gap": found.gap,
        "position": found.target.position,
        "target": {"id": target, "label": name_of(look, target)},
        "against": None if against is None else {"id": against, "label": name_of(look, against)},
        "note": FROZEN,
    }
    return Reply(header)


def project(context: OpContext, look: Look, side: str) -> Reply:
    """The residual stream of all layers in its three principal directions."""
    points, explained = principal(stream(look, side))
    note = "One basis for all layers; what the three directions leave out is not shown."
    return Reply({"note": note}, {"points": floats(points), "explained": floats(explained)})


def stream(seen: Look, side: str) -> Float[Tensor, "L T D"]:
    """The stream after the embedding and after each block."""
    layers, name = len(seen.stack(side).blocks), side or seen.answering
    points = [
        f"{name}.blocks.0.resid_pre",
        *(f"{name}.blocks.{layer}.resid_post" for layer in range(layers)),
    ]
    return torch.stack([seen[point].tensor for point in points])


def principal(
    vectors: Float[Tensor, "L T D"], n: int = 3
) -> tuple[Float[Tensor, "L T _"], Float[Tensor, "_"]]:
    """Coordinates along the n main directions of all vectors, and each one's share of their
    variance, in [0, 1].

    The largest number of each direction is positive, so that the same vectors always give the same
    picture.
    """
    rows = vectors.flatten(0, 1).double().cpu()
    rows = rows - rows.mean(0)
    # of D x D numbers, however long the sequence is
    values, directions = torch.linalg.eigh(rows.mT @ rows)
    values, directions = values.flip(0).clamp(min=0), directions.flip(1)
    n_there = min(n, directions.shape[1])
    directions = directions[:, :n_there]
    directions = directions * directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
    found = torch.zeros(len(rows), n, dtype=rows.dtype)
    found[:, :n_there] = rows @ directions
    share = torch.zeros(n, dtype=rows.dtype)
    share[:n_there] = values[:n_there] / values.sum().clamp(min=torch.finfo(rows.dtype).tiny)
    return found.unflatten(0, vectors.shape[:2]), share


OPS = {"lens": lens, "ledger": ledger, "project": project}
"""The functions of ops, by the names that requests have."""
