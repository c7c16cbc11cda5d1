"""Classification is learned, of one class and of several; long texts by windows; bad classes are
named."""

import json
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.models import Transformer
from glassformer.models.config import ModelConfig
from glassformer.tasks.task import Task
from small_runs import go
from small_senses import prepared
from small_tasks import (
    LEARNING,
    class_file,
    class_recipe,
    json_file,
    order_label,
    two_labels,
    words,
)

MUON = LEARNING | {"steps": 100, "optimizer.kind": "muon", "evaluate.every": 100, "save.every": 100}


def task_of(tmp_path: Path, **changes) -> Task:
    task = prepared(class_recipe(tmp_path, **changes), tmp_path / "task")
    return task


def test_which_of_two_words_comes_first_is_learned(tmp_path):
    data = {"train.path": class_file(tmp_path, 1200), "validation.fraction": 0.2}
    made = class_recipe(
        tmp_path, model={"d_model": 32}, data=data, train=MUON | {"evaluate.best": "accuracy"}
    )
    result, _ = go(made, tmp_path / "x")
    assert result.scores["accuracy"] > 0.94
    assert type(result.best) is float
    assert result.best == result.scores["accuracy"]
    new = words(random.Random(99), 9, 9)
    assert gf.load(tmp_path / "x").classify(" ".join(new)) == order_label(new)


@pytest.mark.slow  # quick: one class of a text
def test_two_independent_classes_are_learned_at_once(tmp_path):
    """By a decoder, from its last element."""
    data = {"train.path": class_file(tmp_path, 1200, label=two_labels), "validation.fraction": 0.2}
    model = {"d_model": 32, "multi_label": True, "architecture": "decoder", "pool": "last"}
    result, _ = go(class_recipe(tmp_path, model=model, data=data, train=MUON), tmp_path / "x")
    assert result.scores["accuracy"] > 0.95, "both classes right"
    run, draw = gf.load(tmp_path / "x"), random.Random(5)
    texts = [words(draw) for _ in range(40)]
    expected = [set(two_labels(text)) for text in texts]
    found = [set(one) for one in run.classify([" ".join(text) for text in texts])]
    assert set(map(len, expected)) == {0, 1, 2}
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 36


def fed(task: Task) -> list[tuple[str, str]]:
    """Every document of an epoch with the names of its targets."""
    found = []
    for step in range(task.feed.order.batches):
        for batch in task.feed.batches(step):
            documents = batch.where().document
            assert documents is not None
            assert batch.targets is not None
            for number, target in enumerate(batch.targets.tolist()):
                text = task.processor.tokenizer.decode(batch.elements[documents == number].tolist())
                names = (
                    [target]
                    if isinstance(target, int)
                    else [i for i, own in enumerate(target) if own]
                )
                found.append((text, "+".join(task.objective.classes.names[i] for i in names)))
    return found


def test_every_text_bears_its_own_class_once_an_epoch(tmp_path):
    path = class_file(tmp_path, 90)
    task = task_of(tmp_path, data={"train.path": path, "validation.fraction": 0.0})
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert Counter(fed(task)) == Counter((row["text"], row["label"]) for row in rows)
    assert task.objective.classes.names == ("a", "b")


def test_several_classes_are_as_many_ones(tmp_path):
    path = class_file(tmp_path, 90, label=two_labels)
    task = task_of(
        tmp_path, model={"multi_label": True}, data={"train.path": path, "validation.fraction": 0.0}
    )
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert Counter(fed(task)) == Counter(
        (row["text"], "+".join(sorted(row["label"]))) for row in rows
    )
    assert any(not row["label"] for row in rows)


def test_a_text_longer_than_the_model_is_read_by_windows_of_its_class(tmp_path):
    long = " ".join(f"w{i}" for i in range(50))
    path = json_file(tmp_path, "long.jsonl", [(long, "L"), ("w0", "S")] * 2)
    data = {"train.path": path, "validation.fraction": 0.0, "overlap": 0}
    task = task_of(tmp_path, data=data, train={"class_weights": "balanced"})
    found = fed(task)
    assert Counter(label for _, label in found) == {"L": 2 * math.ceil(50 / 14), "S": 2}
    assert sorted(
        {word for text, label in found if label == "L" for word in text.split()}
    ) == sorted(long.split())
    assert "2 texts longer than the model" in " ".join(task.objective.opening())
    # 8 windows of L and 2 of S are trained on: these are what the weights are 1 on average over
    loss = task.objective.loss(torch.zeros(10, 2), torch.tensor([0] * 8 + [1] * 2))
    assert float(loss.total) / loss.count == pytest.approx(math.log(2), rel=1e-6)
    assert float(task.objective.loss(torch.zeros(1, 2), torch.tensor([1])).total) == pytest.approx(
        5 / 2 * math.log(2), rel=1e-6
    )


