"""Checkpoints are whole, found by looking, and passed over when they are not."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import load_tensors
from glassformer.recipe.train import SaveConfig
from glassformer.training.folder import checkpoints as module
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import fill, tensors_to_save
from glassformer.training.folder.part_files import Part
from small_runs import go, hashes, losses, recipe


def model(fill: float = 0.0) -> Transformer:
    made = Transformer(
        ModelConfig.parse({"vocab_size": 5, "d_model": 4, "n_layers": 1, "n_heads": 1})
    )
    with torch.no_grad():
        made.embed.element.weight.fill_(fill)
    return made


def saved(folder, *steps: int, keep: int = 10, best: int | None = None) -> Checkpoints:
    checkpoints = Checkpoints(folder, SaveConfig(keep_last=keep))
    for step in steps:
        state = State(step, "d", best_step=best, best_score=1.0 if best else None)
        moments = {"a:b": torch.full((2,), step)}
        checkpoints.save(Part(tensors_to_save(model(step))), Part(moments), state)
    return checkpoints


def test_what_was_saved_comes_back(tmp_path):
    checkpoints = saved(tmp_path, 3, 7)
    assert checkpoints.steps() == [3, 7]
    assert checkpoints.newest() == (State(7, "d"), {})
    made = model()
    fill(checkpoints, 3, made)
    assert (made.embed.element.weight == 3).all()
    tensors = load_tensors(checkpoints.path(3) / "optimizer.safetensors")
    assert tensors["a:b"].tolist() == [3, 3]
    names = {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}
    assert {p.name for p in checkpoints.path(3).iterdir()} == names


def test_the_newest_and_the_best_are_kept(tmp_path):
    saved(tmp_path, 1, 2, 3, 4, 5, keep=2, best=2)
    assert Checkpoints(tmp_path).steps() == [2, 4, 5]
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text()) == {
        "step": 2,
        "score": 1.0,
    }


def test_a_damaged_later_step_does_not_cost_the_good_ones(tmp_path):
    """After a fall back to step 2, a broken folder of step 9 must not count among the newest that
    are kept."""
    saved(tmp_path, 2, 9)
    (tmp_path / "checkpoints" / "step-00000009" / "state.json").unlink()
    checkpoints = saved(tmp_path, 3, 4, keep=1)
    assert checkpoints.steps() == [4]
    assert checkpoints.newest()[0].step == 4


def test_ten_million_and_more_steps_are_found(tmp_path):
    assert saved(tmp_path, 99_999_999, 123_456_789).newest()[0].step == 123_456_789


def test_other_names_are_no_checkpoints(tmp_path):
    checkpoints = saved(tmp_path, 3)
    for name in (".tmp-step-00000009", "step-9", "step-00000009x", "xstep-00000009", "best"):
        (checkpoints.folder / name).mkdir()
    assert checkpoints.steps() == [3]
    checkpoints.sweep()
    assert not (checkpoints.folder / ".tmp-step-00000009").exists()


def damage(folder, how: str, name: str) -> None:
    """See `reliability/test_damage.py` for all the others."""
    file = folder / name
    content = file.read_bytes()
    file.write_bytes(content[:-3] if how == "cut" else content[:-3] + bytes(3))


def test_nothing_whole_is_one_error(tmp_path):
    checkpoints = saved(tmp_path, 3, 7)
    for step in (3, 7):
        damage(checkpoints.path(step), "cut", "model.safetensors")
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        checkpoints.newest()
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        Checkpoints(tmp_path / "other").newest()


def test_a_run_goes_on_from_the_older_and_ends_in_the_same_bits(tmp_path):
    made = recipe(tmp_path)
    go(made, tmp_path / "whole")
    go(recipe(tmp_path, train={"steps": 6, "schedule.kind": "constant"}), tmp_path / "x")
    go(recipe(tmp_path, train={"schedule.kind": "constant"}), tmp_path / "y")
    damage(tmp_path / "x" / "checkpoints" / "step-00000006", "flip", "model.safetensors")
    _, said = go(recipe(tmp_path, train={"schedule.kind": "constant"}), tmp_path / "x", resume=True)
    assert "passed over" in said
    assert "resuming at step 4" in said
    assert hashes(tmp_path / "x") == hashes(tmp_path / "y") != hashes(tmp_path / "whole")


def test_a_run_of_damaged_checkpoints_is_one_sentence_and_stays_as_it_is(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path), run)
    for folder in (run / "checkpoints").glob("step-*"):
        damage(folder, "cut", "optimizer.safetensors")
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        go(recipe(tmp_path, train={"steps": 20}), run, resume=True)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def kept_run(folder, **changes) -> Path:
    """A run of eight steps with a checkpoint of every other one."""
    go(recipe(folder, train={"save.keep_last": 4, **changes}), folder / "whole")
    shutil.copytree(folder / "whole", folder / "x")
    return folder / "x"


def files(run: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}


def test_a_run_goes_on_from_the_step_that_is_named(tmp_path):
    run, made = kept_run(tmp_path), recipe(tmp_path, train={"save.keep_last": 4})
    damage(run / "checkpoints" / "step-00000008", "cut", "model.safetensors")  # of no use anyway
    _, said = go(made, run, resume=True, checkpoint=4)
    assert "resuming at step 4" in said
    assert "passed over" not in said
    whole = tmp_path / "whole"
    assert hashes(run) == hashes(whole)
    assert losses(run) == losses(whole)
    assert Checkpoints(run).steps() == [2, 4, 6, 8]
    assert {p.relative_to(run) for p in files(run)} == {p.relative_to(whole) for p in files(whole)}


def test_the_best_before_a_named_step_may_be_gone(tmp_path):
    """A later one, which comes again, was better."""
    made = recipe(tmp_path)
    go(made, tmp_path / "whole")
    assert Checkpoints(tmp_path / "whole").steps() == [6, 8]
    shutil.copytree(tmp_path / "whole", run := tmp_path / "x")
    _, said = go(made, run, resume=True, checkpoint=6)
    assert "the best model, of step 4, cannot be restored: " in said
    assert "step-00000004/model.safetensors is missing" in said
    assert hashes(run) == hashes(tmp_path / "whole")


def test_a_step_that_is_named_is_that_one_or_an_error(tmp_path):
    run, made = kept_run(tmp_path), recipe(tmp_path, train={"save.keep_last": 4})
    damage(run / "checkpoints" / "step-00000004", "flip", "model.safetensors")
    before = files(run)
    for step, resume, error, told in (
        (4, True, CheckpointError, r"step-00000004/model\.safetensors is not .* damaged"),
        (3, True, ConfigError, r"no checkpoint of step 3 in .*; it has 2, 4, 6, 8"),
        (8, True, ConfigError, r"checkpoint=8 .* train\.steps=8 end there; give more"),
        (2, False, ConfigError, r"checkpoint=2 is the step to go on from; add --resume"),
    ):
        with pytest.raises(error, match=told):
            go(made, run, resume, step)
    assert files(run) == before


def test_a_run_that_is_killed_while_it_goes_back_can_go_on(tmp_path, monkeypatch):
    """The newest checkpoints go first, and the log last."""
    run, made = kept_run(tmp_path), recipe(tmp_path, train={"save.keep_last": 4})
    real = module.remove_folder

    def remove(path):
        if path.name == "step-00000006":
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(module, "remove_folder", remove)
    with pytest.raises(KeyboardInterrupt):
        go(made, run, resume=True, checkpoint=2)
    monkeypatch.undo()
    assert Checkpoints(run).steps() == [2, 4, 6]
    go(made, run, resume=True)
    assert hashes(run) == hashes(tmp_path / "whole")
    assert losses(run) == losses(tmp_path / "whole")


def test_processes_that_are_started_again_do_not_go_back_again(tmp_path, monkeypatch):
    run, made = kept_run(tmp_path), recipe(tmp_path, train={"steps": 10})
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    _, said = go(made, run, resume=True, checkpoint=2)
    assert "resuming at step 2" in said
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    _, said = go(recipe(tmp_path, train={"steps": 12}), run, resume=True, checkpoint=2)
    assert "resuming at step 10" in said
