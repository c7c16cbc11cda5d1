"""Scores of baselines: by the model's metrics, on the model's records, without its targets."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import accuracy_score, f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB

from glassformer.metrics.baselines import Labels, Tagged, class_baselines, tag_baselines
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from small_parts import rows_file
from small_senses import picture_recipe, prepared
from small_tasks import class_recipe, json_file, merged, tag_recipe

NAMES = ("x", "y", "z")
rows = st.lists(
    st.builds(
        lambda text, label: Labels([text], [label]),
        st.text("ab .", max_size=6),
        st.sampled_from(NAMES),
    ),
    min_size=1,
    max_size=12,
)


def own_rows(n: int, seed: int, several: bool) -> list[Labels]:
    """Texts whose words depend on their classes."""
    draw, found = np.random.default_rng(seed), []
    for _ in range(n):
        classes = draw.random(3) < 0.4 if several else np.eye(3, dtype=bool)[draw.integers(3)]
        weights = 1 + 2 * classes[np.arange(24) % 3]
        words = draw.choice(24, 6, p=weights / weights.sum())
        labels = [name for name, so in zip(NAMES, classes, strict=True) if so]
        found.append(Labels([" ".join(f"w{i}" for i in words)], labels))
    return found


@given(rows)
def test_the_majority_scores_the_largest_share_of_a_class(given):
    found = class_baselines(NAMES, False, given, given)["majority_class"]
    counts = Counter(row.classes[0] for row in given)
    assert found["accuracy"] == found["micro_f1"] == max(counts.values()) / len(given)
    best = max(counts.values()) / len(given)
    f1 = 2 * best / (1 + best)  # its precision is its share, its recall is 1
    assert found["macro_f1"] == pytest.approx(f1 / len(counts))


@given(rows, rows, st.randoms())
def test_the_order_of_records_changes_no_score(train, asked, random):
    found = class_baselines(NAMES, False, train, asked)
    train, asked = random.sample(train, len(train)), random.sample(asked, len(asked))
    assert class_baselines(NAMES, False, train, asked) == found


@pytest.mark.parametrize("several", [False, True])
def test_scores_are_those_of_scikit_learn(several):
    train, asked = own_rows(200, 0, several), own_rows(90, 1, several)
    found = class_baselines(NAMES, several, train, asked)["naive_bayes"]
    count = CountVectorizer(ngram_range=(1, 2)).fit([row.texts[0] for row in train])
    gold = [np.array([[n in row.classes for n in NAMES] for row in of]) for of in (train, asked)]
    if not several:
        gold = [one.argmax(1) for one in gold]
    model = MultinomialNB()
    model = OneVsRestClassifier(model) if several else model
    model.fit(count.transform([row.texts[0] for row in train]), gold[0].astype(int))
    theirs = model.predict(count.transform([row.texts[0] for row in asked]))
    assert found["accuracy"] == pytest.approx(accuracy_score(gold[1], theirs))
    assert found["micro_f1"] > 0.45
    for name in ("micro", "macro"):
        assert found[f"{name}_f1"] == pytest.approx(f1_score(gold[1], theirs, average=name))


def test_of_several_classes_the_majority_is_those_of_more_than_half():
    train = [Labels(["t"], own) for own in (["x", "y"], ["x"], ["x", "z"], ["y"])]
    found = class_baselines(NAMES, True, train, train)["majority_class"]
    # x for all: right alone once; counted right 3 times of 4 predicted and 6 gold
    assert found["accuracy"] == 1 / 4
    assert found["micro_f1"] == pytest.approx(2 * 3 / (4 + 6))


def test_classes_and_tags_that_the_model_lacks_are_wrong_and_not_learned():
    train = [Labels(["a"], ["new"])] * 3 + [Labels(["a"], ["x"])]
    found = class_baselines(NAMES, False, train, [Labels(["a"], ["new"]), Labels(["a"], ["x"])])
    assert [own["accuracy"] for own in found.values()] == [0.5, 0.5]
    found = tag_baselines(NAMES, False, [Tagged("aab", ["new", "new", "x"])], [Tagged("a", ["x"])])
    assert [own["accuracy"] for own in found.values()] == [1, 1]


def test_a_second_text_is_told_from_the_first():
    train = [Labels(["a", "b"], ["x"]), Labels(["b", "a"], ["y"])]
    assert class_baselines(NAMES, False, train, train)["naive_bayes"]["accuracy"] == 1


def test_tags_of_spans_are_scored_by_spans():
    names = ["B-PER", "I-PER", "O"]
    train = [Tagged(["Ann", "Lee", "saw", "it"], ["B-PER", "I-PER", "O", "O"])] * 2
    asked = [Tagged(["Ann", "saw", "Bo"], ["B-PER", "O", "B-PER"])]
    found = tag_baselines(names, True, train, asked)
    # no word is seen once, so Bo gets the tag of most words
    assert found["most_frequent_tag"]["accuracy"] == 2 / 3
    assert found["most_frequent_tag"]["f1"] == 2 / 3  # one of two, none wrong
    assert found["majority_class"]["f1"] == 0
    assert "f1" not in tag_baselines(names, False, train, asked)["majority_class"]


def baselines_of(task, split: str = "validation", of: Evaluation = EVERYTHING) -> dict:
    return task.objective.baselines(split, of, lambda: task.objective.split("train").records)


def test_the_records_are_those_that_the_model_is_scored_on(tmp_path):
    texts = [(f"{'ab'[i % 2]} {i}", "yx"[i % 3 > 0]) for i in range(60)]
    data = {"train.path": json_file(tmp_path, "t.jsonl", texts), "validation.fraction": 0.5}
    train = {"evaluate.batches": 1, "batch_size": 4, "micro_batches": 1}
    task = prepared(class_recipe(tmp_path, data=data, train=train), tmp_path / "run")
    asked = task.objective.records_to_score("validation", task.objective.validation())
    assert len(asked) == 4 < len(task.objective.split("validation").records)
    share = sum(one.labels == ("x",) for one in asked) / 4
    found = task.objective.training_baselines()
    assert found["scores"]["majority_class"]["accuracy"] == share
    assert found["metric"] == "accuracy"
    assert baselines_of(task) != found


def test_the_metric_is_that_of_the_best_model(tmp_path):
    task = prepared(tag_recipe(tmp_path, train={"evaluate.best": "macro_f1"}), tmp_path / "a")
    assert baselines_of(task)["metric"] == "macro_f1"
    (tmp_path / "s.txt").write_text("Ann/B-PER Lee/I-PER ran/O\n" * 30)
    spans = tag_recipe(tmp_path, data={"train.path": str(tmp_path / "s.txt")})
    assert baselines_of(prepared(spans, tmp_path / "b"))["metric"] == "f1"
    path = json_file(tmp_path, "t.jsonl", [("a b", ["x"]), ("b", ["x", "y"])] * 20)
    several = {"data": {"train.path": path}, "model": {"multi_label": True}}
    task = prepared(class_recipe(tmp_path, **several), tmp_path / "c")
    assert baselines_of(task)["metric"] == "micro_f1"


def test_of_images_there_is_the_majority_alone(tmp_path):
    found = baselines_of(prepared(picture_recipe(tmp_path), tmp_path / "run"))
    assert list(found["scores"]) == ["majority_class"]


def test_of_parts_the_texts_are_read_and_never_the_target(tmp_path):
    """The question does not say whether it is day; the answer, which is the class, would."""
    own = {
        "model": {"head": "classify", "architecture": "encoder", "pool": "mean", "max_length": 16},
        "data": {"train.path": rows_file(tmp_path), "validation.fraction": 0.25},
        "processor.image": {"patch": 4},
        "processor.tokenizer": {"kind": "word"},
    }
    task = prepared(merged(tmp_path, own, {}), tmp_path / "run")
    (first, *_) = task.objective.split("train").records
    assert first.target is not None
    assert first.target not in task.processor.read_texts(first)
    assert first.target in task.processor.texts(first)
    found = baselines_of(task, "train")["scores"]
    assert found["majority_class"]["accuracy"] < found["naive_bayes"]["accuracy"] <= 0.6
