"""`glassformer tag` on small models of random weights: forms of output, long lines, pipes, what
users get wrong."""

import os
import random
import subprocess
import sys
from itertools import chain, groupby
from pathlib import Path

import pytest

TAGS = ("NOUN", "VERB", "ADJ", "DET", "PUNCT")
NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LINES = ["a dog runs", "", "naïve  cat sat/lay ,", "   ", "x", "the the the", "cat " * 60]
TEXT = "\n".join(LINES).encode() + b"\n"


@pytest.fixture(scope="session")
def run(saved) -> Path:
    return saved("tags", head="tag", classes=TAGS)


@pytest.fixture(scope="session")
def names(saved) -> Path:
    return saved("names", head="tag", classes=NAMES)


@pytest.fixture(scope="session")
def opened(run):
    from glassformer.run import load

    return load(run)


@pytest.fixture(scope="session")
def expected(opened):
    return opened.tag([line.split() for line in LINES])


def test_each_word_with_its_tag(cli, run, expected):
    said = cli("tag", run, stdin=TEXT)
    assert (said.code, said.err) == (0, "")
    assert said.out.split("\n")[:-1] == [
        " ".join(f"{word}/{tag}" for word, tag in line) for line in expected
    ]
    assert len({tag for line in expected for _, tag in line}) > 1, (
        "one tag everywhere would show nothing"
    )
    assert said.out.split("\n")[1] == said.out.split("\n")[3] == ""
    assert cli("tag", run, stdin=TEXT.removesuffix(b"\n")).out == said.out
    assert cli("tag", run, stdin=TEXT.replace(b"\n", b"\r\n")).out == said.out
    assert cli("tag", run, stdin=b"").out == ""
    assert cli("tag", run, stdin=b"\n").out == "\n"


def test_a_line_alone_has_the_tags_it_has_among_others(cli, run):
    together = cli("tag", run, stdin=TEXT).out.split("\n")
    for line, found in zip(LINES, together, strict=False):
        assert cli("tag", run, stdin=f"{line}\n".encode()).out == f"{found}\n"


def test_columns_are_conll(cli, run, expected):
    said = cli("tag", run, "--columns", stdin=TEXT).out
    assert said == "".join(
        "".join(f"{word}\t{tag}\n" for word, tag in line) + "\n" for line in expected
    )
    rows = [
        [tuple(row.split("\t")) for row in rows]
        for some, rows in groupby(said.splitlines(), bool)
        if some
    ]
    assert rows == [line for line in expected if line]


def test_json_is_one_object_a_line(cli, run, opened, expected):
    lines = cli("tag", run, "--json", stdin=TEXT).lines
    assert [line["words"] for line in lines] == [line.split() for line in LINES]
    assert [list(zip(line["words"], line["tags"], strict=True)) for line in lines] == expected
    for line, tags in zip(lines, opened.predict([line.split() for line in LINES]), strict=True):
        assert set(line) == {"words", "tags", "probabilities"}
        assert line["probabilities"] == pytest.approx(tags.probabilities[:, 0].tolist(), abs=1e-6)


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (5, 5), (9, 5)])
def test_the_likeliest_tags_of_each_word_or_all(cli, run, asked, given):
    for line in cli("tag", run, "--json", "--top", asked, stdin=TEXT).lines:
        if given == 1:
            assert "top" not in line
            continue
        assert len(line["top"]) == len(line["words"])
        for best, tag, probability in zip(
            line["top"], line["tags"], line["probabilities"], strict=True
        ):
            assert best[0] == {"tag": tag, "probability": probability}
            assert len({row["tag"] for row in best}) == given
            chances = [row["probability"] for row in best]
            assert chances == sorted(chances, reverse=True)
            assert given < 5 or sum(chances) == pytest.approx(1, abs=1e-5)


def test_span_tags_mark_spans(cli, names):
    from glassformer.metrics.spans import spans

    lines = cli("tag", names, "--json", stdin=TEXT).lines
    assert sum(len(line["spans"]) for line in lines) > 3
    for line in lines:
        assert [(s["kind"], s["start"], s["end"]) for s in line["spans"]] == spans(line["tags"])
        assert [s["text"] for s in line["spans"]] == [
            " ".join(line["words"][s["start"] : s["end"]]) for s in line["spans"]
        ]


def test_punctuation_is_split_off(cli, run, opened):
    words = ["Don", "'", "t", "stop", "—", "naïve", "!", "!"]
    said = cli("tag", run, "--punctuation", "--json", stdin="Don't stop—naïve!!\n".encode()).json
    assert said["words"] == words
    assert list(zip(words, said["tags"], strict=True)) == opened.tag([words])[0]
    assert cli("tag", run, "--json", stdin="Don't stop—naïve!!\n".encode()).json["words"] == [
        "Don't",
        "stop—naïve!!",
    ]


def test_only_a_line_feed_ends_a_line(cli, run):
    (line,) = cli("tag", run, "--json", stdin="a\x85dog\u2028cat\n".encode()).lines
    assert line["words"] == ["a", "dog", "cat"]


