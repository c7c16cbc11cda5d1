"""Training in threads and beside a caller: nobody's random numbers, threads or results change."""

import json
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch
import yaml

from glassformer.core.cpu import cpu_threads
from glassformer.layers.dropout import drawn_by, dropout
from glassformer.recipe.recipe import Recipe
from glassformer.training.loop.trainer import Trainer
from small_runs import go, hashes, pair_recipe, recipe
from small_senses import picture_recipe
from small_tasks import masked_recipe

DROPOUT = {"dropout": 0.2, "attention_dropout": 0.1}


CALLER = """
import json, random, sys
import numpy as np
import torch
from pathlib import Path
from glassformer.recipe.recipe import Recipe
from glassformer.training.loop.train import train
for place in sys.argv[1:]:
    states = lambda: (
        torch.get_rng_state().tolist(),
        random.getstate(),
        [np.asarray(part).tolist() for part in np.random.get_state()],
        torch.get_num_threads(),
    )
    before = states()
    train(Recipe.parse(json.loads(Path(place, "recipe.json").read_text())), Path(place, "run"))
    print(states() == before)
"""


def test_the_generators_of_the_caller_are_as_before(tmp_path):
    """In a process of its own: here, the checks of shapes draw from `random`."""
    ways = [
        (recipe, {}),
        (recipe, {"micro_batches": 2, "parallel_micro_batches": 2}),
        (picture_recipe, {"workers": 2}),
    ]
    places = []
    for number, (maker, train) in enumerate(ways):
        made = maker(tmp_path, model=DROPOUT, train={"precision": "auto", "steps": 3, **train})
        places.append(tmp_path / str(number))
        places[-1].mkdir()
        (places[-1] / "recipe.json").write_text(json.dumps(made.values()))
    done = subprocess.run(
        [sys.executable, "-c", CALLER, *map(str, places)], capture_output=True, text=True
    )
    assert done.stdout.split() == ["True"] * len(places), done.stderr


def test_what_the_caller_draws_changes_nothing(tmp_path):
    made = recipe(tmp_path, model=DROPOUT)
    go(made, tmp_path / "x")
    torch.manual_seed(77)
    random.seed(77)
    np.random.seed(77)  # noqa: NPY002 - the state that a caller may have
    go(made, tmp_path / "y")
    assert hashes(tmp_path / "x") == hashes(tmp_path / "y")


def test_three_trainings_in_three_threads_are_those_of_three_alone(tmp_path, monkeypatch):
    makers = [recipe, pair_recipe, masked_recipe]
    made = [maker(tmp_path, model=DROPOUT, train={"seed": n}) for n, maker in enumerate(makers)]
    for number, own in enumerate(made):
        go(own, tmp_path / f"alone{number}")
    together, real = threading.Barrier(3, timeout=60), Trainer.advance

    def advance(self):  # step by step at the same time
        together.wait()
        real(self)
        torch.rand(3)  # as the caller's own threads may

    monkeypatch.setattr(Trainer, "advance", advance)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: go(made[n], tmp_path / f"together{n}"), range(3)))
    for number in range(3):
        assert hashes(tmp_path / f"together{number}") == hashes(tmp_path / f"alone{number}")


@pytest.mark.parametrize("compiled", [False, True])
def test_a_seed_draws_the_same_and_puts_the_generator_back(compiled):
    x, device, found = torch.ones(1000), torch.device("cpu"), []
    before = torch.get_rng_state()
    for _ in range(2):
        with drawn_by(7, device, compiled):
            found.append(dropout(x, 0.5))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*found)
    assert 300 < int((found[0] == 0).sum()) < 700


def test_the_generator_is_put_back_after_an_error():
    before = torch.get_rng_state()
    with suppress(RuntimeError), drawn_by(7, torch.device("cpu"), compiled=True):
        torch.rand(3)
        raise RuntimeError
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_are_those_asked_for_and_put_back():
    before = torch.get_num_threads()
    with cpu_threads(3):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with cpu_threads():
        torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before


def test_the_recipe_records_the_threads_and_resuming_keeps_them(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    with cpu_threads(3):
        go(recipe(tmp_path, train={"steps": 8}), tmp_path / "whole")
        go(recipe(tmp_path, train={"steps": 8}), tmp_path / "half")
    text = (tmp_path / "whole" / "recipe.yaml").read_text()
    assert text.startswith(f"# The last bits depend on torch {torch.__version__}, ")
    assert Recipe.parse(yaml.safe_load(text)).train.threads == 3
    more = recipe(tmp_path, train={"steps": 10})
    _, said = go(more, tmp_path / "half", resume=True)  # with another number by default
    assert "computing on cpu, 3 threads" in said
    with cpu_threads(3):
        go(more, tmp_path / "whole", resume=True)
    assert hashes(tmp_path / "half") == hashes(tmp_path / "whole")


def test_fewer_cores_than_the_run_had_are_told(tmp_path, monkeypatch):
    with cpu_threads(3):
        go(recipe(tmp_path), tmp_path / "x")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    _, said = go(recipe(tmp_path, train={"steps": 10}), tmp_path / "x", resume=True)
    assert "computing with 2 threads instead of 3" in said
    assert "computing on cpu, 2 threads" in said
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # each of two processes has one of them
    _, said = go(recipe(tmp_path, train={"steps": 12}), tmp_path / "x", resume=True)
    assert "computing with 1 thread instead of 2" in said
