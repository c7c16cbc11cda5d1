"""The model card: the data it is of, how its scores were measured, on what it was computed."""

import json
import platform
import re
import socket
from pathlib import Path

import pytest
import torch

from every import slow_but
from small_drawings import recipe as drawing_recipe
from small_runs import go, pair_recipe, recipe
from small_senses import picture_recipe
from small_tasks import class_recipe, json_file, masked_recipe, tag_recipe


def card_of(run: Path) -> str:
    return (run / "README.md").read_text(encoding="utf-8")


def rows_of(card: str) -> dict[str, list[str]]:
    """The cells of the table of scores, by the name of their row."""
    lines = [line for line in card.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len({len(row) for row in cells}) == 1, "every row has as many cells"
    return {name: rest for name, *rest in cells}


def fingerprint(run: Path) -> str:
    newest = max((run / "checkpoints").glob("step-*"))
    return json.loads((newest / "state.json").read_text())["data"]


def test_data_and_environment(tmp_path):
    run = tmp_path / "x"
    go(class_recipe(tmp_path), run)
    card = card_of(run)
    assert re.search(r"\*\*Data\*\*: `classes\.jsonl`: 54 training texts, \d+ tokens; ", card)
    assert f"fingerprint of the encoded data `{fingerprint(run)}`" in card
    made_with = f"Python {platform.python_version()}, torch {torch.__version__}, "
    (line,) = [line for line in card.splitlines() if "**Environment**" in line]
    assert made_with in line
    assert line.endswith(" cpu, 1 thread, float32")
    assert socket.gethostname() not in line


def test_other_data_have_another_fingerprint(tmp_path):
    for name, label in (("a", "xy"), ("b", "xxy")):
        texts = [(f"{name} {i}", label[i % len(label)]) for i in range(20)]
        path = json_file(tmp_path, f"{name}.jsonl", texts)
        go(class_recipe(tmp_path, data={"train.path": path}), tmp_path / f"run-{name}")
    assert fingerprint(tmp_path / "run-a") != fingerprint(tmp_path / "run-b")
    assert fingerprint(tmp_path / "run-a") not in card_of(tmp_path / "run-b")


def spans(folder: Path):
    (folder / "s.txt").write_text("Ann/B-PER Lee/I-PER ran/O\n" * 30)
    return tag_recipe(folder, data={"train.path": str(folder / "s.txt")})


def several(folder: Path):
    path = json_file(folder, "t.jsonl", [("a b", ["x"]), ("b", ["x", "y"])] * 20)
    return class_recipe(folder, data={"train.path": path}, model={"multi_label": True})


MEASURED = {
    "text": (recipe, "from those before it in a window of at most 16."),
    "masked": (masked_recipe, "A share of 0.15 of the tokens is masked"),
    "pairs": (pair_recipe, "generated greedily for at most 6 inputs, at most 8 tokens each."),
    "classes": (class_recipe, "Macro F1 is the mean over the classes that occur."),
    "several": (several, "A class is predicted from a probability of 0.5"),
    "tags": (tag_recipe, "Accuracy is of words;"),
    "spans": (spans, "F1, precision and recall are of spans"),
    "drawings": (drawing_recipe, "of each target given those before it."),
    "pictures": (picture_recipe, "Macro F1"),
}


@pytest.mark.parametrize("name", slow_but(MEASURED, "masked", "pairs", "spans", "pictures"))
def test_how_each_task_is_measured(tmp_path, name):
    maker, sentence = MEASURED[name]
    result, _ = go(maker(tmp_path), tmp_path / "x")
    card = card_of(tmp_path / "x")
    assert sentence in card
    assert "Measured on a share of " in card
    assert "2 batches spread evenly" in card
    found = rows_of(card)
    assert found["loss"][0] == f"{result.scores['loss']:.4f}"
    assert ("The baselines learned" in card) == bool(result.baselines)
    assert len(found["loss"]) == 1 + len(result.baselines.get("scores", {}))


def test_the_validation_split_is_named(tmp_path):
    path = json_file(tmp_path, "held.jsonl", [("a b", "a"), ("b a", "b")])
    made = class_recipe(
        tmp_path, data={"validation.path": path, "validation.fraction": None},
        train={"evaluate.batches": None},
    )  # fmt: skip
    go(made, tmp_path / "x")
    assert "Measured on `held.jsonl`, in float32. Macro" in card_of(tmp_path / "x")


def test_a_signature_is_a_cell(tmp_path):
    go(pair_recipe(tmp_path), tmp_path / "x")
    assert rows_of(card_of(tmp_path / "x"))["bleu signature"][0].startswith("`nrefs:1\\|case:mixed")
