"""The demo of questions about pictures, with few pictures and steps: its scores, its page, its
JSON."""

import json

import pytest

from glassformer.cli.demo import demo
from glassformer.demos import shape_rows as shaperows
from glassformer.demos import vqa as demo_vqa


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(shaperows, "COUNTS", {"train": 40, "validation": 3, "test": 5})
    monkeypatch.setattr(shaperows, "DRAWN_COUNTS", {"train": 20, "validation": 3, "test": 40})
    monkeypatch.setattr(demo_vqa, "CARDS", 3)
    for recipe in (demo_vqa.RECIPE, demo_vqa.DRAWN):
        train = {"precision": "float32", "device": "cpu", "batch_size": 8}
        monkeypatch.setitem(recipe, "model", recipe["model"] | {"d_model": 16, "n_layers": 1})
        monkeypatch.setitem(recipe, "train", recipe["train"] | train)
    caches = shaperows._scenes, shaperows._lone
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_it_ends_with_scores_beside_a_guess_without_looking_and_with_a_page(few, tmp_path, capsys):
    demo("vqa", tmp_path / "run", 2, True)
    values = json.loads(capsys.readouterr().out)
    assert values["steps"] == 2
    assert list(values["scores"])[:2] == ["captions", "all questions"]
    rows = [row for row in shaperows.shape_rows() if row.split == "test"]
    page = (tmp_path / "run" / "answers.html").read_text()
    shown = list(dict.fromkeys(row.picture for row in rows))[:3]
    assert (
        page.count("data:image/png;base64,") == 3 + 2 * 3
    )  # what was drawn stands beside a real picture
    assert all(row.answer in page for row in rows if row.picture in shown)
    kinds = {f"a {' '.join(kind)}" for split, _, kind in shaperows.drawn_rows() if split == "test"}
    assert sum(f'alt="generated: {kind}"' in page for kind in kinds) == 3
    assert (tmp_path / "run-drawing" / "palette.json").is_file()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    demo("vqa", tmp_path / "run", 2, False)  # it is found done
    assert "without looking" in capsys.readouterr().out


def test_the_guess_without_looking_is_the_commonest_answer_to_the_same_question():
    row = lambda split, prompt, answer: shaperows.ShapeRow(split, "p", prompt, answer, "kind")
    train = [
        row("train", "a?", "x"),
        row("train", "a?", "y"),
        row("train", "a?", "y"),
        row("train", "b?", "x"),
    ]
    rows = [*train, row("train", "c?", "x"), row("test", "a?", "z")]
    assert demo_vqa._blind(rows, [row("test", prompt, "z") for prompt in ("a?", "b?", "new?")]) == [
        "y",
        "x",
        "x",
    ]
