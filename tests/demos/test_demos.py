"""Every demo ends with its score beside those of baselines, needs no network, resumes, and learns
what the README promises."""

import signal
from collections import Counter

import pytest

from glassformer.demos import catalog, shapes
from glassformer.demos.catalog import DATA, DEMOS
from glassformer.metrics.baselines import most_frequent
from glassformer.training.loop.trainer import Result

BASELINES = {
    "translate": ["a rule: numbers, words of the month"],
    "tag": ["majority class", "most frequent tag"],
    "classify": ["majority class", "naive Bayes"],
    "vision": ["the nearest image of training", "majority class"],
    "audio": ["the nearest clip of training", "majority class"],
}
FEWER = {"train": 60, "validation": 8, "test": 12}
"""Images: each has some eight questions, which are all answered."""
GOALS = {"translate": 0.98, "tag": 0.98, "classify": 0.98, "vision": 0.94, "audio": 0.92}


def compared(values: dict) -> dict[str, float]:
    (scores,) = (values[name] for name in ("exact_match", "f1", "accuracy") if name in values)
    return scores


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", BASELINES)
def test_it_ends_with_a_comparison_and_resumes(cli, tmp_path, name):
    run = tmp_path / "run"
    ended = cli("demo", name, "--steps", 2, "--run", run, "--json")
    assert ended.code == 0, ended.err
    scores = compared(ended.json)
    assert list(scores) == [*BASELINES[name], "this model"]
    assert all(0 <= score <= 1 for score in scores.values())
    assert len(ended.json.get("examples", "abc")) >= 2
    again = cli("demo", name, "--steps", 3, "--run", run)
    assert "resuming at step 2" in again.err
    for line in (*BASELINES[name], "this model", "try next:", "report.html"):
        assert line in again.out
    if name == "translate":
        assert "<html" in (run / "attention.html").read_text()


def test_a_signal_after_the_last_step_of_a_training_ends_the_demo(tmp_path, monkeypatch):
    first, *others = DEMOS["vqa"].trainings
    runs = []

    def train(recipe, run, resume, stop):
        runs.append(run)
        stop.signal = signal.SIGTERM
        return Result(run, 1, {}, None, "loss", "", 0.0)

    monkeypatch.setattr(catalog, "train", train)
    for name in DATA:
        monkeypatch.setitem(DATA, name, lambda folder: None)
    result = catalog.train_demo("vqa", tmp_path / "run")
    assert others
    assert len(runs) == 1
    assert runs[0].name == f"run{DEMOS['vqa'].trainings[first]}"
    assert result.interrupted == signal.SIGTERM


@pytest.mark.usefixtures("few")
def test_questions_end_with_a_guess_without_looking_and_a_page(cli, tmp_path, monkeypatch):
    for counts in ("COUNTS", "DRAWN_COUNTS"):
        monkeypatch.setattr(shapes, counts, FEWER)
    run = tmp_path / "run"
    ended = cli("demo", "vqa", "--steps", 2, "--run", run, "--json")
    assert ended.code == 0, ended.err
    assert {"caption", "number", "existence"} <= set(ended.json["scores"])
    page = (run / "answers.html").read_text()
    assert page.count("data:image/png;base64,") == 3 + 2 * 3  # drawn ones beside real ones
    assert page.count('alt="generated: a ') == 3
    assert "<script" not in page
    assert (tmp_path / "run-drawing" / "palette.json").is_file()
    again = cli("demo", "vqa", "--steps", 2, "--run", run)
    assert "nothing to do" in again.err
    assert "without looking" in again.out


def test_the_guess_without_looking_is_the_commonest_answer_to_the_same_question():
    train = [("a?", "x"), ("a?", "y"), ("a?", "y"), ("b?", "x"), ("c?", "x")]
    assert most_frequent(Counter(train), ("a?", "b?", "new?")) == ["y", "x", "x"]


@pytest.mark.slow
@pytest.mark.parametrize("name", GOALS)
def test_it_learns_more_than_its_baselines(cli, tmp_path, name):
    scores = compared(cli("demo", name, "--run", tmp_path / "run", "--json").json)
    own = scores.pop("this model")
    assert own >= GOALS[name]
    assert own > max(scores.values())


@pytest.mark.slow
def test_it_learns_to_look(cli, tmp_path):
    scores = cli("demo", "vqa", "--run", tmp_path / "run", "--json").json["scores"]
    assert all(of["accuracy"] > of["blind"] for of in scores.values())


def test_every_demo_is_tested():
    assert {*BASELINES, "vqa", "lm"} == {*DEMOS}
