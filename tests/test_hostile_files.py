"""Files of a run that are made by a stranger, and say that nothing was changed: a sentence or an
answer, no other error, no code, no connection."""

import shutil
from functools import cache

import pytest

from every import slow_but
from properties.hostile_code import hostile_code
from properties.mutated_files import Outcomes, mutated_files
from properties.shared_folder import read_while_trained, trained_twice
from small_kinds import MAKERS, run_of
from small_runs import go, recipe


@pytest.fixture(scope="module")
def run_of_kind(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return cache(lambda kind: run_of(kind, folder / kind))


@pytest.mark.parametrize("kind", slow_but(MAKERS, "text", "parts"))
def test_mutated_files_are_told_or_harmless(run_of_kind, tmp_path, kind):
    cases = 2 if kind == "text" else 1
    mutated_files(run_of_kind(kind), tmp_path, cases, found := Outcomes())
    assert found.problems == []
    assert found.cases >= cases * 8
    assert found.seconds < 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_hundreds_of_mutated_files(run_of_kind, tmp_path, kind):
    mutated_files(run_of_kind(kind), tmp_path, 400, found := Outcomes())
    assert found.problems == []


@pytest.mark.parametrize("every", slow_but([5, 1], 5))
def test_nothing_is_run_or_connected_to_while_a_run_is_opened(run_of_kind, tmp_path, every):
    cases, problems = hostile_code(run_of_kind("text"), tmp_path, every)
    assert cases == 30 // every
    assert problems == []


def test_who_reads_while_another_trains_sees_whole_models(tmp_path):
    """The model is replaced many times a second, and opened at the same time."""
    loads, problems = read_while_trained(tmp_path, 8)
    assert problems == []
    assert loads > 2


def test_of_two_trainings_in_a_folder_the_second_is_refused(tmp_path):
    refused, problems = trained_twice(tmp_path, 1)
    assert problems == []
    assert refused == 1


@pytest.mark.parametrize("train", [{"save.every": 4}, {"evaluate.every": 4}])
def test_a_run_folder_that_is_removed_while_training_is_one_sentence(tmp_path, monkeypatch, train):
    removed = "was removed or emptied during training; nothing can be saved"
    train = {"save.every": 100, "evaluate.every": 100} | train
    from glassformer.core.errors import CheckpointError
    from glassformer.training.loop.trainer import Trainer

    real = Trainer.advance

    def advance(self):
        if self.state.step == 3:
            shutil.rmtree(self.run)
        real(self)

    monkeypatch.setattr(Trainer, "advance", advance)
    with pytest.raises(CheckpointError, match=removed):
        go(recipe(tmp_path, train=train), tmp_path / "run")
    assert not (tmp_path / "run").exists()
