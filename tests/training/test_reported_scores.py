"""What training reports of a step is what its checkpoint does: scores, samples, and the best."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
import small_chat
from command_line import tree
from glassformer.errors import ConfigError
from glassformer.layers import cpu_kernels
from glassformer.recipe.recipe import Recipe
from glassformer.run import checkpoints as checkpoints_module
from glassformer.run.checkpoints import (
    CheckpointScores,
    ReportCheck,
    best,
    check_report,
    checkpoint_scores,
    choose,
    taken_mean,
)
from glassformer.run.evaluating import own_data
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.text_to_text import PairsToText
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.history import read_metrics, scores_at
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import Killed, go, laid, pair_recipe, recipe
from small_senses import sound_recipe
from small_tasks import class_recipe, masked_recipe, tag_recipe
from torchrun import train_together

STEPS = 2, 4, 6
TRAIN = {
    **{"steps": 6, "evaluate.every": 2, "save.every": 2, "save.keep_last": 3},
    **{"sample.every": 2, "sample.tokens": 6, "evaluate.batches": None},
    **{"schedule.warmup_steps": 1, "optimizer.learning_rate": 0.02},
}
DECODING = {"evaluate.decode_lines": None}
ADAMW, MUON = {"optimizer.kind": "adamw"}, {"optimizer.kind": "muon"}
ROUNDING = 1e-5
"""Relative: other sizes of batches add float32 in another order."""


def chat_recipe(folder: Path, **changes: Any) -> Recipe:
    path = small_chat.written(folder / "talk.jsonl", small_chat.rows(40))
    values = laid(small_chat.RECIPE, {"data.train.path": str(path), **changes})
    return Recipe.parse(values)


def tuned_recipe(folder: Path, **changes: Any) -> Recipe:
    """LoRA on a language model whose head is no embedding."""
    if not (folder / "base").exists():
        plain = recipe(folder, model={"tied": False}, train={"steps": 2, "save.every": 2})
        go(plain, folder / "base")
    adapters = {"init_from": str(folder / "base"), "finetune.method": "lora", "finetune.rank": 2}
    adapters |= {"finetune.targets": ["q_proj", "up_proj"], **changes.pop("train")}
    return recipe(folder, model={"tied": False}, train=adapters, **changes)


KINDS = {
    "text, muon, tied": (recipe, MUON, {"tied": True}),
    "text, adamw, own head": (recipe, ADAMW, {"tied": False}),
    "text, lora": (tuned_recipe, ADAMW, {}),
    "messages": (chat_recipe, MUON, {"tied": True}),
    "pairs, muon, tied": (pair_recipe, MUON | DECODING | {"evaluate.best": "chrf"}, {"tied": True}),
    "pairs, adamw, own head": (pair_recipe, ADAMW | DECODING, {"tied": False}),
    "parts": (parts_recipe, MUON | DECODING, {"tied": True}),
    "drawings": (drawing_recipe, ADAMW, {"tied": False}),
    "masked": (masked_recipe, ADAMW, {"tied": True}),
    "tags": (tag_recipe, ADAMW | {"evaluate.best": "accuracy"}, {}),
    "classes": (class_recipe, MUON | {"evaluate.best": "accuracy"}, {}),
    "sounds": (sound_recipe, ADAMW, {}),
}


def recipe_of(kind: str, folder: Path, **train: Any) -> Recipe:
    make, own, model = KINDS[kind]
    model = {f"model.{name}": value for name, value in model.items()}
    return make(folder, train={**TRAIN, **own, **train}, **model)


def check_reports(run: Path) -> None:
    """The law: each evaluation and sample of a training is that of the checkpoint of its step, and
    the run's model is the best of them."""
    lines, opened = read_metrics(run), gf.load(run)
    metric = opened.recipe.train.evaluate.best
    how = {"beams": 1} if opened.model.config.architecture == "encoder_decoder" else {}
    reported = {}
    for step in STEPS:
        at = opened.at(step)
        scores = scores_at(lines, step)
        reported[step] = scores[metric]
        found = at.evaluate(**how)
        compared = {name for name in scores if isinstance(found.get(name), int | float)}
        assert {"loss", metric} <= compared
        for name in compared:
            assert scores[name] == pytest.approx(found[name], rel=ROUNDING, abs=ROUNDING), name
        with own_data(opened.task, "validation") as (task, _):
            sample = task.sampled(at.model).values
        [line] = [one for one in lines if one["step"] == step and sample.keys() <= one.keys()]
        assert {name: line[name] for name in sample} == sample
        assert line == line | written_again(at, line)
    sign = -1 if metric in ("loss", "perplexity") else 1
    chosen = max(STEPS, key=lambda step: sign * reported[step])
    assert Checkpoints(run).state(STEPS[-1]).best_step == chosen
    weights, best_weights = opened.model.state_dict(), opened.at(chosen).model.state_dict()
    assert all(torch.equal(one, best_weights[name]) for name, one in weights.items())


