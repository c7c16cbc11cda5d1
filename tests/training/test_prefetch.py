"""Batches made by worker processes are the same ones; what goes wrong in one is one sentence; none
is left behind."""

import multiprocessing

import pytest
import torch

from every import slow_but
from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.training.loop.batches import batches_ahead
from small_runs import go, hashes, losses, pair_recipe, recipe
from small_tasks import tag_recipe

MAKE = {"text": recipe, "pairs": pair_recipe, "tags": tag_recipe}


@pytest.mark.parametrize("make", slow_but(MAKE, "pairs"))
def test_any_number_of_workers_trains_the_same_model(tmp_path, make):
    for workers in (0, 2):
        go(
            MAKE[make](tmp_path, train={"workers": workers, "micro_batches": 2}),
            tmp_path / str(workers),
        )
    assert hashes(tmp_path / "0") == hashes(tmp_path / "2")
    assert losses(tmp_path / "0") == losses(tmp_path / "2")
    assert not multiprocessing.active_children()


def broken(step: int) -> list[Batch]:
    """Bad data at the third step."""
    if step == 2:
        raise DataError("photo.png ends too early; restore it")
    return [Batch(torch.tensor([[step]]))]


def number(batches: list[Batch]) -> int:
    (batch,) = batches
    return int(batch.elements)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_comes_at_its_step_as_it_was(workers):
    ahead = batches_ahead(broken, 0, 9, workers)
    assert [number(next(ahead)), number(next(ahead))] == [0, 1]
    with pytest.raises(DataError) as caught:
        next(ahead)
    assert str(caught.value) == "photo.png ends too early; restore it"
    assert not multiprocessing.active_children()


def test_whoever_stops_early_leaves_no_process(tmp_path):
    ahead = batches_ahead(broken, 3, 1000, 2)
    assert [number(next(ahead)) for _ in range(4)] == [3, 4, 5, 6]
    assert len(multiprocessing.active_children()) == 2
    ahead.close()
    assert not multiprocessing.active_children()


def test_nothing_to_do_is_nothing(tmp_path):
    assert list(batches_ahead(broken, 5, 5, 2)) == []
