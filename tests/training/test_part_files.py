"""One file for each process: of any division, each reads its own part."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor, Replicate, Shard

import tiny
from divided_checks import like
from glassformer.core.distributed.shards import own
from glassformer.core.errors import CheckpointError
from glassformer.models import Transformer
from glassformer.recipe.train import OptimizerConfig
from glassformer.training.folder.part_files import Part, load_parts, names_in, part_files, part_of
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.parallel import sharding

CUT = {  # along replicate, shard and tensor; None: every process has it whole
    "rows": ((11, 4), [Replicate(), Shard(0), Replicate()]),
    "both": ((7, 8), [Replicate(), Shard(0), Shard(1)]),
    "twice": ((12, 3), [Replicate(), Shard(0), Shard(0)]),
    "columns": ((3, 8), [Replicate(), Replicate(), Shard(1)]),
    "few": ((2,), [Replicate(), Shard(0), Replicate()]),
    "alone": ((5,), None),
    "step": ((), None),
}
WORLDS = [(1, 1, 1), (1, 2, 1), (1, 4, 1), (1, 2, 2), (2, 2, 2), (2, 1, 2), (1, 3, 1)]


def numbers(shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def divided(mesh, fill=numbers):
    """Each tensor as a process of the mesh has it."""
    found = {}
    for name, (shape, placements) in CUT.items():
        found[name] = full = fill(shape)
        if placements is not None:
            stride = full.stride()
            there = DTensor.from_local(
                torch.empty(0), mesh, placements, shape=full.shape, stride=stride
            )
            found[name] = like(full, there)
    return found


def saved(ranks, folder, axes):
    count = axes[0] * axes[1] * axes[2]
    for rank in range(count):
        ranks(rank, count)
        mesh = sharding.build_mesh("cpu", count, *axes[1:])
        part = part_of(divided(mesh), mesh)
        if part is not None:
            part.save(folder, "model")
    return part_files(folder, "model")


@pytest.mark.parametrize("of", WORLDS)
def test_files_of_any_division_load_in_any_other(ranks, tmp_path, of):
    files = saved(ranks, tmp_path, of)
    assert len(files) == of[1] * of[2]
    kept = [load_file(path) for path in files]
    total = sum(one.numel() for tensors in kept for one in tensors.values())
    assert total == sum(numbers(shape).numel() for shape, _ in CUT.values())  # each once
    assert names_in(files) == sorted(CUT)
    for into in WORLDS:
        count = into[0] * into[1] * into[2]
        for rank in range(count):
            ranks(rank, count)
            mesh = sharding.build_mesh("cpu", count, *into[1:])
            targets = divided(mesh, lambda shape: torch.full(shape, torch.nan))
            load_parts(targets, files)
            for name, one in targets.items():
                part = one.to_local() if isinstance(one, DTensor) else one
                assert torch.equal(part, own(numbers(CUT[name][0]), one)), (name, into, rank)


def test_a_model_and_its_optimizer_go_through_files(ranks, tmp_path):
    alone = Transformer(tiny.config(), 0)
    optimizer = Optimizer(alone, OptimizerConfig(kind="muon"))
    for one in alone.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step(1.0)
    weights, state = dict(alone.named_parameters()), optimizer.state()
    Part(weights | state).save(tmp_path, "all")
    files = part_files(tmp_path, "all")
    ranks(5, 8)
    model = Transformer(tiny.config(), None, "meta")
    sharding.divide(model, sharding.build_mesh("cpu", 8, 4, 2))
    sharding.materialize(model, None, "cpu")
    there = dict(model.named_parameters())
    again = Optimizer(model, OptimizerConfig(kind="muon"))
    blank = again.blank(name for name in names_in(files) if name not in there)
    load_parts(there | blank, files)
    found = there | again.state()
    assert found.keys() == (weights | state).keys()
    for name, one in (weights | state).items():
        part = found[name].to_local() if isinstance(found[name], DTensor) else found[name]
        assert torch.equal(part, own(one, found[name])), name
    with pytest.raises(CheckpointError, match=r"state 'x:momentum' is of no parameter"):
        again.blank(["x:momentum"])


def test_files_that_do_not_fit_are_refused(ranks, tmp_path):
    files = saved(ranks, tmp_path, (1, 4, 1))
    ranks(0, 2)
    mesh = sharding.build_mesh("cpu", 2, 2)
    whole = lambda: divided(mesh)
    with pytest.raises(CheckpointError, match=r"lacks new; it is of another"):
        load_parts(whole() | {"new": torch.zeros(1)}, files)
    with pytest.raises(CheckpointError, match=r"holds rows, which this model does not have"):
        load_parts({name: one for name, one in whole().items() if name != "rows"}, files)
    with pytest.raises(CheckpointError, match=r"alone has the shape \(5,\) in .* and \(6,"):
        load_parts(whole() | {"alone": torch.zeros(6)}, files)
    with pytest.raises(
        CheckpointError, match=r"alone holds torch.float32 .* torch.float64 in this"
    ):
        load_parts(whole() | {"alone": torch.zeros(5).double()}, files)
    with pytest.raises(CheckpointError, match=r"has 32 of the 44 numbers of rows; a file"):
        load_parts(whole(), [files[0], *files[2:]])
    files[1].unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00004.safetensors is missing"):
        part_files(tmp_path, "model")
    files[1].write_bytes(files[0].read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=r"00002-of-00004.safetensors is not a readable file"):
        load_parts(whole(), part_files(tmp_path, "model"))
    for where in ({"alone": [[5], [3]]}, {"alone": [[9], [0]]}, {}):  # behind the end; of others
        save_file({"alone": torch.zeros(5)}, files[1], {"parts": json.dumps(where)})
        with pytest.raises(CheckpointError, match=r"not a readable file of parts|numbers of rows"):
            load_parts(whole(), part_files(tmp_path, "model"))


def test_a_wrong_tensor_in_any_file_is_one_error_with_its_name(ranks, tmp_path):
    files = saved(ranks, tmp_path, (1, 2, 2))
    for path in files:
        content = path.read_bytes()
        with safe_open(path, "pt") as file:
            tensors, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
            where = json.loads(about["parts"])
        for name, one in tensors.items():
            others = {other: own for other, own in tensors.items() if other != name}
            alone = {other: own for other, own in where.items() if other != name}
            for changed, at in (
                (others, alone),
                (others | {"new": one}, alone | {"new": where[name]}),
                (others | {name: one.double()}, where),
                (
                    others | {name: one[None]},
                    alone | {name: [[1, *where[name][0]], [0] * (one.dim() + 1)]},
                ),
            ):
                save_file(changed, path, {"parts": json.dumps(at)})
                with pytest.raises(CheckpointError, match=rf"\b({name}|new)\b"):
                    load_parts(divided_alone(), files)
        path.write_bytes(content)
    load_parts(divided_alone(), files)


def divided_alone():
    """All of every tensor, to be filled."""
    return {name: torch.full(shape, torch.nan) for name, (shape, _) in CUT.items()}
