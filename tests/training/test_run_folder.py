"""What a run folder holds in the end, and what it refuses to touch."""

import inspect
import io
import json
import os
import sys
from pathlib import Path

import pytest

from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.core.locks import LOCK
from glassformer.metrics.scores import SCORES
from glassformer.models.weights import load_model
from glassformer.processors.catalogue import PROCESSORS
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.catalogue import KINDS, kinds_of
from glassformer.training.loop.prepare import prepare
from small_runs import data_config, go, recipe, text_file
from small_tasks import class_recipe


def everything(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_folder_is_a_model_in_the_usual_layout(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path, generate={"temperature": 0.5}), run)
    names = {p.name for p in run.iterdir()}
    wanted = (
        "recipe.yaml metrics.jsonl report.html checkpoints config.json model.safetensors "
        "tokenizer.json"
    )
    assert names >= {*wanted.split(), "generation_config.json", "README.md"}
    assert not [name for name in names if name.startswith(".")]
    assert load_model(run).config.vocab_size > 0
    assert json.loads((run / "generation_config.json").read_text())["temperature"] == 0.5
    for path in run.rglob("*"):
        assert path.stat().st_mode & 0o444 == 0o444 & ~os.umask(os.umask(0)) or path.is_dir()


def test_the_card_says_what_from_what_and_how_good(tmp_path):
    run = tmp_path / "x"
    result, _ = go(recipe(tmp_path), run)
    card = (run / "README.md").read_text()
    for part in (
        "# x",
        "`text.txt`",
        "character",
        "step 8 of 8",
        f"{result.scores['loss']:.4f}",
        f"generate {run}",
    ):
        assert part in card
    assert str(tmp_path / "text.txt") not in card, (
        "a card tells nothing about the folders of its maker"
    )
    go(recipe(tmp_path, data={"validation.fraction": 0.0}), tmp_path / "y")
    assert "no validation split" in (tmp_path / "y" / "README.md").read_text()


def test_without_validation_the_model_is_the_last(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path, data={"validation.fraction": 0.0}), run)
    last = run / "checkpoints" / "step-00000008" / "model.safetensors"
    assert (run / "model.safetensors").read_bytes() == last.read_bytes()


def test_a_folder_with_a_run_or_a_model_is_refused(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path), run)
    before = everything(run)
    with pytest.raises(ConfigError, match="already holds a run at step 8; add --resume"):
        go(recipe(tmp_path), run)
    assert everything(run) == before
    other = tmp_path / "published"
    other.mkdir()
    (other / "model.safetensors").write_text("theirs")
    with pytest.raises(ConfigError, match="already holds a model"):
        go(recipe(tmp_path), other)
    assert {p.name for p in other.iterdir()} == {"model.safetensors"}


@pytest.mark.parametrize(
    "name",
    ["README.md", "tokenizer.json", "recipe.yaml", "tokens", ".tmp-notes", ".x.tmp", "thesis.tex"],
)
def test_files_of_others_are_never_replaced(tmp_path, name):
    place = tmp_path / "project"
    place.mkdir()
    (place / name).write_text("theirs")
    with pytest.raises(ConfigError, match=f"already holds {name}"):
        go(recipe(tmp_path), place)
    assert everything(place) == {place / name: b"theirs"}


def test_a_run_that_never_saved_may_begin_anew(tmp_path):
    run = tmp_path / "x"
    with pytest.raises(DataError, match="a training sequence needs"):
        go(recipe(tmp_path, model={"max_length": 100_000}), run)
    assert go(recipe(tmp_path), run)[0].steps == 8


def test_a_new_attempt_reads_standard_input_again(tmp_path, monkeypatch):
    run, made = tmp_path / "x", recipe(tmp_path, data={"train.path": "-"})
    for text, resume, kept in (("one", False, "one"), ("two", False, "two"), ("", True, "two")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        prepare(made, run, resume, 1, lambda said: None)
        assert (run / "stdin.txt").read_text() == kept
        (run / LOCK).touch()


def test_a_file_is_no_run_folder(tmp_path):
    (tmp_path / "x").write_text("")
    for place in (tmp_path / "x", tmp_path / "x" / "y"):
        with pytest.raises(CheckpointError, match=r"Cannot write .*x.*; choose another place"):
            go(recipe(tmp_path), place)


@pytest.mark.parametrize(
    ("task", "changes", "sentence"),
    [
        (
            "text-generation",
            {"architecture": "encoder", "position": "learned"},
            r"^model\.architecture='encoder' is not for task='text-generation'; use decoder, or leave",
        ),
        (
            "fill-mask",
            {"architecture": "decoder"},
            "'decoder' is not for .*; use encoder, or leave",
        ),
        (
            "text-generation",
            {"head": "none"},
            r"^model\.head='none' is not for .*; use lm, or leave",
        ),
        ("text-to-text", {"architecture": "encoder_decoder", "head": "none"}, "head='none' is not"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, task, changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        go(recipe(tmp_path, task=task, model=changes), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_vectors_alone_are_nothing_to_train(tmp_path):
    with pytest.raises(
        ConfigError, match=r"^task=feature-extraction is nothing to train; train an"
    ):
        go(
            class_recipe(tmp_path, task="feature-extraction", model={"head": "none"}),
            tmp_path / "x",
        )
    assert not (tmp_path / "x").exists()


def test_a_text_that_is_missing_or_unset_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"no data\.train\.path"):
        go(recipe(tmp_path, data={"train.path": None}), tmp_path / "x")
    with pytest.raises(DataError, match="nothing"):
        go(recipe(tmp_path, data={"train.path": str(tmp_path / "nothing")}), tmp_path / "x")


def test_paths_become_absolute_so_that_a_run_works_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    data = recipe(
        tmp_path, data={"train.path": ["a.txt", "~/b.txt", "/c/*.txt"], "store": "s"}
    ).data
    home = tmp_path / "home" / "b.txt"
    assert data.absolute().train.path == [str(tmp_path / "a.txt"), str(home), "/c/*.txt"]
    assert data.absolute().store == str(tmp_path / "s")
    rooted = data_config({"root": "~/r", "train.path": "a.txt", "validation.path": "v.txt"})
    assert rooted.absolute().train.path == str(tmp_path / "home" / "r" / "a.txt")
    assert rooted.absolute().validation.path == str(tmp_path / "home" / "r" / "v.txt")
    assert rooted.absolute().absolute() == rooted.absolute()


def test_a_run_resumes_from_another_folder(tmp_path, monkeypatch):
    from glassformer.recipe.reading import read_recipe

    text_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    go(recipe(tmp_path, data={"train.path": "text.txt"}), tmp_path / "x")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    own = read_recipe(tmp_path / "x" / "recipe.yaml", ["train.steps=9"])
    assert go(own, tmp_path / "x", resume=True)[0].steps == 9


def test_every_task_and_every_processor_is_whole():
    """Whoever adds one is told at once what it lacks."""
    kinds = (*(of.objective for of in KINDS.values()), *PROCESSORS.values())
    assert not any(map(inspect.isabstract, kinds))
    assert KINDS.keys() == PIPELINES.keys()
    for name, of in PIPELINES.items():
        assert set(of.inputs) <= PROCESSORS.keys()
        for given in of.inputs:
            recipe = Recipe.parse({"task": name, "processor": {"input": given}})
            kind = KINDS[name]
            assert kinds_of(recipe) == (kind, PROCESSORS[given])
            assert kind.uses(given)
            assert set(kind.metrics(given)) <= SCORES.keys()
