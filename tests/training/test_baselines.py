"""Baselines of a run: recorded once, told at the end, in the report, in the card, by `evaluate`."""

import json
import random
import shutil
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.metrics.scores import judge, report, verdict
from glassformer.training.folder.history import History, of_model, read_metrics
from glassformer.training.loop.trainer import Result
from small_runs import go, recipe, stopped_after
from small_tasks import LEARNING, class_recipe, json_file, tag_recipe, words

WORSE = "The model is not better than a simple baseline (naive Bayes)."


def easy(folder: Path, **data):
    """A recipe whose classes a single word tells; 8 steps are too few to learn it."""
    draw = random.Random(0)
    texts = [words(draw) for _ in range(80)]
    rows = [(" ".join(text), "yes" if "h" in text else "no") for text in texts]
    return class_recipe(folder, data={"train.path": json_file(folder, "easy.jsonl", rows)} | data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("baselines")


@pytest.fixture(scope="module")
def worse(folder) -> tuple[Result, str]:
    """A run that naive Bayes beats, and what was said."""
    return go(easy(folder), folder / "worse")


@pytest.fixture(scope="module")
def better(folder) -> tuple[Result, str]:
    """A run that learns what no baseline can: a tag that depends on the next word."""
    return go(tag_recipe(folder, train=LEARNING), folder / "better")


def recorded(run: Path) -> list[dict]:
    return [line["baselines"] for line in read_metrics(run) if "baselines" in line]


def test_a_line_at_the_end_says_that_the_model_is_not_better(worse):
    result, said = worse
    (line,) = [line for line in said.splitlines() if line.startswith("validation accuracy")]
    found = {name: own["accuracy"] for name, own in result.baselines["scores"].items()}
    assert line == (
        f"validation accuracy: the model {result.scores['accuracy']:.2%}, majority class "
        f"{found['majority_class']:.2%}, naive Bayes {found['naive_bayes']:.2%}. {WORSE}"
    )
    assert result.baselines["better"] is False


def test_and_nothing_of_a_model_that_is_better(better):
    result, said = better
    (line,) = [line for line in said.splitlines() if line.startswith("validation accuracy")]
    assert line.count("%") == 3
    assert line.endswith("%.")
    assert "not better" not in said
    assert result.baselines["better"] is True
    assert "not better" not in (result.run / "report.html").read_text()
    assert "not better" not in (result.run / "README.md").read_text()


def test_metrics_report_and_card_have_them(worse):
    run = worse[0].run
    (found,) = recorded(run)
    assert read_metrics(run)[0] == {"step": 0, "baselines": found}
    card, report = (run / "README.md").read_text(), (run / "report.html").read_text()
    value = found["scores"]["naive_bayes"]["accuracy"]
    model = worse[0].scores["accuracy"]
    majority = found["scores"]["majority_class"]["accuracy"]
    assert "| score | this model | majority class | naive Bayes |" in card
    assert f"| accuracy | {model:.4f} | {majority:.4f} | {value:.4f} |" in card
    assert f"\n\n{WORSE}\n\n## Use" in card
    assert "<h2>Baselines</h2>" in report
    assert f">{value:.4f}<" in report
    assert WORSE in report


def test_a_run_without_a_class_for_each_input_has_none(tmp_path):
    result, _ = go(recipe(tmp_path), tmp_path / "x")
    assert result.baselines == {}
    assert recorded(tmp_path / "x") == []
    assert "baselines" not in gf.load(tmp_path / "x").evaluate()
    assert "Baselines" not in (tmp_path / "x" / "report.html").read_text()
    assert "baseline" not in (tmp_path / "x" / "README.md").read_text()


def test_resuming_records_the_same_once(folder, worse):
    made, run = easy(folder), folder / "resumed"
    with stopped_after(4):
        go(made, run)
    assert recorded(run) == recorded(folder / "worse")
    result, _ = go(made, run, resume=True)
    assert recorded(run) == recorded(folder / "worse")
    assert result.baselines == worse[0].baselines


def test_without_a_validation_split_there_are_none(tmp_path):
    result, _ = go(easy(tmp_path, **{"validation.fraction": 0.0}), tmp_path / "x")
    assert result.baselines == {}
    assert recorded(tmp_path / "x") == []


def test_evaluate_scores_them_on_the_same_inputs(cli, worse):
    run = worse[0].run
    found = gf.load(run).evaluate()
    (own,) = recorded(run)
    assert found["baselines"] == judge(own, found)
    said = cli("evaluate", run)
    scores = own["scores"]
    majority = f"  majority class {scores['majority_class']['accuracy']:.4f}  (baseline, accuracy)"
    begin = said.out.splitlines().index(majority)
    assert said.out.splitlines()[begin + 1 : begin + 3] == [
        f"  naive Bayes    {scores['naive_bayes']['accuracy']:.4f}  (baseline, accuracy)",
        f"  {WORSE}",
    ]
    assert cli("evaluate", run, "--json").json["baselines"] == found["baselines"]
    train = gf.load(run).evaluate("train")["baselines"]["scores"]
    assert train["naive_bayes"]["accuracy"] > 0.9


def test_of_other_data_they_learn_from_those_of_the_run(folder, worse, tmp_path):
    run, other = worse[0].run, json_file(tmp_path, "o.jsonl", [("a b", "yes"), ("h h", "yes")])
    found = gf.load(run).evaluate(data=other)["baselines"]
    # learned from the file itself, both would be right
    assert found["scores"]["majority_class"]["accuracy"] == 0
    assert found["scores"]["naive_bayes"]["accuracy"] == 0.5


def test_without_training_data_it_says_why_there_are_none(cli, worse, tmp_path):
    run = Path(shutil.copytree(worse[0].run, tmp_path / "run"))
    data = json_file(tmp_path, "o.jsonl", [("a b", "yes"), ("h h", "yes")])
    text = (run / "recipe.yaml").read_text()
    gone = text.replace("easy.jsonl", "gone.jsonl")
    assert gone != text
    (run / "recipe.yaml").write_text(gone)
    assert cli("verify", run, "--accept-changed").code == 0
    said = cli("evaluate", run, "--data", data)
    assert said.code == 0
    (line,) = [line for line in said.out.splitlines() if "baseline" in line]
    assert line.startswith("  There are no baselines: there is no file ")
    assert "gone.jsonl" in line
    found = cli("evaluate", run, "--data", data, "--json").json
    assert found["baselines"] == {"missing": line.removeprefix("  There are no baselines: ")}
    (run / "recipe.yaml").unlink()
    assert cli("verify", run, "--accept-changed").code == 0
    said = cli("evaluate", run, "--data", data, "--json").json
    assert "no recipe.yaml" in said["baselines"]["missing"]


def test_equal_scores_are_not_better():
    learned = {
        "metric": "f1",
        "scores": {"majority_class": {"f1": 0.0}, "naive_bayes": {"f1": 0.5}},
    }
    assert verdict(learned, {"f1": 0.5}) == WORSE
    assert verdict(learned, {"f1": 0.51}) == ""
    said = list[str]()
    assert report(learned, {"f1": 0.51}, said.append)["better"]
    assert said == ["validation F1: the model 51.00%, majority class 0.00%, naive Bayes 50.00%."]


def test_train_prints_them_as_json(cli, worse, folder, tmp_path):
    made = tmp_path / "r.yaml"
    made.write_text((worse[0].run / "recipe.yaml").read_text())
    said = cli("train", made, "--run", tmp_path / "run", "--json")
    assert json.loads(said.out)["baselines"] == worse[0].baselines


@pytest.mark.parametrize("taken", [True, False])
def test_the_model_that_is_compared_is_the_best_one(tmp_path, taken):
    history = History(tmp_path, 0)
    for step, accuracy in ((4, 0.5), (6, 0.25)):
        history.add(step, validation_loss=1.0, validation_accuracy=accuracy)
    mean = {"averaged": [4, 6], "averaged_taken": taken}
    history.add(6, validation_loss=1.0, validation_accuracy=0.75, **mean)
    history.close()
    assert of_model(history.lines, 4).scores["accuracy"] == (0.75 if taken else 0.5)
