"""Checkpoints are whole, found by looking, and passed over when they are not."""

import json
import shutil

import pytest
import torch

from glassformer.errors import CheckpointError
from glassformer.models import ModelConfig, Transformer
from glassformer.recipe.train import SaveConfig
from glassformer.training.checkpoint import FILES, Checkpoints, State
from small_runs import go, hashes, recipe


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
        checkpoints.save(model(step), {"a:b": torch.full((2,), step)}, state)
    return checkpoints


def test_what_was_saved_comes_back(tmp_path):
    checkpoints = saved(tmp_path, 3, 7)
    assert checkpoints.steps() == [3, 7]
    assert checkpoints.newest() == (State(7, "d"), {})
    made = model()
    assert checkpoints.load(3, made)["a:b"].tolist() == [3, 3]
    assert (made.embed.element.weight == 3).all()
    assert {p.name for p in checkpoints.path(3).iterdir()} == {*FILES, "manifest.json"}


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


DAMAGES = ["flip", "cut", "delete", "empty", "no manifest", "another step", "not a folder"]


def damage(folder, how: str, name: str) -> None:
    file = folder / name
    match how:
        case "flip":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 16
            file.write_bytes(content)
        case "cut":
            file.write_bytes(file.read_bytes()[:-3])
        case "delete":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "another step":
            shutil.rmtree(folder)
            shutil.copytree(folder.parent / "step-00000003", folder)
        case "not a folder":
            shutil.rmtree(folder)
            folder.write_text("")


OF_A_FILE = [(how, name) for how in DAMAGES[:4] for name in (*FILES, "manifest.json")]


@pytest.mark.parametrize(
    ("how", "name"), [*OF_A_FILE, *((how, "state.json") for how in DAMAGES[4:])]
)
def test_damage_in_the_newest_is_passed_over_for_the_older_with_a_reason(tmp_path, how, name):
    checkpoints = saved(tmp_path, 3, 7)
    damage(checkpoints.path(7), how, name)
    state, passed = checkpoints.newest()
    assert state.step == 3
    assert len(passed) == 1
    assert "step-00000007" in passed[7]


def test_nothing_whole_is_one_error(tmp_path):
    checkpoints = saved(tmp_path, 3, 7)
    for step in (3, 7):
        damage(checkpoints.path(step), "cut", "model.safetensors")
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        checkpoints.newest()
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        Checkpoints(tmp_path / "other").newest()


def test_every_flipped_byte_is_found(tmp_path):
    checkpoints = saved(tmp_path, 3, 7)
    folder = checkpoints.path(7)
    for name in (*FILES, "manifest.json"):
        whole = (folder / name).read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 40)):
            changed = bytearray(whole)
            changed[at] ^= 1
            (folder / name).write_bytes(changed)
            try:
                assert checkpoints.newest()[0].step == 3, (name, at)
            except AssertionError:
                # white space and the format's number in the manifest say nothing about the files
                if (
                    name != "manifest.json"
                    or json.loads(changed)["files"] != json.loads(whole)["files"]
                ):
                    raise
        (folder / name).write_bytes(whole)


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
