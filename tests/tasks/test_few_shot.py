"""A language model is asked for labels by prompts with examples, and scored beside the most frequent
label."""

import csv
import json
import math
import random
import re

import pytest

import glassformer as gf
from glassformer.core.errors import ConfigError, DataError
from glassformer.tasks.predictors.choose import balance, examples_of
from small_runs import go, recipe
from small_tasks import LEARNING

GOOD, BAD, THINGS = ("good", "fine"), ("bad", "sad"), ("film", "song", "day", "cake")
FORM = "text {text} label {label}"
RATE = {"optimizer.learning_rate": 0.003, "evaluate.every": 120, "save.every": 120}


def rows(n: int, seed: int) -> list[dict[str, str]]:
    draw = random.Random(seed)
    words = [draw.choice(GOOD + BAD) for _ in range(n)]
    return [
        {"text": f"a {draw.choice(THINGS)} so {word}", "label": "yes" if word in GOOD else "no"}
        for word in words
    ]


def table(path, own):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in own))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A language model that has read rows in the form of the prompts."""
    folder = tmp_path_factory.mktemp("few_shot")
    text = "\n".join(FORM.format(**row) for row in rows(600, seed=0))
    (folder / "text.txt").write_text(text)
    made = recipe(
        folder,
        model={"d_model": 32, "max_length": 24},
        data={"train.path": str(folder / "text.txt")},
        processor={"tokenizer": {"kind": "word"}},
        train=LEARNING | {"steps": 120, "batch_size": 16, "optimizer.kind": "muon"} | RATE,
    )
    go(made, folder / "run")
    return gf.load(folder / "run")


@pytest.mark.slow  # quick: training/test_learning.py
def test_labels_are_learned_from_text_in_the_form_of_the_prompts(run, tmp_path):
    table(tmp_path / "examples.jsonl", rows(12, seed=1))
    asked = run.few_shot(tmp_path / "examples.jsonl", 3, template=FORM)
    test = examples_of(table(tmp_path / "test.jsonl", rows(80, seed=2)))
    scores = asked.evaluate(test)
    assert scores["accuracy"] == 1.0
    counts = [sum(row.labels == (label,) for row in test) for label in ("yes", "no")]
    assert scores["baselines"]["scores"]["majority_class"]["accuracy"] == max(counts) / 80
    assert scores["baselines"]["better"] is True
    strange = [
        {"text": "a film so good", "label": "maybe"},
        {"text": "a day so sad", "label": "no"},
    ]
    scores = asked.evaluate(examples_of(table(tmp_path / "strange.jsonl", strange)))
    assert (scores["accuracy"], scores["unseen_classes"]) == (0.5, {"maybe": 1})


def test_a_choice_is_that_of_the_scores_of_the_whole_texts(run, tmp_path):
    """log p of a label is what the label adds to the log-probability of all of the text."""
    long = [
        {"text": "a film so good", "label": "yes"},
        {"text": "a day so bad", "label": "no no no"},
    ]
    table(tmp_path / "examples.jsonl", long)
    asked = run.few_shot(tmp_path / "examples.jsonl", 1, template=FORM)
    prompt = "text a film so good label yes\n\ntext a cake so fine label"
    assert asked.prompt("a cake so fine") == prompt
    (chosen,) = asked.choose([("a cake so fine", None)])
    log_p = lambda text: sum(one.log_prob or 0.0 for one in run.score(text))
    expected = {one: log_p(f"{prompt} {one}") - log_p(prompt) for one in ("yes", "no no no")}
    assert chosen.log_probs == pytest.approx(expected, abs=1e-4)  # sums of float32
    whole = sum(map(math.exp, expected.values()))
    shares = {label: math.exp(value) / whole for label, value in expected.items()}
    assert chosen.probabilities == pytest.approx(shares, abs=1e-4)
    assert chosen.label == max(expected, key=lambda label: expected[label])
    assert chosen.by_length == max(expected, key=lambda label: expected[label] / len(label))


def test_shots_are_balanced_and_as_many_as_fit(run, tmp_path):
    many = [{"text": f"a good day {i}", "label": "yes"} for i in range(6)]
    path = table(tmp_path / "examples.jsonl", [*many, *rows(40, seed=4)])
    examples = examples_of(path)
    for seed in (None, 0, 1):
        chosen = [examples[i].labels[0] for i in balance(examples, ("yes", "no"), 5, seed)]
        assert chosen == ["yes", "no", "yes", "no", "yes"]
    assert balance(examples, ("yes", "no"), 5, 0) != balance(examples, ("yes", "no"), 5, 1)
    asked = run.few_shot(path, 40, template=FORM)
    words = [("a film so good", None), ("a film " + "so " * 10 + "good", None)]
    sizes = [len(asked.fitting(words[:n]).shots) for n in (1, 2)]
    # a context of 24 words holds 25 with the last label; a text of n words takes n + 3
    assert sizes == [(25 - 7) // 7, (25 - 16) // 7]
    with pytest.raises(ConfigError, match="give fewer shots"):
        asked.choose([("a film " + "so " * 30, None)])


def test_a_table_that_is_continued_is_as_if_it_was_not_interrupted(cli, run, tmp_path):
    """Each text has its own number of shots, whatever texts are beside it."""
    shots = table(tmp_path / "examples.jsonl", rows(8, seed=1))
    texts = [{"text": row["text"] + " so" * i} for i, row in enumerate(rows(6, seed=3))]
    given, out = table(tmp_path / "texts.jsonl", texts), tmp_path / "out.jsonl"
    ask = ("choose", run.folder, "--shots", shots, "--template", FORM, "--in", given, "--out", out)
    assert cli(*ask).code == 0
    whole = out.read_bytes()
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    assert cli(*ask, "--resume").code == 0
    assert out.read_bytes() == whole


def test_the_command_prints_labels_or_the_accuracy(cli, run, tmp_path):
    shots = table(tmp_path / "examples.jsonl", rows(8, seed=1))
    ask = ("choose", run.folder, "--shots", shots, "--template", FORM)
    said = cli(*ask, "--prompt", "a day so fine", "--prompt", "a song so bad", "--json").lines
    assert [row["label"] for row in said] == ["yes", "no"]
    lines = cli(*ask, "--n-shots", 2, stdin=b"a day so fine\n\na song so bad\n").out.splitlines()
    assert [line.partition("\t")[2] for line in lines] == ["yes", "", "no"]
    assert all(re.fullmatch(r"[01]\.\d{4}\t\w+|", line) for line in lines)
    test = rows(20, seed=3)
    for name, columns in (("texts.csv", ["text"]), ("labels.csv", ["text", "label"])):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, columns, extrasaction="ignore")
            out.writeheader()
            out.writerows(test)
    texts = cli(*ask, "--in", tmp_path / "texts.csv", "--out", tmp_path / "out.jsonl")
    made = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["label"] for row in made] == [row["label"] for row in test]
    assert "of 5 shots, since no more fit" in texts.err
    asked = ("evaluate", run.folder, "--shots", shots, "--template", FORM)
    scored = cli(*asked, "--data", tmp_path / "labels.csv").out
    assert "20 examples, 2 shots" in scored
    assert "accuracy       1.0000" in scored
    assert "majority class 0." in scored


def test_bad_questions_are_refused(refused, cli, run, trained, saved, tmp_path):
    keep = {"code": 2, "keep": tmp_path}
    shots = table(tmp_path / "examples.jsonl", rows(8, seed=1))
    one = table(tmp_path / "one.jsonl", rows(1, seed=1))
    (tmp_path / "plain.txt").write_text("a\n")
    ask = ("choose", run.folder, "--shots")
    assert "at least two" in refused(*ask, one, "--prompt", "a", **keep)
    assert "{label} at its end" in refused(*ask, shots, "--template", "{text}", **keep)
    assert "shots is missing" in refused("choose", run.folder, "--prompt", "a", **keep)
    assert "--n-shots has no use" in refused("evaluate", run.folder, "--n-shots", 2, **keep)
    assert "name their table: --data" in refused("evaluate", run.folder, "--shots", shots, **keep)
    both = ("--prompt", "a", "--in", shots, "--out", tmp_path / "out.csv")
    assert "--prompt has no use" in refused(*ask, shots, *both, **keep)
    tagger = saved("tagger", head="tag", classes=["a", "b"])
    said = refused("choose", tagger, "--shots", shots, "--prompt", "a", **keep)
    assert "glassformer tag" in said
    with pytest.raises(DataError, match="no table of texts with labels"):
        run.few_shot(tmp_path / "plain.txt")