@pytest.mark.parametrize("n_token_types", [0, 1, 2])
def test_pairs_are_told_apart_if_the_model_has_two_kinds(tmp_path, n_token_types):
    lines = [json.dumps({"text": "a b", "other": "c", "label": label}) for label in ("x", "y")]
    (tmp_path / "p.jsonl").write_text("\n".join(lines * 10) + "\n")
    data = {"train.path": str(tmp_path / "p.jsonl"), "pair_field": "other"}
    task = task_of(tmp_path, model={"n_token_types": n_token_types}, data=data)
    (batch,) = task.feed.batches(0)
    if n_token_types < 2:
        assert batch.token_type_ids is None
    else:
        assert batch.token_type_ids is not None
        assert batch.token_type_ids[0, :6].tolist() == [0, 0, 0, 0, 1, 1]  # <bos> a b <eos> c <eos>
    result, _ = go(task.recipe, tmp_path / "x")
    assert result.steps == 8
    run = gf.load(tmp_path / "x")
    assert run.classify(("a b", "c")) in ("x", "y")
    for processor in (task.processor, run.processor):
        assert processor.from_values(["a b\tc"], "Line 1") == ("a b", "c")


def alone(model: Transformer, task: Task, text: str) -> torch.Tensor:
    specials = task.processor.tokenizer.specials
    ids = [specials["bos"], *task.processor.tokenizer.encode(text).tolist(), specials["eos"]]
    with torch.no_grad():
        return model(Batch(torch.tensor([ids]))).logits[0]


@pytest.mark.parametrize("multi", [False, True])
def test_scores_are_those_of_each_text_alone(tmp_path, multi):
    path = class_file(tmp_path, label=two_labels if multi else order_label)
    task = task_of(
        tmp_path,
        model={"multi_label": multi},
        data={"train.path": path, "validation.fraction": 0.3},
    )
    model = Transformer(task.recipe.model, seed=2).eval()
    with torch.no_grad():
        model.head.proj.weight.mul_(30)  # so that predictions differ
    nats = right = n = 0.0
    texts = task.objective.split("validation").records
    for text in texts:
        logits = alone(model, task, text.text)
        gold = torch.zeros(2)
        gold[task.objective.classes.numbers(text.labels)] = 1
        if multi:
            nats += float(
                torch.nn.functional.binary_cross_entropy_with_logits(logits, gold, reduction="sum")
            )
            right += float(((logits >= 0) == gold.bool()).all())
            n += 2
        else:
            nats -= float(logits.log_softmax(-1) @ gold)
            right += float(logits.argmax() == gold.argmax())
            n += 1
    scores = task.objective.evaluate(model, "validation")
    assert scores["examples"] == len(texts) == 18
    assert scores["loss"] == pytest.approx(nats / n, rel=1e-5)
    assert scores["accuracy"] == pytest.approx(right / len(texts))
    assert 0 < scores["accuracy"] < 1
    assert ("confusion" in scores) == (not multi)
    json.dumps(scores, allow_nan=False)


def test_classes_that_training_never_saw_are_named_counted_and_wrong(tmp_path):
    held = json_file(
        tmp_path, "v.jsonl", [("a b", "new"), ("b a", "new"), ("c", "other"), ("a", "a")]
    )
    task = task_of(tmp_path, data={"train.path": class_file(tmp_path), "validation.path": held})
    scores = task.objective.evaluate(Transformer(task.recipe.model, seed=1).eval(), "validation")
    assert scores["unseen_classes"] == {"new": 2, "other": 1}
    assert (scores["examples"], scores["unseen"]) == (4, 3)
    assert scores["accuracy"] <= 1 / 4
    expected = -float(
        alone(Transformer(task.recipe.model, seed=1).eval(), task, "a").log_softmax(-1)[0]
    )
    assert scores["loss"] == pytest.approx(expected, rel=1e-5), "a loss is of what can be known"
    result, _ = go(task.recipe, tmp_path / "x")
    assert result.scores["unseen_classes"] == {"new": 2, "other": 1}


def test_of_several_classes_too(tmp_path):
    held = json_file(tmp_path, "v.jsonl", [("a b", ["new", "h"]), ("b a", ["new"]), ("c", [])])
    path = class_file(tmp_path, label=two_labels)
    task = task_of(
        tmp_path, model={"multi_label": True}, data={"train.path": path, "validation.path": held}
    )
    scores = task.objective.evaluate(Transformer(task.recipe.model).eval(), "validation")
    assert (scores["unseen_classes"], scores["unseen"]) == ({"new": 2}, 2)
    assert scores["accuracy"] <= 1 / 3


def rows(*labels) -> list:
    return [(f"t {i}", label) for i, label in enumerate(labels)] * 10


GOOD = rows("x", "y")
TRAIN, HELD = "t.jsonl", "v.jsonl"