def written_again(run: gf.Run, line: dict[str, Any]) -> dict[str, Any]:
    """The text of a sample by the verb that people use, with the seed of training; {}: none."""
    train = run.recipe.train
    if isinstance(run.task, TextGeneration):
        how = {"temperature": 0.8, "seed": train.seed, "max_new_tokens": train.sample.tokens}
        prompt = train.sample.prompt
        return {"sample": prompt + run.generate(prompt, **how, overflow="window")}
    if isinstance(run.task, PairsToText):
        outputs = run.translate([one["source"] for one in line["samples"]], beams=1)
        pairs = zip(line["samples"], outputs, strict=True)
        return {"samples": [one | {"output": text} for one, text in pairs]}
    return {}


def trained_files(run: Path) -> list[bytes]:
    newest = run / "checkpoints" / f"step-{STEPS[-1]:08d}"
    return [file.read_bytes() for file in sorted(newest.glob("*.safetensors"))]


@pytest.mark.parametrize("kind", KINDS)
def test_training_reports_what_its_checkpoints_do(kind, tmp_path):
    go(recipe_of(kind, tmp_path), tmp_path / "run")
    check_reports(tmp_path / "run")
    quiet = {"sample.tokens": 0, "sample.every": 99, "evaluate.every": 99, "evaluate.best": "loss"}
    quiet |= {"evaluate.decode_lines": 0} if "evaluate.decode_lines" in KINDS[kind][1] else {}
    go(recipe_of(kind, tmp_path, **quiet), tmp_path / "quiet")
    assert trained_files(tmp_path / "quiet") == trained_files(tmp_path / "run")


