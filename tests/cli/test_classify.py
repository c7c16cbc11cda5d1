"""`glassformer classify` on small models of random weights, and what `evaluate` prints of classes
and tags."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from small_runs import probabilities

CLASSES = ("good", "bad", "so so", "none")
LINES = ["what a film", "", "naïve", "   ", "x", "the cat " * 30, "tab\tbed"]
TEXT = "\n".join(LINES).encode() + b"\n"
FILLED = [i for i, line in enumerate(LINES) if line.strip()]


@pytest.fixture(scope="session")
def run(saved) -> Path:
    return saved("classes", head="classify", classes=CLASSES)


@pytest.fixture(scope="session")
def labels(saved) -> Path:
    return saved("labels", head="classify", classes=CLASSES, multi_label=True)


@pytest.fixture(scope="session")
def pairs(saved) -> Path:
    return saved("pairs", head="classify", classes=CLASSES, n_token_types=2, pool="mean")


def chances(run, texts):
    from glassformer.run import load

    return probabilities(load(run), texts)


def rows(run):
    """The probabilities of each line, None of an empty one."""
    found = dict(zip(FILLED, chances(run, [LINES[i] for i in FILLED]), strict=True))
    return [found.get(i) for i in range(len(LINES))]


def test_the_class_of_each_line_in_order(cli, run):
    said = cli("classify", run, stdin=TEXT)
    assert (said.code, said.err) == (0, "")
    expected = ["" if row is None else CLASSES[row.argmax()] for row in rows(run)]
    assert said.out.split("\n")[:-1] == expected
    assert len(set(expected)) > 2, "one class everywhere would show nothing"
    for size in (1, 2):
        assert cli("classify", run, "--batch-size", size, stdin=TEXT).out == said.out
    assert cli("classify", run, stdin=TEXT.removesuffix(b"\n")).out == said.out
    assert cli("classify", run, stdin=TEXT.replace(b"\n", b"\r\n")).out == said.out
    assert cli("classify", run, stdin=b"").out == ""
    assert cli("classify", run, stdin=b"\n").out == "\n"


def test_columns_of_scores_and_of_the_likeliest(cli, run):
    def lines(*arguments):
        return cli("classify", run, *arguments, stdin=TEXT).out.split("\n")[:-1]

    wanted = [[] if row is None else np.argsort(-row).tolist() for row in rows(run)]
    chance = [
        [] if row is None else [f"{row[i]:.4f}" for i in best]
        for row, best in zip(rows(run), wanted, strict=True)
    ]
    for k in (1, 3, 4, 9):
        assert lines("--top", k) == ["\t".join(CLASSES[i] for i in best[:k]) for best in wanted]
        both = [
            "\t".join(f"{p}\t{CLASSES[i]}" for p, i in list(zip(ps, best, strict=True))[:k])
            for ps, best in zip(chance, wanted, strict=True)
        ]
        assert lines("--top", k, "--scores") == both
        if k == 1:
            assert lines("--scores") == both


def test_json_is_one_object_a_line(cli, run):
    lines = cli("classify", run, "--json", stdin=TEXT).lines
    assert [line["text"] for line in lines] == LINES
    for line, row in zip(lines, rows(run), strict=True):
        if row is None:
            assert line == {
                "text": line["text"],
                "labels": [],
                "label": None,
                "probability": None,
                "probabilities": {},
            }
            continue
        assert set(line) == {"text", "labels", "label", "probability", "probabilities"}
        assert line["labels"] == [line["label"]]
        assert list(line["probabilities"]) == list(CLASSES)
        assert list(line["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-6)
        assert line["label"] == CLASSES[row.argmax()]
        assert line["probability"] == line["probabilities"][line["label"]]
    for line, row in zip(
        cli("classify", run, "--json", "--top", 2, stdin=TEXT).lines, rows(run), strict=True
    ):
        assert list(line["probabilities"]) == (
            [] if row is None else [CLASSES[i] for i in np.argsort(-row)[:2]]
        )


@pytest.mark.parametrize("threshold", [None, 0, 0.2, 0.5, 1])
def test_any_number_of_classes(cli, labels, threshold):
    asked = [] if threshold is None else ["--threshold", threshold]
    least = 0.5 if threshold is None else threshold
    wanted = [
        [] if row is None else [i for i in range(4) if row[i] >= least] for row in rows(labels)
    ]
    names = [",".join(CLASSES[i] for i in chosen) for chosen in wanted]
    assert cli("classify", labels, *asked, stdin=TEXT).out.split("\n")[:-1] == names
    scores = [
        "" if row is None else ",".join(f"{row[i]:.4f}" for i in chosen) + f"\t{shown}"
        for row, chosen, shown in zip(rows(labels), wanted, names, strict=True)
    ]
    assert cli("classify", labels, *asked, "--scores", stdin=TEXT).out.split("\n")[:-1] == scores
    lines = cli("classify", labels, *asked, "--json", stdin=TEXT).lines
    assert [line["labels"] for line in lines] == [[CLASSES[i] for i in chosen] for chosen in wanted]
    assert all(set(line) == {"text", "labels", "probabilities"} for line in lines)
    if threshold is None:
        assert {len(chosen) for chosen in wanted} >= {0, 2, 3}, (
            "one class for each would show nothing"
        )


def test_the_likeliest_of_any_number_of_classes(cli, labels):
    said = cli("classify", labels, "--top", 2, stdin=TEXT).out.split("\n")[:-1]
    assert said == [
        "" if row is None else "\t".join(CLASSES[i] for i in np.argsort(-row)[:2])
        for row in rows(labels)
    ]


def test_a_pair_is_two_texts_with_a_tab_between(cli, pairs, run):
    texts = [("tab", "bed"), "tab bed", ("", "bed"), ("tab", "")]
    stdin = "".join(
        f"{text if isinstance(text, str) else '	'.join(text)}\n" for text in texts
    ).encode()
    lines = cli("classify", pairs, "--json", stdin=stdin).lines
    found = chances(pairs, texts)
    assert [line["text"] for line in lines] == ["tab", "tab bed", "", "tab"]
    assert [line.get("pair") for line in lines] == ["bed", None, "bed", ""]
    for line, row in zip(lines, found, strict=True):
        assert list(line["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-6)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    (single,) = cli("classify", run, "--json", stdin=b"tab\tbed\n").lines
    assert single["text"] == "tab\tbed"


def test_a_model_trained_on_pairs_reads_nothing_else(cli, refused, saved):
    run = saved("trained-on-pairs", head="classify", classes=CLASSES)
    (run / "recipe.yaml").write_text(
        "task: text-classification\ndata: {train: {path: gone.jsonl}, pair_field: other}\n"
    )
    (line,) = cli("classify", run, "--json", stdin=b"tab\tbed\n").lines
    assert (line["text"], line["pair"]) == ("tab", "bed")
    for stdin, tabs in ((b"tab bed\n", 0), (b"a\tb\tc\n", 2)):
        sentence = refused("classify", run, code=1, keep=run, stdin=stdin)
        assert (
            f"Line 1 has {tabs} TABs and this model classifies pairs; write two texts with one TAB"
            in sentence
        )


def test_only_a_line_feed_ends_a_line(cli, run):
    (line,) = cli("classify", run, "--json", stdin="a\u2028dog\x85cat\n".encode()).lines
    assert line["text"] == "a\u2028dog\x85cat"


def test_a_name_that_ends_a_line_does_not(cli, saved):
    run = saved("strange", head="classify", classes=("a\nb", "c\u2028d"))
    assert sorted(cli("classify", run, "--top", 2, stdin=b"x\n").out.strip("\n").split("\t")) == [
        "a b",
        "c d",
    ]


@pytest.mark.slow  # quick: test_translate.py
def test_who_writes_a_line_and_waits_gets_its_answer(run):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "glassformer", "classify", str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        for line in ("a film", "", "x"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline().decode().removesuffix("\n")
            assert answer in (CLASSES if line else ("",))
        out, err = process.communicate()
    assert (out, err, process.returncode) == (b"", b"", 0)


# What users get wrong


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "sentence"),
    [
        ([], b"a\n\xffb\n", 1, "Line 2 of standard input is not UTF-8 (byte 0xff at offset 0)"),
        (
            ["--threshold", 0.5],
            TEXT,
            2,
            "--threshold is for model.multi_label, and this model gives one class",
        ),
        (
            ["--threshold", 0.5, "--top", 2],
            TEXT,
            2,
            "--top lists classes whatever their probability",
        ),
        (["--device", "abacus"], TEXT, 2, "'abacus' is no device"),
        (["a.png"], TEXT, 2, "a text each, and a.png is given as a file; give lines: < a.png."),
        (["--skip-bad"], TEXT, 2, "--skip-bad is for files of images or audio, and this model"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_options_and_lines(refused, run, arguments, stdin, code, sentence):
    assert sentence in refused("classify", run, *arguments, code=code, keep=run, stdin=stdin)


def test_lines_that_are_no_pair(refused, cli, pairs):
    sentence = refused("classify", pairs, code=1, keep=pairs, stdin=b"\n\na\tb\tc\n")
    assert (
        "Line 3 has 2 TABs and this model classifies pairs; write two texts with one TAB "
        "between them" in sentence
    )
    said = cli("classify", pairs, "--batch-size", 1, stdin=b"a\tb\n\na\tb\tc\n")
    assert "Line 3 has 2 TABs" in said.err


def test_wrong_usage(cli, run):
    for arguments in (["--top", 0], ["--threshold", 1.5], ["--batch-size", 0]):
        assert cli("classify", run, *arguments, stdin=TEXT).code == 2


def test_a_model_that_does_not_classify(refused, trained, saved):
    tagger = saved("tagger", head="tag", n_classes=2)
    for stdin in (b"a\n", b""):
        sentence = refused("classify", trained, code=2, keep=trained, stdin=stdin)
        assert (
            "is a model for text-generation, so classifying is not for it; use `glassformer generate`."
            in sentence
        )
        assert "use `glassformer tag`" in refused(
            "classify", tagger, code=2, keep=tagger, stdin=stdin
        )


# What evaluate prints


@pytest.fixture
def evaluated(cli, run, monkeypatch):
    """Print scores as if they had been measured."""
    from glassformer.run import Run

    def call(scores):
        about = {"run": str(run), "split": "validation", "data": None}
        monkeypatch.setattr(Run, "evaluate", lambda self, *arguments, **changes: about | scores)
        assert cli("evaluate", run, "--json").json == about | scores
        return cli("evaluate", run).out.splitlines()

    return call


def table(n):
    return [
        {
            "class": f"class {i}",
            "precision": i / n,
            "recall": 0.5,
            "f1": 0.25,
            "n": 1000 + i * (-1) ** i,
        }
        for i in range(n)
    ]


def test_scores_of_classes(evaluated, run):
    scores = {
        "loss": 0.5,
        "accuracy": 0.75,
        "micro_f1": 0.75,
        "macro_f1": 0.625,
        "ece": 0.0125,
        "examples": 12345,
    }
    rest = {
        "unseen": 3,
        "unseen_classes": {"odd": 1, "new\none": 2},
        "reliability": [],
        "worst": [],
    }
    lines = evaluated(
        {**scores, **rest, "table": table(3), "confusion": {"names": ["a"], "counts": [[1]]}}
    )
    assert lines == [
        f"{run}, validation split: 12,345 examples",
        "  loss           0.5000",
        "  accuracy       0.7500",
        "  micro f1       0.7500",
        "  macro f1       0.6250",
        "  ece            0.0125",
        "  unseen         3 of classes that the model does not know: new one (2), odd (1)",
        "    class   precision   recall       f1        n",
        "    class 2    0.6667   0.5000   0.2500    1,002",
        "    class 0    0.0000   0.5000   0.2500    1,000",
        "    class 1    0.3333   0.5000   0.2500      999",
    ]


def test_scores_of_tags_and_of_more_classes_than_a_screen_holds(evaluated, run):
    scores = {
        "accuracy": 0.75,
        "macro_f1": 0.5,
        "tokens": 100,
        "precision": 0.1,
        "recall": 0.2,
        "f1": 0.15,
    }
    lines = evaluated(
        {
            **scores,
            "spans": 1234,
            "unseen_classes": {str(i): 1 for i in range(12)},
            "table": table(33),
        }
    )
    assert lines[0] == f"{run}, validation split: 100 predicted tokens"
    assert "  spans          1,234" in lines
    assert lines.index("  precision      0.1000") < lines.index("  f1             0.1500")
    (unseen,) = [line for line in lines if line.startswith("  unseen")]
    assert unseen.startswith("  unseen         12 of classes")
    assert unseen.endswith(" 8 (1), 9 (1) and 2 others")
    begin = next(i for i, line in enumerate(lines) if line.startswith("    class "))
    rows = lines[begin + 1 :]
    assert len(rows) == 31
    assert rows[-1] == "    and 3 more, with --json"
    frequent = [int(re.split(r" +", row)[-1].replace(",", "")) for row in rows[:-1]]
    assert frequent == sorted(frequent, reverse=True)
    assert len(set(map(len, rows[:-1]))) == 1
