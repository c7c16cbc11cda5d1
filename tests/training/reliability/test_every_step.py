"""A2: resumed from any step, a run ends in the bits of one that never stopped."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from every import slow_but
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.history import read_metrics
from glassformer.training.loop.trainer import Trainer
from small_runs import go, hashes, losses, pair_file, pair_recipe, recipe
from small_senses import picture_folder, picture_recipe

DROPOUT = {"dropout": 0.2, "attention_dropout": 0.1}


def documents(folder: Path, **train) -> Recipe:
    """Packed documents, in parts, clipped, warm-up and cosine, the mean of three checkpoints."""
    lines = [{"text": "the cat sat " * (1 + n % 7)} for n in range(50)]
    (folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    how = {"batch_size": 6, "micro_batches": 3, "optimizer.max_grad_norm": 0.1}
    mean = {"save.average_checkpoints": 3, "save.keep_last": 60, "schedule.warmup_steps": 9}
    data = {"train.path": str(folder / "d.jsonl"), "documents": "separate"}
    return recipe(folder, model=DROPOUT, data=data, train=how | mean | train)


def at_once(folder: Path, **train) -> Recipe:
    """Parts at the same time, each with two dropouts; Muon; no validation, so each model is shown."""
    how = {"micro_batches": 4, "parallel_micro_batches": 2, "consistency": 0.5}
    how |= {"optimizer.kind": "muon", "schedule.kind": "wsd", "save.keep_last": 60}
    data = {"validation.fraction": 0.0}
    return recipe(folder, model=DROPOUT, data=data, train=how | train)


def pictures(folder: Path, **train) -> Recipe:
    """Augmented images, mixed with each other."""
    picture_folder(folder, n=88)
    augment = {"crop": 1, "flip": True, "mixup": 0.4}
    how = {"optimizer.layer_decay": 0.5, "label_smoothing": 0.1, "save.keep_last": 60}
    how |= {"batch_size": 4, "evaluate.best": "accuracy"}
    return picture_recipe(folder, model=DROPOUT, augment={"image": augment}, train=how | train)


def pairs(folder: Path, **train) -> Recipe:
    """An encoder-decoder on batches of like lengths, scored by what it decodes."""
    pair_file(folder, pairs=130)
    how = {"batch_tokens": 40, "schedule.kind": "inverse_sqrt", "label_smoothing": 0.1}
    how |= {"save.keep_last": 60, "save.average_checkpoints": 2, "evaluate.best": "exact_match"}
    return pair_recipe(folder, model=DROPOUT, train=how | train)


MAKERS = (documents, at_once, pictures, pairs)


def resumed_from(step: int, whole: Path, run: Path, made: Recipe) -> None:
    """Go on from a step of a whole run, in a folder that a kill at a later step could have left."""
    shutil.copytree(whole, run, copy_function=os.link)
    for other in Checkpoints(run).steps():
        if other > step:
            shutil.rmtree(Checkpoints(run).path(other))
    _, said = go(made, run, resume=True)
    assert (f"resuming at step {step}\n" in said) is (step > 0)
    assert hashes(run) == hashes(whole), step
    assert losses(run) == losses(whole), step


def test_every_step(tmp_path):
    made = documents(tmp_path, steps=8, **{"save.every": 1})
    go(made, tmp_path / "whole")
    for step in (0, 3, 7):
        resumed_from(step, tmp_path / "whole", tmp_path / f"{step}", made)


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.parametrize("make", MAKERS)
def test_every_step_of_three_epochs(tmp_path, table, make):
    """The whole run with two loader workers, the resumed ones with none and (every 15th) with two.
    Quick: `test_every_step`."""
    changes = {"steps": 60, "save.every": 1, "evaluate.every": 6}
    made = make(tmp_path, **changes, workers=2)
    go(made, tmp_path / "whole")
    for step in range(60):
        workers = 2 if step % 15 == 14 else 0
        again = make(tmp_path, **changes, workers=workers)
        resumed_from(step, tmp_path / "whole", tmp_path / f"{step}", again)
    table("A2", f"{make.__name__}: from 60 of 60 steps to the same bits")


@pytest.mark.parametrize("stop", slow_but([5, 7], 5))
def test_a_stop_between_saves_changes_neither_what_is_kept_nor_the_mean(
    tmp_path, monkeypatch, stop
):
    changes = {"steps": 10, "save.every": 2, "save.keep_last": 3, "evaluate.every": 100}
    made = documents(tmp_path, **changes)
    go(made, tmp_path / "whole")
    real = Trainer.advance

    def advance(self):
        real(self)
        if self.state.step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", advance)
        run = tmp_path / "x"
        assert go(made, run)[0].interrupted
    assert Checkpoints(run).steps()[-1] == stop
    go(made, run, resume=True)
    assert Checkpoints(run).steps() == Checkpoints(tmp_path / "whole").steps() == [6, 8, 10]
    assert read_metrics(run)[-1]["averaged"] == [6, 8, 10]
    assert hashes(run) == hashes(tmp_path / "whole")
    assert losses(run) == losses(tmp_path / "whole")
