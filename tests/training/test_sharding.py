"""A model divided among processes computes what it computes alone; tests/divided_checks.py is what
the processes run."""

import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

import tiny
from divided_checks import CASES, SPLITS, like
from glassformer.core.distributed.shards import own
from glassformer.core.errors import ConfigError
from glassformer.finetune.adapters import add_adapters
from glassformer.models import Transformer
from glassformer.training.parallel import sharding
from torchrun import MESHES, launched

SHAPES = [[3, 2], [7, 9], [4, 4], [10, 11], [8, 8], [5, 5]]
"""Of gradients."""
EXACT = 1e-12  # float64 has 16 digits; gradients here are sums of at most a few hundred terms


def test_two_processes_compute_what_one_does(tmp_path):
    asked = [
        ["gradients", {"cases": ["decoder"], "meshes": [[2, 1], [1, 2]], "splits": ["ragged"]}],
        ["disturbed", {"cases": ["decoder", "no parts"], "meshes": [[1, 2]]}],
        ["ordered", {"shapes": SHAPES}],
        ["save", {"case": "decoder", "mesh": [2, 1], "kind": "muon", "run": f"{tmp_path}/2"}],
        ["load", {"case": "decoder", "mesh": [1, 2], "kind": "muon", "runs": [f"{tmp_path}/2"]}],
    ]
    errors, copies, in_order, _, loaded = launched(2, asked, tmp_path)
    assert all(error < EXACT for error, _ in errors.values()), errors
    assert all(map(all, copies.values())), copies
    assert all(in_order.values()), in_order
    assert [same for same, _ in loaded.values()] == [True]