def copies_beside_weights(patch: pytest.MonkeyPatch, in_autocast: bool = True) -> None:
    """The fault that the law is for: a copy of each weight, which is believed until the weight's
    version counter is raised; torch's fused AdamW does not raise it."""
    real, copies = cpu_kernels.linear, {}

    def linear(x, weight, bias):
        mixed = torch.is_autocast_enabled("cpu") and not in_autocast
        if torch.is_grad_enabled() or mixed:
            return real(x, weight, bias)
        now = 0 if weight.is_inference() else weight._version
        of, version, copy = copies.get(id(weight), (None, None, None))
        if of is not weight or version != now:
            copy = weight.detach().clone()
            copies[id(weight)] = weight, now, copy
        return real(x, copy, bias)

    patch.setattr(cpu_kernels, "linear", linear)


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("text, muon, tied", "tags") else pytest.param(kind, marks=pytest.mark.slow)
        for kind in KINDS
    ],
)
def test_the_law_sees_scores_of_old_weights(kind, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        copies_beside_weights(patch)
        go(recipe_of(kind, tmp_path), tmp_path / "run")
    with pytest.raises(AssertionError):
        check_reports(tmp_path / "run")


@pytest.mark.slow
def test_two_processes_report_what_their_checkpoints_do(tmp_path):
    made = {}
    for kind in KINDS:
        folder = tmp_path / kind.replace(" ", "-")
        folder.mkdir()
        made[folder / "run"] = recipe_of(kind, folder, micro_batches=2)
    train_together(2, [(run, one, False, None) for run, one in made.items()], tmp_path)
    for run in made:
        check_reports(run)


@pytest.fixture
def misreported(tmp_path, monkeypatch):
    """A run that reported, and chose by, scores of old weights."""
    with monkeypatch.context() as patch:
        copies_beside_weights(patch)
        go(recipe_of("text, muon, tied", tmp_path), tmp_path / "run")
    return tmp_path / "run"


def rows_of(folder: Path) -> list[CheckpointScores]:
    return list(checkpoint_scores(gf.load(folder), print))


def chosen(folder: Path) -> CheckpointScores:
    return choose(gf.load(folder), print, lambda row: None)


def report_of(folder: Path) -> ReportCheck:
    return check_report(gf.load(folder), print)


def test_the_best_checkpoint_is_found_and_chosen(misreported, tmp_path):
    rows = rows_of(misreported)
    assert [row.step for row in rows] == [*STEPS]
    right = best(rows, "loss")
    found = report_of(misreported)
    assert found.misfit > 1
    assert found.best_step == right.step
    assert chosen(misreported) == right
    check_reports(misreported)
    assert report_of(misreported) == ReportCheck(0.0)
    assert [row.misfit("float32") for row in rows_of(misreported)] == [0.0] * 3
    card = (misreported / "README.md").read_text()
    assert f"| loss | {right.scores['loss']:.4f} |" in card
    assert f"step {right.step} of 6" in card
    assert ", cpu, 1 thread, float32" in card
    made = recipe_of("text, muon, tied", tmp_path, steps=8, **{"save.keep_last": 9})
    go(made, misreported, resume=True)
    went_on = Checkpoints(misreported).state(8)
    losses = {step: scores_at(read_metrics(misreported), step)["loss"] for step in (*STEPS, 8)}
    assert went_on.best_step == min(losses, key=losses.__getitem__)
    assert went_on.best_score == min(losses.values())


def test_scores_that_cannot_be_measured_again_leave_the_curves(misreported):
    reported = scores_at(read_metrics(misreported), 4)["loss"]
    shutil.rmtree(Checkpoints(misreported).path(4))
    chosen(misreported)
    lines = read_metrics(misreported)
    assert not scores_at(lines, 4)
    old = "reported_validation_loss"
    assert [line[old] for line in lines if old in line] == [reported]
    assert all(scores_at(lines, step) for step in (2, 6))


@pytest.mark.parametrize("place", ["the model", "a state"])
def test_a_choice_that_is_killed_is_made_again(place, misreported, monkeypatch):
    """The log is corrected last."""
    where = (checkpoints_module, "export") if place == "the model" else (Checkpoints, "amend")
    with monkeypatch.context() as patch:
        patch.setattr(*where, killed)
        with pytest.raises(Killed):
            chosen(misreported)
    assert report_of(misreported).misfit > 1
    (Checkpoints(misreported).path(STEPS[0]) / ".tmp-manifest.json").mkdir()  # as a kill leaves it
    chosen(misreported)
    check_reports(misreported)
    Checkpoints(misreported).check(STEPS[0])


def killed(*arguments, **options):
    raise Killed


def test_a_damaged_checkpoint_is_left_out(misreported, capsys):
    file = Checkpoints(misreported).path(4) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert chosen(misreported).step == best(rows_of(misreported), "loss").step
    assert "left out" in capsys.readouterr().out
    assert not scores_at(read_metrics(misreported), 4)


def test_changed_data_change_nothing(misreported, tmp_path):
    before = tree(misreported)
    (tmp_path / "text.txt").write_text("another text altogether\n" * 50)
    with pytest.raises(ConfigError, match="is not what"):
        chosen(misreported)
    after = tree(misreported)
    assert {name: own for name, own in after.items() if name in before} == before


@pytest.fixture
def averaged(tmp_path) -> Path:
    """A run whose model is the mean of its checkpoints."""
    own = {"steps": 20, "optimizer.learning_rate": 0.3, "save.keep_last": 12}
    made = recipe_of("text, adamw, own head", tmp_path, **own, **{"save.average_checkpoints": 6})
    go(made, tmp_path / "run")
    assert [
        one["averaged_taken"] for one in read_metrics(tmp_path / "run") if "averaged" in one
    ] == [True]
    return tmp_path / "run"


def test_a_mean_of_checkpoints_is_compared_too(averaged):
    rows, model = rows_of(averaged), gf.load(averaged).model.state_dict()
    assert [row.mean for row in rows] == [False] * 10 + [True]
    assert max(row.misfit("float32") for row in rows) < 0.1
    assert best(rows, "loss").mean
    assert chosen(averaged).mean
    now = gf.load(averaged).model.state_dict()
    assert all(torch.equal(one, model[name]) for name, one in now.items())
    assert "mean of the weights of steps" in (averaged / "README.md").read_text()


def test_a_mean_that_is_no_longer_the_model_is_not_compared(averaged):
    lines = read_metrics(averaged)
    mean = next(line for line in lines if line.get("averaged_taken"))
    state = dataclasses.replace(Checkpoints(averaged).state(20), best_step=20)
    assert taken_mean(lines, state) is mean
    assert taken_mean(lines, dataclasses.replace(state, best_step=22)) is None


def test_small_losses_differ_by_less_than_rounding():
    def row(loss, was, **others):
        return CheckpointScores(1, {"loss": loss}, {"loss": was}, {})

    assert row(1e-6, 0.0).misfit("float32") < 1
    assert row(1.0e-6, 1.01e-6).misfit("float32") < 1
    assert row(0.5, 0.502).misfit("float32") > 1
    assert row(0.5, 0.502).misfit("bfloat16") < 1
    decoded = CheckpointScores(1, {"loss": 1.0, "bleu": 0.0}, {"loss": 1.0, "bleu": 24.0}, {})
    assert decoded.misfit("bfloat16") > 1


def test_short_numbers_and_old_copies_are_seen_by_what_is_decoded(tmp_path, monkeypatch):
    """In bfloat16 losses are computed from the weights themselves, and texts in float32."""
    kind, own = "pairs, muon, tied", {"precision": "bfloat16", "optimizer.learning_rate": 0.3}
    with monkeypatch.context() as patch:
        copies_beside_weights(patch, in_autocast=False)
        go(recipe_of(kind, tmp_path, **own), tmp_path / "run")
    rows = {row.step: row for row in rows_of(tmp_path / "run")}
    assert rows[6].scores["loss"] == pytest.approx(rows[6].reported["loss"], rel=0.03)
    assert report_of(tmp_path / "run").misfit > 1
