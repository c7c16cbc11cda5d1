"""What `plan` says is what training does."""

import json
from dataclasses import replace

import pytest

from glassformer.core.errors import ConfigError
from glassformer.data.config import DataConfig
from glassformer.models import Transformer
from glassformer.training.loop.prepare import prepare
from glassformer.training.plan.plan import make_plan, plan_without_data
from small_runs import go, recipe
from small_senses import picture_recipe, prepared
from small_tasks import class_file, class_recipe, masked_recipe, tag_recipe, two_labels


def test_a_plan_counts_what_the_model_has(tmp_path):
    made = recipe(tmp_path, train={"micro_batches": 2})
    plan = make_plan(made)
    vocabulary = prepare(made, tmp_path / "x", False, 1, lambda text: None).recipe
    assert (
        plan.parameters
        == sum(m.numbers for m in plan.matrices)
        == Transformer(vocabulary.model).n_parameters
    )
    assert plan.tokens_per_step == 4 * 16
    assert plan.seconds > 0
    assert plan.seconds == plan.seconds_per_step * 8
    assert plan.memory["weights"] == 4 * plan.parameters
    assert plan.epochs is not None
    values = json.loads(json.dumps(plan.as_json(), allow_nan=False))
    assert sum(row["numbers"] for row in values["matrices"]) == values["parameters"]
    text = plan.as_text()
    assert f"{plan.parameters:,}" in text
    assert "decoder.blocks.*.attention.q_proj.weight (2)" in text
    assert not (tmp_path / "x").exists()


def test_a_plan_needs_no_text(tmp_path):
    plan = plan_without_data(recipe(tmp_path, data={"train.path": None}, model={"vocab_size": 50}))
    assert plan.epochs is None
    assert plan.parameters > 50 * 16


@pytest.mark.parametrize("made_by", [tag_recipe, class_recipe, picture_recipe])
def test_a_plan_of_classes_needs_data(tmp_path, made_by):
    made = made_by(tmp_path, model={"n_classes": 2})
    made = replace(made, data=DataConfig())
    with pytest.raises(ConfigError, match=f"task='{made.task}' needs data.*add data.train.path"):
        plan_without_data(made)


def test_disk_is_what_checkpoints_take(tmp_path):
    made = recipe(tmp_path)
    go(made, tmp_path / "x")
    files = list((tmp_path / "x" / "checkpoints").rglob("*.safetensors"))
    used = sum(path.stat().st_size for path in [*files, tmp_path / "x" / "model.safetensors"])
    assert 0.5 < make_plan(made).disk / used < 2


TASKS = {
    "tag": tag_recipe,
    "classify": class_recipe,
    "several": lambda folder, **changes: class_recipe(
        folder,
        model={"multi_label": True},
        data={"train.path": class_file(folder, label=two_labels)},
        **changes,
    ),
    "masked": masked_recipe,
    "pictures": picture_recipe,
}


@pytest.mark.parametrize("name", TASKS)
def test_a_plan_of_other_tasks_counts_what_they_train(tmp_path, name):
    made = TASKS[name](tmp_path, train={"steps": 12})
    plan = make_plan(made)
    task = prepared(made, tmp_path / "x")
    assert plan.parameters == Transformer(task.recipe.model).n_parameters
    assert plan.tokens_per_step == 4 * task.feed.length
    assert plan.epochs == pytest.approx(12 * 4 * task.feed.length / task.feed.elements)
    assert plan.seconds > 0
    assert "head" in plan.as_text()


def test_a_plan_of_hidden_tokens_needs_no_text(tmp_path):
    plan = plan_without_data(
        masked_recipe(tmp_path, data={"train.path": None}, model={"vocab_size": 50})
    )
    assert plan.epochs is None
    assert plan.tokens_per_step == 4 * 16
