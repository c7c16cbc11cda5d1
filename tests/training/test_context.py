"""Slices of the positions of rows give the gradients and losses of whole rows;
tests/sliced_checks.py is what the processes run."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest
import torch

import tiny
from divided_checks import drawn
from glassformer.batch import IGNORE, Positions
from glassformer.errors import ConfigError
from glassformer.layers import mask
from glassformer.layers.attend import attend, attend_reference
from glassformer.layers.mask import Allowed, Causal, Valid, Window, allowed
from glassformer.processes import Processes
from glassformer.recipe.recipe import Recipe
from glassformer.training.beginning import shared
from glassformer.training.context import gather_keys, seen, sliced
from glassformer.training.saving import snapshot
from glassformer.training.step import dropout_seed
from sliced_checks import CASES, data, model_of
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import go, laid, losses, pair_recipe, recipe
from small_tasks import class_recipe, masked_recipe, tag_recipe
from torchrun import launched, train_together

EXACT = 1e-12  # float64 has 16 digits; gradients here are sums of at most a few hundred terms
WAYS = {
    2: [[2, 1, 1], [2, 2, 1]],
    4: [[4, 1, 1], [2, 1, 1], [2, 2, 1], [4, 2, 1], [4, 4, 1], [2, 1, 2], [2, 2, 2]],
}
"""Sizes of context, shard and tensor, by the number of processes."""


@pytest.mark.parametrize("case", CASES)
def test_every_position_and_target_is_in_one_slice(case):
    """A slice behind the end repeats the last element without a target."""
    whole = data(case)
    length, where = whole.elements.shape[1], whole.where()
    for count in (1, 2, 4, 13, 15):
        slices = [sliced(whole, place, count).to("cpu") for place in range(count)]
        assert sum(one.n_targets for one in slices) == whole.n_targets
        parts = [len(part.at) for one in slices for part in one.parts]
        assert sum(parts) == sum(len(part.at) for part in whole.parts)
        elements = torch.cat([one.elements for one in slices], 1)[:, :length]
        position = torch.cat([one.where().position for one in slices], 1)[:, :length]
        assert torch.equal(elements, whole.elements)
        assert torch.equal(position, where.position)
        assert all(torch.equal(one.where().whole.position, where.position) for one in slices)
        if whole.at is not None:
            read = [one.elements.flatten()[one.at[one.targets != IGNORE]] for one in slices]
            wanted = whole.elements.flatten()[whole.at]
            assert torch.equal(torch.cat(read).sort().values, wanted.sort().values)


def test_keys_that_no_query_sees_are_not_read():
    whole = Positions.arange(12)
    query = replace(Positions.arange(4, 4), whole=whole)
    assert seen(Causal(), query, whole) == (0, 8)
    assert seen(Causal() & Window(3), query, whole) == (2, 8)
    assert seen(Window(3), query, whole) == (2, 10)
    assert seen(Window(12), query, whole) == (0, 12)
    assert seen(Valid(), query, replace(whole, valid=torch.arange(12)[None] > 2)) == (3, 12)
    nothing = replace(whole, valid=torch.zeros(1, 12, dtype=torch.bool))
    assert seen(Valid(), query, nothing) == (0, 12)


@pytest.mark.parametrize("attention", [attend, attend_reference])
def test_causal_queries_attend_some_at_a_time(attention, monkeypatch):
    """Those of a slice, three by one call of the kernel: the numbers of the whole row."""
    monkeypatch.setattr(mask, "AT_ONCE", 3)
    q, k, v = (drawn(seed, 2, 4, 13, 6).requires_grad_() for seed in range(3))
    whole = Positions.arange(13)
    wanted = attend_reference(q, k, v, Allowed(causal=True), None, 0.5)
    found = []
    for begin, end in (0, 5), (5, 6), (6, 13):
        query = replace(Positions.arange(end - begin, begin), whole=whole)
        allow = allowed(Causal(), query, Positions.arange(end)).prepared()
        assert allow.dense is None
        own = q[:, :, begin:end], k[:, :, :end], v[:, :, :end]
        found.append(attention(*own, allow, None, 0.5))
    assert torch.allclose(torch.cat(found, 2), wanted, **tiny.EXACT)
    weights = drawn(4, *wanted.shape)
    gradients = [
        torch.autograd.grad((z * weights).sum(), (q, k, v)) for z in (torch.cat(found, 2), wanted)
    ]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, **tiny.EXACT)


def test_slices_have_dropout_of_their_own():
    drawn = {dropout_seed(1, 2, 3, place) for place in range(4)} | {dropout_seed(1, 2, 31)}
    assert len(drawn) == 5
    assert dropout_seed(1, 2, 3) in drawn


def test_a_copy_of_a_model_that_gathers_computes_whole_rows():
    """For files that are written in the background."""
    model = model_of("rotary").double()
    gather_keys(model, Processes(0, 2, group=Lock()))  # as a group, not to be copied
    tokens = data("rotary").elements
    _, _, copied = snapshot(None, None, model)
    assert copied is not None
    assert torch.equal(copied(tokens).logits, model(tokens).logits)


def test_what_is_not_exact_is_refused(tmp_path):
    refuse = lambda made, **given: Recipe.parse(
        laid(
            made.values(),
            {"train.distributed.context": 2} | {f"train.{k}": v for k, v in given.items()},
        )
    )
    (tmp_path / "classes").mkdir()
    made = recipe(tmp_path)
    with pytest.raises(
        ConfigError, match=r"context=2 divides the positions of sequences, and task="
    ):
        refuse(class_recipe(tmp_path / "classes"))
    with pytest.raises(ConfigError, match=r"compile=true is for whole models and rows"):
        refuse(made, compile=True)
    with pytest.raises(ConfigError, match=r"deterministic=true is for whole models and rows"):
        refuse(made, **{"distributed.deterministic": True})
    with pytest.raises(ConfigError, match=r"parallel_micro_batches=2 is not for slices of rows"):
        refuse(made, micro_batches=2, parallel_micro_batches=2)
    assert shared(refuse(made), 6).train.micro_batches == 3
    with pytest.raises(ConfigError, match=r"context=2 does not divide the 3 processes that read"):
        shared(refuse(made), 3)
    with pytest.raises(ConfigError, match=r"context=2 does not divide the 1 process that read"):
        shared(refuse(made, **{"distributed.tensor": 2}), 2)


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("processes", WAYS)
def test_the_gradient_of_slices_is_that_of_whole_rows(processes, tmp_path, table):
    asked = {"cases": [*CASES], "ways": WAYS[processes]}
    (found,) = launched(processes, [["slices", asked]], tmp_path)
    worst, name = max(found.values())
    exact = sum(error < EXACT for error, _ in found.values())
    ways = ", ".join("x".join(map(str, way)) for way in WAYS[processes])
    table(
        "A5",
        f"{processes} processes (context x shard x tensor {ways}): {exact}/{len(found)} gradients, "
        f"largest relative error {worst:.1e} ({name})",
    )
    assert exact == len(found), {name: one for name, one in found.items() if one[0] >= EXACT}


MAKERS = {
    "language model": lambda folder: recipe(folder, train={"optimizer.kind": "muon", "workers": 1}),
    "documents": lambda folder: recipe(folder, data={"documents": "separate"}),
    "masked": masked_recipe,
    "translator": pair_recipe,
    "tags": tag_recipe,
    "parts": parts_recipe,
    "drawing": drawing_recipe,
}


@pytest.mark.slow
@pytest.mark.reliability
def test_runs_by_slices_learn_what_one_process_does(tmp_path, table):
    """Two and four processes; also of a run that goes from slices to one process and back.

    Sums are added in other orders: losses of six steps in float32 differ in their last bits.
    """
    made = {}
    for name, make in MAKERS.items():
        (tmp_path / name).mkdir()
        made[name] = Recipe.parse(laid(make(tmp_path / name).values(), SIX_STEPS))
        go(made[name], tmp_path / f"{name} 1")
    ways = {"two": (2, 2, 1), "four": (4, 4, 1), "replicas": (4, 2, 1), "shards": (4, 2, 4)}
    for way, (count, *sizes) in ways.items():
        runs = [divided(tmp_path, way, name, one, *sizes) for name, one in made.items()]
        train_together(count, runs, tmp_path)
    for way, resume, stop in ("two", False, 2), (None, True, 4), ("shards", True, None):
        count, *sizes = (1, 1, 1) if way is None else ways[way]
        runs = [
            divided(tmp_path, "path", name, one, *sizes, resume, stop) for name, one in made.items()
        ]
        train_together(count, runs, tmp_path)
    worst = 0.0
    for name in made:
        wanted = of_losses(tmp_path / f"{name} 1")
        for way in (*ways, "path"):
            found = of_losses(tmp_path / f"{name} {way}")
            assert found.keys() == wanted.keys(), (name, way)
            worst = max(worst, *(abs(found[at] / wanted[at] - 1) for at in wanted))
    assert worst < 1e-4
    table("F1", f"{len(made)} kinds of runs by slices in 5 ways: losses differ by {worst:.1e}")


SIX_STEPS = {
    "train.micro_batches": 2,
    "train.batch_size": 4,
    "train.threads": 1,
    "train.steps": 6,
    "train.evaluate.every": 3,
    "train.save.every": 3,
    "model.dropout": 0.0,
}


def divided(folder, way, name, one, context, shard, resume=False, stop=None):
    sizes = {"train.distributed.context": context, "train.distributed.shard": shard}
    return folder / f"{name} {way}", Recipe.parse(laid(one.values(), sizes)), resume, stop


def of_losses(run: Path) -> dict[tuple[int, str], float]:
    names = "train_loss", "validation_loss"
    return {
        (line["step"], name): line[name] for line in losses(run) for name in names if name in line
    }