@pytest.mark.parametrize("axes", [(1, 8, 1), (2, 4, 1), (1, 4, 2), (2, 2, 2)])
def test_each_process_has_its_part_of_a_tensor(ranks, axes):
    full = torch.arange(11 * 4).view(11, 4)
    placements = [Replicate(), Shard(0), Shard(1)]
    for rank in range(8):
        ranks(rank, 8)
        mesh = sharding.build_mesh("cpu", 8, *axes[1:])
        there = DTensor.from_local(
            torch.empty(0), mesh, placements, shape=full.shape, stride=(4, 1)
        )
        replicate, shard, tensor = mesh.get_coordinate()
        assert sharding.readers(mesh) == (replicate * axes[1] + shard, axes[0] * axes[1])
        columns = full[:, tensor * 4 // axes[2] : (tensor + 1) * 4 // axes[2]]
        rows = -(-11 // axes[1])
        assert torch.equal(own(full, there), columns[shard * rows : (shard + 1) * rows])
        assert torch.equal(like(full, there).to_local(), own(full, there))


def test_parts_have_the_size_that_torch_gives_them(ranks):
    ranks(5, 8)
    model = Transformer(tiny.config(), None, "meta")
    shapes = {name: one.shape for name, one in model.named_parameters()}
    sharding.divide(model, sharding.build_mesh("cpu", 8, 4, 2))
    for name, one in model.named_parameters():
        assert one.shape == shapes[name]
        assert own(torch.empty(one.shape), one).shape == one.to_local().shape, name


def test_numbers_that_do_not_divide_are_refused(ranks):
    ranks(0, 8)
    wide, mesh = Transformer(tiny.config(), None, "meta"), sharding.build_mesh("cpu", 8, 1, 8)
    with pytest.raises(ConfigError, match=r"tensor=8 does not divide model\.n_heads=4; choose"):
        sharding.divide(wide, mesh)
    grouped = Transformer(tiny.config(n_kv_heads=1), None, "meta")
    with pytest.raises(ConfigError, match=r"tensor=4 does not divide model\.n_kv_heads=1"):
        sharding.divide(grouped, sharding.build_mesh("cpu", 8, 2, 4))
    adapted = Transformer(tiny.config(), 0)
    add_adapters(adapted)
    with pytest.raises(ConfigError, match=r"tensor=2 is not for adapters; use train\.dist"):
        sharding.divide(adapted, sharding.build_mesh("cpu", 8, 1, 2))


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("processes", MESHES)
def test_the_gradient_of_every_split_is_that_of_the_whole_batch(processes, tmp_path, table):
    asked = {"cases": [*CASES], "meshes": MESHES[processes], "splits": [*SPLITS]}
    (found,) = launched(processes, [["gradients", asked]], tmp_path)
    worst, name = max(found.values())
    exact = sum(error < EXACT for error, _ in found.values())
    meshes = ", ".join(f"{shard}x{tensor}" for shard, tensor in MESHES[processes])
    table(
        "A5",
        f"{processes} processes (shard x tensor {meshes}): {exact}/{len(found)} gradients, largest "
        f"relative error {worst:.1e} ({name})",
    )
    assert exact == len(found), {name: one for name, one in found.items() if one[0] >= EXACT}


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("processes", MESHES)
def test_five_steps_end_in_the_same_loss(processes, tmp_path, table):
    asked = {"cases": [*CASES], "meshes": MESHES[processes]}
    trained, begun = launched(processes, [["losses", asked], ["initial", asked]], tmp_path)
    worst = max(trained.values())
    table(
        "F1",
        f"{processes} processes, 5 steps of AdamW and Muon: {len(trained)} losses, largest relative "
        f"difference from one process {worst:.1e}",
    )
    assert worst < EXACT, trained
    assert all(begun.values()), begun


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("processes", MESHES)
def test_copies_take_the_gradients_of_the_first(processes, tmp_path, table):
    """Kernels of the other processes of "tensor" may differ in the last bits."""
    meshes = [mesh for mesh in MESHES[processes] if mesh[1] > 1]
    cases = [case for case in CASES if case != "adapters"]
    asked = [["disturbed", {"cases": cases, "meshes": meshes}]]
    found = [one for part in launched(processes, asked, tmp_path) for one in part.values()]
    equal = sum(map(all, found))
    table(
        "A5",
        f"{processes} processes (shard x tensor): {equal}/{len(found)} models have equal copies "
        "after disturbed gradients",
    )
    assert equal == len(found)


WORLDS = {"1": (1, [1, 1]), "2": (2, [2, 1]), "4": (4, [4, 1]), "2x2": (4, [2, 2])}


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_checkpoint_of_any_world_size_loads_in_any_other(kind, tmp_path, table):
    runs = {world: str(tmp_path / world) for world in WORLDS}
    common, saved, loaded = {"case": "encoder-decoder", "kind": kind}, {}, {}
    for count in (1, 2, 4):
        own = {world: mesh for world, (processes, mesh) in WORLDS.items() if processes == count}
        asked = [["save", common | {"mesh": mesh, "run": runs[w]}] for w, mesh in own.items()]
        saved |= dict(zip(own, launched(count, asked, tmp_path), strict=True))
    for count in (1, 2, 4):
        own = {world: mesh for world, (processes, mesh) in WORLDS.items() if processes == count}
        asked = [
            ["load", common | {"mesh": mesh, "runs": [*runs.values()]}] for mesh in own.values()
        ]
        loaded |= dict(zip(own, launched(count, asked, tmp_path), strict=True))
    pairs = [loaded[into][runs[of]] for of in WORLDS for into in WORLDS]
    same = sum(bits for bits, _ in pairs)
    losses = [loss for _, loss in pairs]
    table(
        "B5",
        f"{kind}: {same}/{len(pairs)} pairs of world sizes {', '.join(WORLDS)} load the same bits; "
        f"the next step's losses differ by {(max(losses) - min(losses)) / min(losses):.1e}",
    )
    assert same == len(pairs)
    assert len({one["tensors"] for one in saved.values()}) == 1
    assert max(losses) - min(losses) < EXACT * min(losses)