@pytest.mark.parametrize(
    ("train", "held", "changes", "kind", "sentence"),
    [
        (rows(["x", "y"], "y"), None, {}, DataError, r"line \d+ has 2 classes, not one; mend it or set"),
        (rows([], "y"), None, {}, DataError, r"line \d+ has 0 classes, not one"),
        (GOOD, [("t", []), ("u", "x")], {}, DataError, r"v\.jsonl, line 1 has 0 classes, not one"),
        (GOOD, [("t", ["x", "y"])], {}, DataError, r"v\.jsonl, line 1 has 2 classes, not one"),
        (rows("x", "x"), None, {}, DataError, "every training text is of the class 'x'; give "
        "texts of at least two"),
        (GOOD, None, {"model": {"classes": ["x", "z"]}}, DataError, r"line \d+ has the class 'y', which model"),
        (GOOD, None, {"train": {"class_weights": {"z": 1}}}, ConfigError, "class_weights has "
        "'z', which is no class"),
        (GOOD, None, {"train": {"evaluate.best": "f1"}}, ConfigError, r"train\.evaluate\.best='f1' is no score of task='text-clas"),
        (GOOD, None, {"model": {"n_classes": 3}}, ConfigError, "n_classes=3 and the training "
        "data have 2 classes"),
        (GOOD, None, {"model": {"architecture": "decoder", "pool": "first"}}, ConfigError, "'first' of a "
        "decoder"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_said_before_the_run_begins(
    tmp_path, train, held, changes, kind, sentence
):
    data = {"train.path": json_file(tmp_path, TRAIN, train), "validation.fraction": 0.0}
    if held is not None:
        data["validation.path"] = json_file(tmp_path, HELD, held)
    with pytest.raises(kind, match=sentence):
        go(class_recipe(tmp_path, **changes | {"data": data}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_other_data_with_several_classes_are_refused_when_they_are_evaluated(tmp_path):
    go(class_recipe(tmp_path), tmp_path / "x")
    with pytest.raises(DataError, match=r"o\.jsonl, line 2 has 2 classes, not one"):
        gf.load(tmp_path / "x").evaluate(
            data=json_file(tmp_path, "o.jsonl", [("a", "a"), ("b", ["a", "b"])])
        )


def test_a_class_that_only_the_recipe_knows_is_a_class(tmp_path):
    task = task_of(tmp_path, model={"classes": ["b", "never", "a"]})
    assert task.objective.classes.names == ("b", "never", "a")
    assert set(
        np.concatenate([target["targets"] for target in task.objective.targets]).tolist()
    ) == {0, 2}
    assert Transformer(task.recipe.model).head.proj.weight.shape[0] == 3


def test_without_validation_texts_nothing_is_scored(tmp_path):
    task = task_of(tmp_path, data={"train.path": class_file(tmp_path, 4)})
    assert not task.objective.validated
    assert task.objective.scores(Transformer(task.recipe.model), torch.float32) is None


def test_a_model_without_names_cannot_be_scored(tmp_path):
    task = task_of(tmp_path)
    config = ModelConfig.parse(task.recipe.model.model_dump() | {"classes": (), "n_classes": 2})
    with pytest.raises(ConfigError, match="no names for its classes"):
        task.objective.evaluate(Transformer(config), "validation")


def test_label_smoothing_and_weights_reach_the_loss_of_several_classes(tmp_path):
    path = class_file(tmp_path, label=two_labels)
    weighed = {"label_smoothing": 0.2, "class_weights": {"h": 3.0}}
    task = task_of(
        tmp_path,
        model={"multi_label": True},
        data={"train.path": path, "validation.fraction": 0.0},
        train=weighed,
    )
    logits, targets = torch.randn(5, 2), torch.randint(0, 2, (5, 2))
    counts = np.sum([target["targets"][0] for target in task.objective.targets], 0)
    weights = torch.tensor([3.0, 1.0]) * counts.sum() / (3 * counts[0] + counts[1])
    y = targets * 0.8 + 0.1
    terms = -(y * logits.sigmoid().log() + (1 - y) * (1 - logits.sigmoid()).log())
    loss = task.objective.loss(logits, targets)
    torch.testing.assert_close(loss.total, (terms * weights).sum())
    assert loss.count == 10


def test_the_sample_shows_texts_and_what_is_predicted(tmp_path):
    task = task_of(tmp_path, train={"sample.tokens": 5})
    sample = task.objective.sample(Transformer(task.recipe.model, seed=1))
    assert sample is not None
    shown = task.objective.split("validation").records[:5]
    assert [(row["text"], row["class"]) for row in sample.values["samples"]] == [
        (t.text, t.labels[0]) for t in shown
    ]
    assert all(
        row["predicted"] in "ab" and 0.5 <= row["probability"] <= 1
        for row in sample.values["samples"]
    )
