"""What processes that have slices of the same rows compute for tests/training/test_context.py, by
tests/divided_checks.py: gradients against those of one process, in float64."""

from dataclasses import replace
from typing import Any

import torch
from torch import distributed

import tiny
from divided_checks import drawn, error, loss_of
from glassformer.batch import IGNORE, Batch, Part, Positions
from glassformer.finetune.adapters import add_adapters
from glassformer.models import Transformer
from glassformer.processes import Processes
from glassformer.recipe.train import DistributedConfig, TrainConfig
from glassformer.training.context import sliced
from glassformer.training.division import division_of

ROWS, LENGTH = 4, 13
"""Of a batch; two slices are 7 and 6 long, four 4, 4, 4 and 1."""
ENCODER = {"architecture": "encoder", "norm_placement": "post"}
BOTH = {"architecture": "encoder_decoder"}
CASES: dict[str, dict[str, Any]] = {
    "rotary": {"position": "rotary", "gated": True, "norm": "rms", "qk_norm": True},
    "window": {"position": "rotary", "window": 4, "n_kv_heads": 2},
    "packed": {"position": "learned"},
    "packed window": {"position": "rotary", "window": 3},
    "padded left": {"position": "alibi"},
    "learned": {"position": "learned"},
    "sinusoidal": {"position": "sinusoidal", "tied": False},
    "relative": {"position": "relative"},
    "short": {"position": "rotary"},
    "parts": {"parts": {"image": 5}, "position": "learned"},
    "adapters": {"position": "rotary"},
    "masked": {**ENCODER, "head": "masked_lm", "position": "learned"},
    "tags": {**ENCODER, "head": "tag", "n_classes": 3, "tied": False, "position": "buckets"},
    "types": {**ENCODER, "head": "masked_lm", "n_token_types": 2},
    "translator": {**BOTH, "position": "learned"},
    "short source": {**BOTH, "position": "buckets"},
}


def data(case: str) -> Batch:
    """All rows of a case."""
    tokens, lengths = tiny.tokens(ROWS, LENGTH), [13, 9, 4, 6]
    targets = tiny.tokens(ROWS, LENGTH, seed=1) % (3 if case == "tags" else tiny.VOCABULARY)
    one = Batch(tokens, targets=targets)
    padded = Positions.padded(lengths)
    right = replace(one, positions=padded, targets=targets.masked_fill(~padded.valid, IGNORE))
    match case:
        case "packed" | "packed window":
            ends = torch.tensor([[3, 5, 13], [13, 13, 13], [1, 8, 10], [6, 7, 12]])
            document = torch.searchsorted(ends, torch.arange(LENGTH).repeat(ROWS, 1), right=True)
            document += 3 * torch.arange(ROWS)[:, None]
            document = document.masked_fill(torch.arange(LENGTH) >= ends[:, 2:], -1)
            return replace(
                one,
                positions=Positions.packed(document),
                targets=targets.masked_fill(document < 0, IGNORE),
            )
        case "padded left":
            left = Positions.padded(lengths, "left")
            return replace(one, positions=left, targets=targets.masked_fill(~left.valid, IGNORE))
        case "short":
            return Batch(tokens[:, :5], targets=targets[:, :5])
        case "parts":
            at = torch.tensor([1, 2, LENGTH + 12, 3 * LENGTH + 5])
            part = Part("image", at, drawn(3, 4, 5), torch.arange(4))
            return replace(one, parts=(part,))
        case "masked" | "types":
            at = torch.tensor([12, 1, 0, LENGTH + 3, LENGTH + 2, 3 * LENGTH + 5])
            types = None if case == "masked" else tokens % 2
            return replace(right, targets=targets.flatten()[at], at=at, token_type_ids=types)
        case "tags":
            return right
        case "translator":
            return replace(one, source=Batch(tokens.flip(1), padded))
        case "short source":
            return replace(one, source=Batch(tokens[:, :3]))
        case _:
            return one


def rows(batch: Batch, place: int, count: int) -> Batch:
    """The rows of a batch that group `place` of `count` reads."""
    if count == 1:
        return batch
    begin, end = place * ROWS // count, (place + 1) * ROWS // count
    width = batch.elements.shape[1]
    inside = lambda at: (at >= begin * width) & (at < end * width)
    cut = lambda t: None if t is None else t[begin:end]
    own = {"at": None, "targets": cut(batch.targets)}
    if batch.at is not None and batch.targets is not None:
        here = inside(batch.at)
        own = {"at": batch.at[here] - begin * width, "targets": batch.targets[here]}
    parts = [
        Part(one.name, one.at[here] - begin * width, one.values[here], one.index[here])
        for one in batch.parts
        for here in [inside(one.at)]
    ]
    return Batch(
        batch.elements[begin:end],
        None if batch.positions is None else batch.positions.mapped(cut, batch.positions.start),
        token_type_ids=cut(batch.token_type_ids),
        source=None if batch.source is None else rows(batch.source, place, count),
        parts=tuple(parts),
        **own,
    )


def model_of(case: str) -> Transformer:
    model = Transformer(tiny.config(**CASES[case]), None, "cpu")
    if case == "adapters":
        tiny.stir(model)
        add_adapters(model, rank=3, targets=["q_proj", "up_proj"])
    return tiny.stir(model)  # pyright: ignore


def gradients(cases: list[str], ways: list[list[int]]) -> dict[str, Any]:
    """The largest relative error of the gradient of each case, by the sizes of context, shard and
    tensor."""
    processes = Processes(distributed.get_rank(), distributed.get_world_size())
    found = {}
    for context, shard, tensor in ways:
        of = DistributedConfig(context=context, shard=shard, tensor=tensor)
        division = division_of(processes, TrainConfig(distributed=of), torch.device("cpu"))
        for case in cases:
            if case == "adapters" and tensor > 1:
                continue
            alone, model, every = model_of(case), model_of(case), data(case)
            (loss_of(alone, every) / every.n_targets).backward()
            division.place(model, None, torch.device("cpu"))
            place = division.readers.rank // division.slices.count
            own = rows(every, place, division.n_rows)
            piece = sliced(own, division.slices.rank, division.slices.count)
            (loss_of(model, piece) / every.n_targets).backward()
            division.add_up([*model.parameters()])
            found[f"{case} {context}x{shard}x{tensor}"] = error(alone, model)
    return found