@pytest.mark.slow  # quick: test_translate.py
def test_who_writes_a_line_and_waits_gets_its_answer(run):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "glassformer", "tag", str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        for line in ("a dog", "", "cat"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline().decode()
            assert [word.rpartition("/")[0] for word in answer.split()] == line.split()
        out, err = process.communicate()
    assert (out, err, process.returncode) == (b"", b"", 0)


def test_evaluate_counts_the_tags_that_are_printed(cli, saved, tmp_path):
    """What `tag` says of the words of a file, held against its tags, is what `evaluate` says of
    that file."""
    run = saved("evaluated", head="tag", classes=("DET", "N", "V"), max_length=32)
    model = (
        "{architecture: encoder, head: tag, d_model: 16, n_layers: 2, n_heads: 2, "
        "max_length: 32, position: rotary}"
    )
    (run / "recipe.yaml").write_text(
        f"task: token-classification\nmodel: {model}\ndata: {{train: {{path: gone.conll}}}}\nprocessor: {{tokenizer: {{kind: byte}}}}\n"
    )
    chooser = random.Random(0)
    gold = [
        chooser.choices([("the", "DET"), ("cat", "N"), ("sat", "V"), ("dog", "N")], k=n)
        for n in (1, 5, 30, 8)
    ]
    gold.append([("dog", "ODD"), ("cat", "N")])
    rows = ["".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in gold]
    (tmp_path / "other.conll").write_text("\n".join(rows))
    stdin = "".join(" ".join(word for word, _ in sentence) + "\n" for sentence in gold).encode()
    found = [tag for line in cli("tag", run, "--json", stdin=stdin).lines for tag in line["tags"]]
    right = sum(
        tag == other for (_, tag), other in zip(chain.from_iterable(gold), found, strict=True)
    )
    assert 5 < right < 41
    arguments = ["evaluate", run, "--device", "cpu", "--data", tmp_path / "other.conll"]
    scores = cli(*arguments, "--json").json
    assert scores["tokens"] == 46
    assert scores["accuracy"] == pytest.approx(right / 46)
    assert scores["unseen_classes"] == {"ODD": 1}
    said = cli(*arguments).out
    assert "other.conll: 46 predicted tokens\n" in said
    assert f"  accuracy       {right / 46:.4f}\n" in said
    assert (
        "  unseen         1 of classes that the model does not know: ODD (1)\n    class precision"
        in said
    )


# How lines are read


@pytest.mark.parametrize(
    ("length", "most"), [(10, 256), (1 << 10, 256), ((1 << 20) + 3, 1), (100_000, 11)]
)
def test_lines_are_taken_together_long_ones_less(monkeypatch, tmp_path, length, most):
    from glassformer.cli.terminal import chunks

    lines = [str(i) * (length // len(str(i))) for i in range(300 if length < 2000 else 20)]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    with (tmp_path / "lines.txt").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        found = list(chunks(256))
    assert list(chain.from_iterable(found)) == lines
    assert max(map(len, found)) <= most


# What users get wrong


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "sentence"),
    [
        ([], b"a\n\xffb\n", 1, "Line 2 of standard input is not UTF-8 (byte 0xff at offset 0)"),
        (
            ["--columns", "--json"],
            TEXT,
            2,
            "--columns and --json are two forms of the same; leave one of them out",
        ),
        (
            ["--top", 2],
            TEXT,
            2,
            "--top=2 lists several tags of each word, which only --json can hold",
        ),
        (["--top", 2, "--columns"], TEXT, 2, "--top=2 lists several tags"),
        (["--device", "abacus"], TEXT, 2, "'abacus' is no device"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_options_and_lines(refused, run, arguments, stdin, code, sentence):
    assert sentence in refused("tag", run, *arguments, code=code, keep=run, stdin=stdin)


def test_wrong_usage(cli, run):
    assert cli("tag", run, "--top", 0, stdin=TEXT).code == 2
    assert cli("tag", stdin=TEXT).code == 2


def test_a_model_that_does_not_tag(refused, trained, saved):
    classifier = saved("classifier", head="classify", n_classes=2)
    for stdin in (b"a\n", b""):
        sentence = refused("tag", trained, code=2, keep=trained, stdin=stdin)
        assert (
            "is a model for text-generation, so tagging is not for it; use `glassformer generate`."
            in sentence
        )
        assert "use `glassformer classify`" in refused(
            "tag", classifier, code=2, keep=classifier, stdin=stdin
        )


def test_classes_without_names_are_numbers(cli, saved):
    run = saved("numbers", head="tag", n_classes=3)
    assert {word.split("/")[1] for word in cli("tag", run, stdin=TEXT).out.split()} <= {
        "0",
        "1",
        "2",
        "lay",
    }


# A whole document on one line

MEGABYTES = 54
"""180,000 words more may take 300 bytes each, twice what they need as bytes, words, answers and the
printed line; the logits of all of them alone would be 144 MB."""


@pytest.mark.slow
def test_a_long_line_takes_memory_for_its_words_alone(saved, tmp_path):
    from glassformer.tokenizers.definition import word_definition
    from glassformer.tokenizers.text import Tokenizer

    words = [f"w{i}" for i in range(5000)]
    tokenizer = Tokenizer(word_definition(words, lowercase=False))
    run = saved("many", tokenizer, head="tag", n_classes=200, n_layers=1)
    peaks = []
    for n in (20_000, 200_000):
        path, out = tmp_path / f"{n}.txt", tmp_path / f"{n}.out"
        path.write_text(" ".join(words[i * 7919 % 5000] for i in range(n)) + "\n")
        with path.open() as stdin, out.open("w") as stdout:
            process = subprocess.Popen(
                [sys.executable, "-m", "glassformer", "tag", str(run)],
                stdin=stdin,
                stdout=stdout,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        assert len(out.read_text().split()) == n
        peaks.append(usage.ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1))
    assert peaks[1] - peaks[0] < MEGABYTES
