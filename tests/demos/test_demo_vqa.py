"""The demo of questions about pictures, with few pictures and steps: its scores, its page, its
JSON."""

import json

import pytest

from glassformer.cli.train import demo as call
from glassformer.data.parts import mixed
from glassformer.demos import demo, shape_files
from glassformer.demos import vqa as demo_vqa
from glassformer.metrics.baselines import most_frequent
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
    assert sum(f'alt="generated: {kind}"' in page for kind in kinds) == 3
    assert (tmp_path / "run-drawing" / "palette.json").is_file()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    call("vqa", tmp_path / "run", 2, False)  # it is found done
    assert "without looking" in capsys.readouterr().out


def test_the_guess_without_looking_is_the_commonest_answer_to_the_same_question():
    train = [("a?", "x"), ("a?", "y"), ("a?", "y"), ("b?", "x"), ("c?", "x")]
    assert most_frequent(train, ("a?", "b?", "new?")) == ["y", "x", "x"]
