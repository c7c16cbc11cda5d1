"""Several processes train what one trains: the same bits in deterministic mode, the same data and
scores in any."""

import json
from pathlib import Path

import pytest

from glassformer.recipe.recipe import Recipe
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import go, hashes, laid, losses, pair_recipe, recipe
from small_senses import picture_recipe
from small_tasks import class_recipe, masked_recipe, tag_recipe
from torchrun import train_together

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
