"""Several processes train what one trains: the same bits in deterministic mode, the same data and
scores in any."""

import json
import re
import shutil
from pathlib import Path

import pytest

from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.checkpoints import Checkpoints
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import (
    IN_OTHER_ORDER,
    go,
    hashes,
    laid,
    largest_difference,
    losses,
    pair_recipe,
    recipe,
)
from small_senses import picture_recipe
from small_tasks import class_recipe, masked_recipe, tag_recipe
from torchrun import torchrun, train_together

IN_ORDER = {
    "train.distributed.deterministic": True,
    "train.micro_batches": 4,
    "train.batch_size": 8,
    "train.threads": 1,
    "train.steps": 6,
    "train.evaluate.every": 3,
    "train.save.every": 3,
    "train.workers": 0,
}


MAKERS = {
    "language model": lambda folder: recipe(folder, model={"dropout": 0.2}),
    "muon": lambda folder: recipe(folder, train={"optimizer.kind": "muon", "workers": 1}),
    "masked": masked_recipe,
    "translator": lambda folder: pair_recipe(folder, model={"dropout": 0.1}),
    "tags": tag_recipe,
    "classes": class_recipe,
    "images": picture_recipe,
    "parts": parts_recipe,
    "drawing": drawing_recipe,
}
"""A recipe of every kind of task and architecture."""


def recipes(folder: Path) -> dict[str, Recipe]:
    made = {}
    for name, make in MAKERS.items():
        (folder / name).mkdir()
        made[name] = Recipe.parse(laid(make(folder / name).values(), IN_ORDER))
    return made


@pytest.mark.slow
@pytest.mark.reliability
def test_one_two_and_four_processes_end_in_the_same_bits(tmp_path, table):
    """A3, A9: weights, optimizer, losses, scores; also of a run by four, one, two and four."""
    made = recipes(tmp_path)
    for name, one in made.items():
        go(one, tmp_path / f"{name} 1")
    for count in (2, 4):
        runs = [(tmp_path / f"{name} {count}", one, False, None) for name, one in made.items()]
        train_together(count, runs, tmp_path)
    for count, resume, stop in (4, False, 1), (1, True, 3), (2, True, 4), (4, True, None):
        runs = [(tmp_path / f"{name} path", one, resume, stop) for name, one in made.items()]
        train_together(count, runs, tmp_path)
    for name in made:
        wanted = tmp_path / f"{name} 1"
        for other in "2", "4", "path":
            run = tmp_path / f"{name} {other}"
            assert hashes(run) == hashes(wanted), (name, other)
            assert json.dumps(losses(run)) == json.dumps(losses(wanted)), (name, other)
    table("A3", f"{len(made)} kinds of runs by 1, 2, 4 and 4-1-2-4 processes: one hash each")
    table("A9", f"validation scores of {len(made)} kinds by 1, 2 and 4 processes: equal bits")


@pytest.mark.slow
@pytest.mark.reliability
def test_divided_models_learn_what_whole_ones_do(tmp_path, table):
    """FSDP2, hybrid, tensor parallelism and both; also of a run that goes from one to another.

    A division adds in other orders: losses of six steps in float32 differ in their last bits.
    """
    made = {
        name: Recipe.parse(laid(one.values(), {"train.distributed": {"deterministic": False}}))
        for name, one in recipes(tmp_path).items()
    }
    for name, one in made.items():
        go(one, tmp_path / f"{name} 1")
    ways = {"shard": (2, 2, 1), "tensor": (2, 1, 2), "hybrid": (4, 2, 1), "both": (4, 2, 2)}
    for way, (count, *sizes) in ways.items():
        train_together(
            count, [run(tmp_path, way, name, one, *sizes) for name, one in made.items()], tmp_path
        )
    for way, resume, stop in ("both", False, 2), ("shard", True, 4), ("tensor", True, None):
        count, *sizes = ways[way]
        path = [
            run(tmp_path, "path", name, one, *sizes, resume, stop) for name, one in made.items()
        ]
        train_together(count, path, tmp_path)
    worst = max(
        largest_difference(tmp_path / f"{name} 1", tmp_path / f"{name} {way}")
        for name in made
        for way in (*ways, "path")
    )
    assert worst < IN_OTHER_ORDER
    table(
        "F1", f"{len(made)} kinds of runs divided in 5 ways: losses differ by {worst:.1e} at most"
    )


IN_PARTS = """
import json, sys
from pathlib import Path
from glassformer.core.errors import CheckpointError
from glassformer.recipe.recipe import Recipe
from glassformer.training import train
from glassformer.training.folder.part_files import Part

run, values, refused, checkpoint = json.loads(sys.argv[1])
real = Part.save
def save(self, folder, stem):
    if self.number == 3 and folder.name == f".tmp-step-{refused:08d}":
        raise CheckpointError("Cannot write the last part.")
    return real(self, folder, stem)
Part.save = save
train(Recipe.parse(values), Path(run), checkpoint is not None, checkpoint=checkpoint)
"""
"""A run; the last process cannot write the step `refused`."""


@pytest.mark.slow
@pytest.mark.reliability
def test_a_divided_model_is_saved_in_parts(tmp_path, table):
    """B2, B4: the same bits in the background, on from a named step, and after a save that one of
    four processes could not write; quick: `test_refusals.py`, `test_checkpoint.py`."""
    saves = {"train.save.every": 1, "train.save.keep_last": 9, "train.evaluate.every": 2}
    divided = {"deterministic": False, "shard": 2, "tensor": 2}
    made = laid(recipe(tmp_path).values(), {**IN_ORDER, **saves, "train.distributed": divided})
    beside = laid(made, {"train.save.background": True})
    wanted, runs = tmp_path / "foreground", {"background": (beside, 0, None)}
    runs |= {"refused": (made, 3, None), "refused beside": (beside, 3, None)}
    runs |= {"named": (made, 0, 2), "named beside": (beside, 0, 2)}
    for name, (values, refused, checkpoint) in {"foreground": (made, 0, None), **runs}.items():
        folder = tmp_path / name
        if checkpoint is not None:
            shutil.copytree(wanted, folder)
        given = json.dumps([str(folder), values, refused, checkpoint])
        done = torchrun(4, "-c", IN_PARTS, given)
        assert done.returncode == 0, done.stderr
        told = re.findall(
            r"refused to save \(1 in a row; 3 end the run\): In process \d: Cannot write the",
            done.stderr,
        )
        assert len(told) == bool(refused)
        assert hashes(folder) == hashes(wanted)
        assert losses(folder) == losses(wanted)
        assert Checkpoints(folder).steps() == [n for n in range(1, 7) if n != refused]
        for step in Checkpoints(folder).steps():
            Checkpoints(folder).check(step)
            assert len([*Checkpoints(folder).path(step).glob("*-of-00004.*")]) == 8
    table("B4", f"4 processes, a file each: {len(runs)} ways to save end in the same bits")


def run(folder, way, name, one, shard, tensor, resume=False, stop=None):
    sizes = {"train.distributed.shard": shard, "train.distributed.tensor": tensor}
    return folder / f"{name} {way}", Recipe.parse(laid(one.values(), sizes)), resume, stop
