"""Slices of the positions of rows give the gradients and losses of whole rows;
tests/sliced_checks.py is what the processes run."""

from threading import Lock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.batch import IGNORE
from glassformer.errors import ConfigError
from glassformer.layers import stack
from glassformer.layers.sliced import runs_of
from glassformer.processes import ALONE, Processes
from glassformer.recipe.recipe import Recipe
from glassformer.training.beginning import shared
from glassformer.training.context import gather_keys, pieces_of, sliced
from glassformer.training.saving import snapshot
from glassformer.training.step import dropout_seed
from glassformer.training.tensor_parallel import stacks
from sliced_checks import CASES, data, model_of
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import IN_OTHER_ORDER, go, laid, largest_difference, pair_recipe, recipe
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
    """A slice behind the end has the last element without a target."""
    whole = data(case)
    length, where = whole.elements.shape[1], whole.where()
    for count in (1, 2, 4, 7, 13, 15):
        slices = [sliced(whole, place, count).to("cpu") for place in range(count)]
        assert sum(one.n_targets for one in slices) == whole.n_targets
        parts = [len(part.at) for one in slices for part in one.parts]
        assert sum(parts) == sum(len(part.at) for part in whole.parts)
        slots = [[slot for piece in one.where().pieces for slot in piece] for one in slices]
        real = [own for place, own in enumerate(slots) if any(pieces_of(length, place, count))]
        assert sorted(slot for own in real for slot in own) == [*range(length)]
        for one, own in zip(slices, slots, strict=True):
            assert torch.equal(one.elements, whole.elements[:, own])
            assert torch.equal(one.where().position, where.position[:, own])
            assert torch.equal(one.where().whole.position, where.position)
        if whole.at is not None:
            read = [one.elements.flatten()[one.at[one.targets != IGNORE]] for one in slices]
            wanted = whole.elements.flatten()[whole.at]
            assert torch.equal(torch.cat(read).sort().values, wanted.sort().values)


@given(st.integers(1, 70), st.integers(1, 8))
def test_slices_of_a_causal_row_have_as_much_to_do(length, count):
    """Keys before the ends of their queries: as many in each slice, but for pieces that are cut."""
    work = [sum(map(sum, pieces_of(length, place, count))) for place in range(count)]
    assert sum(work) == length * (length - 1) // 2
    if length % (2 * count) == 0:
        assert len(set(work)) == 1


def test_slices_have_dropout_of_their_own():
    drawn = {dropout_seed(1, 2, 3, place) for place in range(4)} | {dropout_seed(1, 2, 31)}
    assert len(drawn) == 5
    assert dropout_seed(1, 2, 3) in drawn


@pytest.mark.parametrize("case", CASES)
def test_attention_of_a_slice_goes_by_runs(case, monkeypatch):
    """In every stack, and with the result of whole rows; here one slice of one has all of them."""
    asked, model, batch = [], model_of(case).double(), data(case)
    expected = model(batch).logits
    monkeypatch.setattr(stack, "runs_of", lambda *given: asked.append(given) or runs_of(*given))
    gather_keys(model, ALONE)
    slices = sliced(batch, 0, 1)
    largest = (model(slices).logits - expected).abs().max()
    assert len(asked) == len(stacks(model))
    assert [query.pieces for _, _, query, _, _ in asked][-1] == slices.where().pieces
    assert largest <= EXACT * expected.abs().max()


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
    worst = max(
        largest_difference(tmp_path / f"{name} 1", tmp_path / f"{name} {way}")
        for name in made
        for way in (*ways, "path")
    )
    assert worst < IN_OTHER_ORDER
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
