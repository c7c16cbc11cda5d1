"""What training reports of a step is what its checkpoint does: scores, samples, and the best."""

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
import small_chat
from every import slow_but
from glassformer.layers import cpu_kernels
from glassformer.recipe.recipe import Recipe
from glassformer.run.checkpoints import CheckpointScores, best, checkpoint_scores
from glassformer.run.evaluating import own_data
from glassformer.tasks.objectives.next_token import NextToken
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.history import evaluations, of_model, read_metrics
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import go, laid, pair_recipe, recipe
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
        [scores] = (one.scores for one in evaluations(lines) if one.step == step)
        reported[step] = scores[metric]
        found = at.evaluate(**how)
        compared = {name for name in scores if isinstance(found.get(name), int | float)}
        assert {"loss", metric} <= compared
        for name in compared:
            assert scores[name] == pytest.approx(found[name], rel=ROUNDING, abs=ROUNDING), name
        with own_data(opened.task, "validation") as (task, _):
            sample = task.objective.make_sample(at.model).values
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
    if isinstance(run.task.objective, NextToken) and "sample" in line:
        how = {"temperature": 0.8, "seed": train.seed, "max_new_tokens": train.sample.tokens}
        prompt = train.sample.prompt
        return {"sample": prompt + run.generate(prompt, **how, overflow="window")}
    if "translate" in run.task.predictors:
        outputs = run.translate([one["source"] for one in line["samples"]], beams=1)
        pairs = zip(line["samples"], outputs, strict=True)
        return {"samples": [one | {"output": text} for one, text in pairs]}
    return {}


def trained_files(run: Path) -> list[bytes]:
    newest = run / "checkpoints" / f"step-{STEPS[-1]:08d}"
    return [file.read_bytes() for file in sorted(newest.glob("*.safetensors"))]


@pytest.mark.parametrize(
    "kind", slow_but(KINDS, "text, muon, tied", "pairs, adamw, own head", "tags")
)
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


@pytest.mark.parametrize("kind", slow_but(KINDS, "tags"))
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


def rows_of(folder: Path) -> list[CheckpointScores]:
    return list(checkpoint_scores(gf.load(folder), print))


def test_a_damaged_checkpoint_is_left_out(tmp_path, capsys):
    go(recipe_of("text, muon, tied", tmp_path), tmp_path / "run")
    file = Checkpoints(tmp_path / "run").path(4) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    rows = rows_of(tmp_path / "run")
    assert [row.step for row in rows] == [2, 6]
    assert all(row.scores == row.reported for row in rows)
    assert "left out" in capsys.readouterr().out


@pytest.fixture(scope="module")
def averaged(tmp_path_factory) -> Path:
    """A run whose model is the mean of its checkpoints."""
    own = {"steps": 20, "optimizer.learning_rate": 0.3, "save.keep_last": 12}
    folder = tmp_path_factory.mktemp("averaged")
    made = recipe_of("text, adamw, own head", folder, **own, **{"save.average_checkpoints": 6})
    go(made, run := folder / "run")
    assert [one["averaged_taken"] for one in read_metrics(run) if "averaged" in one] == [True]
    return run


def test_a_mean_of_checkpoints_is_scored_too(averaged):
    rows = rows_of(averaged)
    assert [row.mean for row in rows] == [False] * 10 + [True]
    assert all(row.scores["loss"] == pytest.approx(row.reported["loss"], 1e-4) for row in rows)
    assert best(rows, "loss").mean


def test_a_mean_that_is_no_longer_the_model_is_not_compared(averaged):
    lines = read_metrics(averaged)
    [mean] = (one for one in evaluations(lines) if one.mean)
    assert mean.step == 20
    assert of_model(lines, 20) == mean
    assert not of_model(lines, 22).mean
