"""What is opened is what was saved: every file of a model, wherever a model is read."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import glassformer as gf
from command_line import tree
from glassformer.core.errors import CheckpointError, DataError
from glassformer.models.weights import save_weights
from glassformer.training.folder.model_files import INPUTS, MODEL, accept_changed
from glassformer.training.loop.train import train
from properties.resource_bombs import resource_bombs
from small_drawings import recipe as drawing_recipe
from small_runs import go, hashes, pair_recipe, recipe, stopped_after
from small_senses import picture_recipe
from small_tasks import class_recipe


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Runs whose models have every kind of file between them."""
    folder = tmp_path_factory.mktemp("runs")
    separate = {"processor": {"tokenizer": {"shared": False}}, "train": {"steps": 4}}
    (folder / "pairs.tsv").write_text(
        "".join(f"{'abc'[i % 3]}\t{'xyz'[i % 3]}\n" for i in range(60))
    )
    made = {
        "text": recipe(folder, train={"steps": 4}),
        "pairs": pair_recipe(folder, **separate),
        "pictures": picture_recipe(folder, train={"steps": 2}),
        "drawings": drawing_recipe(folder, train={"steps": 2}),
    }
    for name, own in made.items():
        go(own, folder / "runs" / name)
    return {name: folder / "runs" / name for name in made}


def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def flip(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


FILES = [
    *(("text", name) for name in ("recipe.yaml", "tokenizer.json", *sorted(MODEL))),
    *[("pairs", "source_tokenizer.json"), ("pictures", "image.json"), ("drawings", "palette.json")],
]


def test_every_file_of_a_model_is_in_the_manifest(runs):
    listed = {
        name: set(json.loads((run / "manifest.json").read_text())["files"])
        for name, run in runs.items()
    }
    there = {name: {file.name for file in run.iterdir()} for name, run in runs.items()}
    assert listed == {name: own & (MODEL | INPUTS) for name, own in there.items()}
    assert all(name in listed[run] for run, name in FILES)


@pytest.mark.parametrize(("name", "file"), FILES)
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_file_that_was_changed_is_named(runs, tmp_path, name, file, damage):
    run = copied(runs[name], tmp_path)
    damage(run / file)
    before = tree(run)
    with pytest.raises(CheckpointError, match=rf"{run}(/{file})?:? ") as caught:
        gf.load(run)
    if file not in ("config.json", "model.safetensors"):  # whose own sentences come first
        assert f"`glassformer verify {run} --accept-changed`" in str(caught.value)
    assert tree(run) == before


def test_a_change_that_is_accepted_is_recorded(runs, tmp_path, cli):
    run = copied(runs["text"], tmp_path)
    text = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(text.replace("temperature: 1.0", "temperature: 0.5"))
    with pytest.raises(CheckpointError, match=r"recipe\.yaml is not as it was written"):
        gf.load(run)
    assert gf.load(run, accept_changed=True).options().temperature == 0.5
    with pytest.raises(CheckpointError, match=r"recipe\.yaml is not as it was written"):
        gf.load(run)
    assert cli("verify", run, "--accept-changed").code == 0
    assert gf.load(run).options().temperature == 0.5


def test_accepting_without_a_run_is_one_sentence(refused, tmp_path):
    said = refused("verify", "--accept-changed", code=2, keep=tmp_path)
    assert "--accept-changed is for the files of a RUN" in said


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_checkpoint_that_was_changed_is_not_looked_at(runs, tmp_path, damage):
    run = copied(runs["text"], tmp_path)
    damage(run / "checkpoints" / "step-00000002" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"step-00000002/model\.safetensors .*damaged"):
        gf.load(run, checkpoint=2)
    assert gf.load(run, checkpoint=4).model


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_training_does_not_begin_with_a_model_that_was_changed(runs, tmp_path, file):
    start = copied(runs["text"], tmp_path)
    flip(start / file)
    made = recipe(tmp_path, train={"init_from": str(start)})
    with pytest.raises(CheckpointError, match=rf"{start}/{file}"):
        go(made, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("file", ["recipe.yaml", "tokenizer.json"])
def test_a_run_whose_tokenizer_was_changed_is_not_resumed(runs, tmp_path, file):
    run = copied(runs["text"], tmp_path)
    flip(run / file)
    before = tree(run)
    made = recipe(runs["text"].parents[1], train={"steps": 6})
    with pytest.raises(CheckpointError, match=rf"{run}/{file} is not as it was written"):
        train(made, run, resume=True)
    assert tree(run) == before


def test_a_run_that_has_no_model_yet_is_not_to_be_verified(tmp_path):
    with stopped_after(1):
        go(made := recipe(tmp_path), tmp_path / "run")
    flip(tmp_path / "run" / "recipe.yaml")
    with pytest.raises(CheckpointError, match="or begin anew in another folder"):
        train(made, tmp_path / "run", resume=True)


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_damaged_model_is_made_again_from_its_checkpoint(runs, tmp_path, damage):
    run, made = copied(runs["text"], tmp_path), recipe(runs["text"].parents[1], train={"steps": 4})
    damage(run / "model.safetensors")
    train(made, run, resume=True)
    assert hashes(run) == hashes(runs["text"])
    assert gf.load(run).model


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(runs, tmp_path, value):
    run = copied(runs["text"], tmp_path)
    model = gf.load(run).model
    with torch.no_grad():
        model.embed.element.weight[3, 5] = value
    save_weights(model, run / "model.safetensors")
    accept_changed(run)
    with pytest.raises(CheckpointError, match=r"embed\.element\.weight holds values that are not"):
        gf.load(run)


def test_what_would_take_hours_or_terabytes_is_refused_at_once(tmp_path):
    """Before anything is allocated: at most 1 s and 200 MB (`reliability.md`, C3)."""
    cases, seconds, megabytes, problems = resource_bombs(tmp_path)
    assert cases > 10
    assert problems == []
    assert seconds < 1
    assert megabytes < 200


@pytest.mark.parametrize("maker", [recipe, pair_recipe])
def test_a_run_goes_on_from_its_tokens_when_the_data_are_gone(tmp_path, maker):
    whole, run = tmp_path / "whole", tmp_path / "run"
    go(maker(tmp_path), whole)
    with stopped_after(5):
        go(made := maker(tmp_path), run)
    Path(str(made.data.train.path)).rename(tmp_path / "elsewhere")
    _, said = go(made, run, resume=True)
    assert "the data are not where they were; going on with what the run keeps of them" in said
    assert hashes(run) == hashes(whole)


def test_data_that_no_run_keeps_are_asked_for(tmp_path):
    made = class_recipe(tmp_path, train={"steps": 4})
    go(made, tmp_path / "run")
    Path(str(made.data.train.path)).unlink()
    before = tree(tmp_path / "run")
    with pytest.raises(DataError, match="there is no file"):
        train(made, tmp_path / "run", resume=True)
    assert tree(tmp_path / "run") == before
