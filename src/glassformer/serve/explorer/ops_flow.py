"""How an answer comes about along the stream: the ops `lens`, `ledger`, `project`."""

from dataclasses import asdict

import torch
from pydantic import Field

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.ledger import ledger as account
from glassformer.inspect.lens import lens as through
from glassformer.inspect.look import Look
from glassformer.serve.explorer.looks import Desk
from glassformer.serve.explorer.ops_model import name_of
from glassformer.serve.explorer.requests import Aimed, Seen, Side, Whole
from glassformer.serve.explorer.wire import Reply, floats, integers

FROZEN = (
    "Norms and the bends of the head are held at their values in this run, so that shares add "
    "up to the logit; without "
    "a part the scales would be others, so a share is not what would be lost without it."
)
MOST_CELLS = 1 << 17
"""Cells of a lens in one answer."""


class LensAsk(Seen):
    """How many outcomes, and in which cells."""

    k: int = Field(5, ge=1, le=50, description="likeliest outcomes of each cell")
    layers: list[Whole] | None = Field(
        None, max_length=1 << 12, description="0 is the embedding; None: all"
    )
    positions: list[Whole] | None = Field(None, max_length=1 << 12, description="None: all")
    target: Whole | None = Field(
        None, description="an outcome whose probability is wanted in every cell"
    )


def lens(desk: Desk, ask: LensAsk) -> Reply:
    """What would be answered after each layer: ids and probabilities [layers, positions, k], and
    names."""
    seen = desk.look(ask.seen)
    layers = range(seen.model.config.n_layers + 1) if ask.layers is None else ask.layers
    count = len(ask.positions or seen.elements)
    if len(layers) * count * ask.k > MOST_CELLS:
        most = MOST_CELLS // ask.k // max(1, len(layers))
        raise ConfigError(
            f"A lens of {len(layers)} layers and {count:,} positions is too large for one "
            f"answer; name at most "
            f"{most:,} positions."
        )
    found = through(seen, ask.k, layers=ask.layers, positions=ask.positions, target=ask.target)
    labels = {i: name_of(seen, i) for i in found.ids.unique().tolist()}
    arrays = {"ids": integers(found.ids), "p": floats(found.probabilities)}
    if found.of_target is not None:
        arrays["target"] = floats(found.of_target)
    return Reply(
        {"labels": labels, "layers": list(found.layers), "positions": list(found.positions)}, arrays
    )


def ledger(desk: Desk, ask: Aimed) -> Reply:
    """A logit as the sum of what every part wrote into the stream, and the check of the sum."""
    seen = desk.look(ask.seen)
    found = account(seen, ask.target, position=ask.position, against=ask.against)
    return Reply(
        {
            "entries": [asdict(entry) for entry in found.entries],
            "bias": found.bias,
            "total": found.total,
            "logit": found.logit,
            "gap": found.gap,
            "position": found.target.position,
            "target": {"id": ask.target, "label": name_of(seen, ask.target)},
            "against": None
            if ask.against is None
            else {"id": ask.against, "label": name_of(seen, ask.against)},
            "note": FROZEN,
        }
    )


class ProjectAsk(Seen):
    """Which stack."""

    side: Side = Field("", description="encoder or decoder; empty: the stack that answers")


def project(desk: Desk, ask: ProjectAsk) -> Reply:
    """The stream after the embedding and every block, in the three directions in which all of it
    varies most."""
    points, explained = principal(stream(desk.look(ask.seen), ask.side))
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
