"""The demo of questions about pictures, with few pictures and steps: its scores, its page, its
JSON."""

import json

import numpy as np
import pytest

from glassformer.cli.demo import demo as call
from glassformer.data.parts import mixed
from glassformer.demos import demo, shape_files
from glassformer.demos import vqa as demo_vqa
from glassformer.demos.baselines import most_frequent_answer
from glassformer.inspect.answered import Answered, answered_html
from glassformer.recipe import read_recipe
from glassformer.run import load

EXACT = ("train.precision=float32", "train.device=cpu")


@pytest.fixture
def few(monkeypatch):
    few = {"train": 40, "validation": 3, "test": 5}
    monkeypatch.setattr(shape_files, "COUNTS", few)
    monkeypatch.setattr(shape_files, "DRAWN_COUNTS", few | {"train": 20, "test": 40})
    monkeypatch.setattr(demo_vqa, "CARDS", 3)
    small = ("model.d_model=16", "model.n_layers=1", "model.n_heads=2", "train.batch_size=8")
    monkeypatch.setattr(
        demo, "read_recipe", lambda path, changes: read_recipe(path, [*changes, *small, *EXACT])
    )


def test_it_ends_with_scores_beside_a_guess_without_looking_and_with_a_page(few, tmp_path, capsys):
    call("vqa", tmp_path / "run", 2, True)
    values = json.loads(capsys.readouterr().out)
    assert values["steps"] == 2
    assert list(values["scores"])[:2] == ["captions", "all questions"]
    rows = [row for row in mixed(load(tmp_path / "run").recipe.data) if row.split == "test"]
    page = (tmp_path / "run" / "answers.html").read_text()
    shown = list(dict.fromkeys(row.parts[0] for row in rows))[:3]
    assert (
        page.count("data:image/png;base64,") == 3 + 2 * 3
    )  # what was drawn stands beside a real picture
    assert all(row.target in page for row in rows if row.parts[0] in shown)
    drawn = mixed(load(tmp_path / "run-drawing").recipe.data)
    kinds = {row.parts[0][1] for row in drawn if row.split == "test"}
    assert sum(f'alt="drawn: {kind}"' in page for kind in kinds) == 3
    assert (tmp_path / "run-drawing" / "palette.json").is_file()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    call("vqa", tmp_path / "run", 2, False)  # it is found done
    assert "without looking" in capsys.readouterr().out


def test_the_guess_without_looking_is_the_commonest_answer_to_the_same_question():
    train = [("a?", "x"), ("a?", "y"), ("a?", "y"), ("b?", "x"), ("c?", "x")]
    assert most_frequent_answer(train, ("a?", "b?", "new?")) == ["y", "x", "x"]


def test_a_wrong_answer_is_marked_and_nothing_is_taken_for_markup():
    answers = [
        Answered("", "a <b>", "a <b>"),
        Answered("q&a?", "yes", "no"),
        Answered("why?", "so", ""),
    ]
    page = answered_html(
        "T<", "about", [("n", 0.5, 0.25)], [(np.zeros((2, 2, 3), np.uint8), answers)]
    )
    assert "a &lt;b&gt;" in page
    assert '<span class="wrong">no</span> <span class="right">not yes</span>' in page
    assert '<span class="wrong">nothing</span>' in page
    assert page.count('class="wrong"') == 2
    assert "50.0%" in page
    assert "25.0%" in page
