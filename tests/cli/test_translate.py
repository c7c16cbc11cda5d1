"""`translate` and what else an encoder-decoder's run can be used for, on one tiny trained run."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from copy import copy
from pathlib import Path

import pytest

import processes
from glassformer.native import Program, compiler

RECIPE = """
task: text-to-text
model: {architecture: encoder_decoder, d_model: 16, n_layers: 2, n_heads: 2, max_length: 24}
data: {train: {path: PAIRS}, test: {fraction: 0.1}}
processor: {tokenizer: {kind: character}}
train: {steps: 6, batch_size: 8, evaluate: {every: 3, decode_lines: 4}, save: {every: 3}, sample: {tokens: 0},
  schedule: {warmup_steps: 2}, optimizer: {learning_rate: 0.01}, precision: float32, device: cpu}
generate: {max_new_tokens: 12}
"""
WORDS = ["dog", "cat", "naïve", "sat", "a", "ran"]


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    chooser, path = random.Random(0), tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    sources = [" ".join(chooser.choices(WORDS, k=chooser.randint(1, 4))) for _ in range(80)]
    path.write_text("".join(f"{source}\t{source[::-1]}\n" for source in sources), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pair_recipe(pairs) -> Path:
    path = pairs.parent / "pairs.yaml"
    path.write_text(RECIPE.replace("PAIRS", str(pairs)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def run(pair_recipe, tmp_path_factory) -> Path:
    from glassformer.run import train

    folder = tmp_path_factory.mktemp("runs") / "pairs"
    train(pair_recipe, {}, folder)
    return folder


@pytest.fixture
def own(run, tmp_path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.fixture(scope="session")
def opened(run):
    from glassformer.run import load

    return load(run)


LINES = ["a dog", "", "cat", "naïve cat ran", "   ", "sat", "dog dog"]
TEXT = "\n".join(LINES).encode() + b"\n"


def test_a_line_for_a_line_in_order(cli, run, opened):
    said = cli("translate", run, stdin=TEXT)
    assert said.code == 0
    assert said.out.split("\n")[:-1] == opened.translate(LINES)
    assert said.out.split("\n")[:-1][1] == said.out.split("\n")[:-1][4] == ""
    assert said.err == ""
    for size in (1, 2):
        assert cli("translate", run, "--batch-size", size, stdin=TEXT).out == said.out
    assert cli("translate", run, stdin=TEXT.removesuffix(b"\n")).out == said.out
    assert cli("translate", run, stdin=TEXT.replace(b"\n", b"\r\n")).out == said.out
    assert cli("translate", run, stdin=b"").out == ""
    assert cli("translate", run, stdin=b"\n").out == "\n"


def test_only_a_line_feed_ends_a_line(cli, run):
    said = cli("translate", run, "--json", stdin="a\u2028dog\x85cat\n".encode())
    assert [line["source"] for line in said.lines] == ["a\u2028dog\x85cat"]


def test_the_options_of_the_search(cli, run, opened):
    for arguments, changes in (
        (["--beams", 1], {"beams": 1}),
        (["--max-new-tokens", 3], {"max_new_tokens": 3}),
        (["--beams", 3, "--length-penalty", 0], {"beams": 3, "length_penalty": 0.0}),
    ):
        said = cli("translate", run, *arguments, stdin=TEXT)
        assert said.out.split("\n")[:-1] == opened.translate(LINES, **changes)


def test_a_folder_without_its_recipe_searches_as_it_was_trained_to(refused, own, opened):
    from glassformer.run import load

    (own / "recipe.yaml").unlink()
    assert load(own, accept_changed=True).options() == opened.options()
    path = own / "generation_config.json"
    path.write_text("{")
    said = refused("verify", own, "--accept-changed", code=1, keep=own)
    assert "generation_config.json is not readable JSON; restore it" in said
    path.unlink()
    assert load(own, accept_changed=True).options().beams == 5


def test_scores_stand_in_front(cli, run, opened):
    plain = cli("translate", run, stdin=TEXT).out.split("\n")
    said = cli("translate", run, "--scores", stdin=TEXT).out.split("\n")
    found = opened.predict(LINES)
    for source, line, with_score, best in zip(LINES, plain, said, found, strict=False):
        assert with_score == (f"{best.score:.4f}\t{line}" if source.strip() else "")


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_a_compiled_step_translates_the_same(cli, run, monkeypatch):
    plain, rows, likeliest = cli("translate", run, stdin=TEXT).out, [], Program.likeliest
    noted = lambda *arguments: rows.append(1) or likeliest(*arguments)
    monkeypatch.setattr(Program, "likeliest", noted)
    assert cli("translate", run, "--compile", stdin=TEXT).out == plain
    assert rows


def test_the_n_best_of_each_line(cli, run, opened):
    said = cli("translate", run, "--beams", 4, "--n-best", 3, stdin=TEXT).out.splitlines()
    rows = [
        re.fullmatch(r"(\d+) \|\|\| (.*) \|\|\| (-?\d+\.\d{4})", line).groups() for line in said
    ]
    found = [[one, *one.others] for one in opened.predict(LINES, beams=4, n_best=3)]
    expected = [
        (str(i), one.text, f"{one.score:.4f}") for i, best in enumerate(found) for one in best
    ]
    assert rows == expected
    assert [i for i, _, _ in rows].count("0") == 3
    scores = [float(score) for i, _, score in rows if i == "3"]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("choice", [[], ["--layer", 0, "--head", 1], ["--layer", 0, "--layer", 1]])
def test_alignments_join_words_that_there_are(cli, run, choice):
    plain = cli("translate", run, stdin=TEXT).out.split("\n")
    said = cli("translate", run, "--alignments", *choice, stdin=TEXT).out.split("\n")
    assert len(said) == len(plain) == len(LINES) + 1
    joined = 0
    for source, target, line in zip(LINES, plain, said, strict=False):
        text, *alignment = line.split("\t")
        assert text == target
        assert len(alignment) == bool(source.strip())
        for pair in " ".join(alignment).split():
            s, t = map(int, re.fullmatch(r"(\d+)-(\d+)", pair).groups())
            assert s < len(source.split())
            assert t < len(target.split())
            joined += 1
    assert joined, "nothing was aligned, so nothing was tested"


def test_json_is_one_object_a_line(cli, run, opened):
    said = cli("translate", run, "--json", "--alignments", stdin=TEXT).lines
    assert [line["source"] for line in said] == LINES
    found = opened.predict(LINES)
    names = {"source", "text", "score", "finish", "tokens", "alternatives", "alignment"}
    for line, best in zip(said, found, strict=True):
        assert line["text"] == best.text
        assert line["score"] == pytest.approx(best.score)
        assert (line["finish"], line["tokens"]) == (best.finish, len(best.ids))
        assert set(line) == names
        words = len(line["source"].split()), len(line["text"].split())
        assert all(s < words[0] and t < words[1] for s, t in line["alignment"])
    best = cli("translate", run, "--json", "--beams", 3, "--n-best", 2, stdin=b"a dog\n").json
    (other,) = best["alternatives"]
    assert best["score"] >= other["score"]


def test_sampling_is_by_the_seed(cli, run):
    one, again, other = (
        cli("translate", run, "--temperature", 1.5, "--seed", seed, stdin=TEXT).out
        for seed in (1, 1, 2)
    )
    assert one == again != other
    assert (
        cli("translate", run, "--temperature", 1.5, "--seed", 1, "--batch-size", 1, stdin=TEXT).out
        == one
    )


@pytest.mark.parametrize(
    ("suffix", "begin"), [("html", b"<!doctype html>"), ("png", b"\x89PNG"), ("HTML", b"<!")]
)
def test_a_picture_of_the_first_line_that_has_words(cli, run, tmp_path, suffix, begin):
    path = tmp_path / f"picture.{suffix}"
    said = cli("translate", run, "--show-attention", path, stdin=b"\n a dog\ncat\n")
    assert path.read_bytes()[: len(begin)].lower() == begin.lower()
    assert said.err == f"attention of ' a dog': {path}\n"
    assert said.out == cli("translate", run, stdin=b"\n a dog\ncat\n").out


def test_given_targets_are_scored(cli, run, opened, tmp_path):
    targets = ["god a", "", "tac", "nar", "x y", "tas", "god god"]
    path = tmp_path / "targets.txt"
    path.write_text("\n".join(targets) + "\n", encoding="utf-8")
    expected = opened.score_pairs(list(zip(LINES, targets, strict=True)))
    said = cli("score", run, "--targets", path, stdin=TEXT).out.split("\n")[:-1]
    for line, target, log_probs in zip(said, targets, expected, strict=True):
        total = sum(log_probs)
        assert line == f"{total:.4f}\t{total / len(log_probs):.4f}\t{target}"
    values = cli("score", run, "--targets", path, "--json", stdin=TEXT).lines
    for line, log_probs in zip(values, expected, strict=True):
        assert line["log_probs"] == pytest.approx(log_probs)
        assert line["log_prob"] == pytest.approx(sum(log_probs))
    path.write_bytes("\r\n".join(targets).encode())
    assert cli("score", run, "--targets", path, stdin=TEXT).out.split("\n")[:-1] == said


LONG = "dog cat ran " * 5


def test_a_window_cuts_a_long_line_into_words(cli, run, opened):
    said = cli("translate", run, "--overflow", "window", stdin=f"a\n{LONG}\ncat\n".encode())
    assert said.out.split("\n")[:-1] == opened.translate(["a", LONG, "cat"], overflow="window")


def test_a_line_that_was_cut_has_no_alignment(cli, run, tmp_path, monkeypatch):
    """Its windows were read one by one, so there is no one picture of it."""
    from glassformer.tasks.predictors.answer import Translate
    from glassformer.tasks.predictors.text import Text

    found = [Text("dog cat ran " * times, [1], [-1.0], "end", score=-1.0) for times in (1, 1, 5)]
    made = iter([*found, *found])
    monkeypatch.setattr(Translate, "text", lambda self, pieces, how: next(made))
    lines = cli(
        "translate",
        run,
        "--overflow",
        "window",
        "--alignments",
        stdin=f"dog\n{LONG}\ncat\n".encode(),
    ).out.splitlines()
    assert [bool(line.split("\t")[1]) for line in lines] == [True, False, False]
    path = tmp_path / "picture.html"
    said = cli(
        "translate",
        run,
        "--overflow",
        "window",
        "--show-attention",
        path,
        stdin=f"{LONG}\n".encode(),
    )
    assert said.code == 2
    assert "shorten the input" in said.err
    assert not path.exists()


# A program at the other end of a pipe


def started(run, *arguments):
    return processes.started(
        [sys.executable, "-m", "glassformer", "translate", str(run), *arguments],
        stdin=subprocess.PIPE,
        # with this variable Python would not buffer, and a flush that is missing would not be
        # missed
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )


def test_who_writes_a_line_and_waits_gets_its_answer(run, opened):
    with started(run) as process:
        for line in ("a dog", "cat", "", "ran"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == opened.translate(line) + "\n"
        process.stdin.write(b"sat")
        out, err = process.communicate()
    assert (out.decode(), err, process.returncode) == (opened.translate("sat") + "\n", b"", 0)


def test_an_error_ends_it_although_more_could_come(run):
    with started(run) as process:
        process.stdin.write(b"a dog\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdin.write(b"\xff\n")
        process.stdin.flush()
        err = process.stderr.read().decode()  # until it has ended; its input is still open
        assert process.wait() == 1
    assert err.startswith(
        "glassformer: Line 2 of standard input is not UTF-8 (byte 0xff at offset 0);"
    )
    assert len(err.splitlines()) == 1


def test_ctrl_c_ends_it_while_it_waits(run):
    with started(run) as process:
        process.stdin.write(b"a dog\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        err = process.stderr.read().decode()
        assert process.wait() == 130
    assert "Traceback" not in err
    assert "Fatal" not in err


# What users get wrong


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "sentence"),
    [
        ([], b"a\n\xffb\n", 1, "Line 2 of standard input is not UTF-8 (byte 0xff at offset 0)"),
        (
            [],
            f"a\n\n{LONG}\n".encode(),
            2,
            "Line 3 has 61 tokens and the context 24; shorten it, or",
        ),
        (["--batch-size", 1], b"a\n" * 9 + LONG.encode(), 2, "Line 10 has 61 tokens"),
        (
            ["--temperature", 0.5, "--beams", 3],
            TEXT,
            2,
            "temperature=0.5 is for sampling and beams=3 searches",
        ),
        (
            ["--temperature", 1, "--beams", 3],
            TEXT,
            2,
            "temperature=1.0 is for sampling and beams=3 searches",
        ),
        (["--temperature", -1], TEXT, 2, "generate.temperature"),
        (["--seed", 3], TEXT, 2, "--seed is for sampling, and beams=5 searches; add --temperature"),
        (["--beams", 2, "--n-best", 3], TEXT, 2, "n_best=3 is more than beams=2; raise beams"),
        (["--n-best", 9], TEXT, 2, "n_best=9 is more than beams=5; raise beams"),
        (
            ["--show-attention", "picture.jpg"],
            TEXT,
            2,
            "--show-attention writes .html or .png, not 'picture.jpg'",
        ),
        (["--show-attention", "no/folder/x.html"], TEXT, 2, "there is no folder no/folder"),
        (["--show-attention", "no/folder/x.png"], TEXT, 2, "there is no folder no/folder"),
        (
            ["--show-attention", "x.html"],
            b"\n \n",
            1,
            "There was no line to draw, so x.html was not written",
        ),
        (["--layer", 0], TEXT, 2, "--layer and --head choose what --alignments reads"),
        (
            ["--alignments", "--layer", 2],
            TEXT,
            2,
            "There is no layer 2 in this model; its layers are 0 to 1",
        ),
        (
            ["--alignments", "--head", -1],
            TEXT,
            2,
            "There is no head -1 in this model; its heads are 0 to 1",
        ),
        (["--alignments", "--n-best", 2], TEXT, 2, "--alignments belong to the best translation"),
        (["--device", "abacus"], TEXT, 2, "'abacus' is no device"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_options_and_lines(cli, run, tmp_path, monkeypatch, arguments, stdin, code, sentence):
    monkeypatch.chdir(tmp_path)
    said = cli("translate", run, *arguments, stdin=stdin)
    assert said.code == code
    assert said.err.startswith("glassformer: ")
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_unequal_numbers_of_sources_and_targets(refused, run, tmp_path):
    path = tmp_path / "targets.txt"
    for given, sentence in ([["--targets", path], f"cannot read {path}"], [[], "--targets FILE"]):
        code = 1 if given else 2
        assert sentence in refused("score", run, *given, code=code, keep=tmp_path, stdin=TEXT)
    path.write_text("one\ntwo\n")
    sentence = refused("score", run, "--targets", path, code=1, keep=tmp_path, stdin=TEXT)
    assert f"There are 7 sources and 2 lines in {path}; give one for each" in sentence
    path.write_bytes(b"one\n\xff\n")
    assert "UTF-8" in refused(
        "score", run, "--targets", path, code=1, keep=tmp_path, stdin=b"a\nb\n"
    )
    path.write_text(f"one\n{LONG}\n")
    sentence = refused("score", run, "--targets", path, code=2, keep=tmp_path, stdin=b"a\nb\n")
    assert "Pair 2 has 2 source and 61 target tokens and the context 24" in sentence


def test_each_kind_of_model_has_its_own_command(refused, trained, run):
    for stdin in (b"a\n", b""):
        sentence = refused("translate", trained, code=2, keep=trained, stdin=stdin)
        assert "for text-generation, so translating is not for it; use `glassformer gen" in sentence
    for arguments in ([], ["--stream"], ["--json"]):
        sentence = refused("generate", run, "--prompt", "a dog", *arguments, code=2, keep=run)
        assert "use `glassformer translate`" in sentence
    sentence = refused("evaluate", trained, "--targets", "x", code=2, keep=trained)
    assert "Only an encoder-decoder has targets beside its data; leave out --targets" in sentence
    assert "--beams is for what an encoder-decoder writes" in refused(
        "evaluate", trained, "--beams", 2, code=2, keep=trained
    )


def test_the_vocabulary_of_another_run(refused, own):
    from glassformer.tokenizers.config import TokenizerConfig
    from glassformer.tokenizers.text import Tokenizer
    from glassformer.tokenizers.train import train_tokenizer

    size = Tokenizer.load(own).vocab_size
    same_size = [chr(0x4E00 + i) for i in range(size - 5)]
    for characters in (same_size, [*same_size, "x", "y"]):
        other = train_tokenizer(TokenizerConfig.parse({"kind": "character"}), ["".join(characters)])
        other.save(own / "tokenizer.json")
        for command in (["translate", own], ["evaluate", own], ["verify", own]):
            said = refused(*command, code=1, keep=own, stdin=TEXT)
            assert "tokenizer.json" in said
            assert f"`glassformer verify {own} --accept-changed`" in said
        sentence = refused("verify", own, "--accept-changed", code=1, keep=own)
        assert "not the tokenizer" in sentence or "different runs" in sentence
    (own / "tokenizer.json").unlink()
    assert "tokenizer" in refused("translate", own, code=1, keep=own, stdin=TEXT)


def test_the_source_vocabulary_of_another_run(cli, refused, pairs, pair_recipe, tmp_path):
    path, run = tmp_path / "p.tsv", tmp_path / "run"
    path.write_text("".join(f"{'abcd'[i % 4] * 2}\t{'uvwxyz'[i % 6]}\n" for i in range(40)))
    changes = [
        f"data.train.path={path}",
        "processor.tokenizer.shared=false",
        "data.test.fraction=0",
    ]
    assert cli("train", pair_recipe, *changes, "--run", run).code == 0
    assert cli("verify", run).code == 0
    assert cli("translate", run, stdin=b"aa\n").code == 0
    source, target = run / "source_tokenizer.json", run / "tokenizer.json"
    own = source.read_bytes()
    for content in (own.replace(b'"a"', b'"k"'), target.read_bytes()):
        source.write_bytes(content)
        sentence = refused("verify", run, "--accept-changed", code=1, keep=run)
        assert (
            "different runs" in sentence or "source_tokenizer.json is not the tokenizer" in sentence
        )
    source.unlink()
    sentence = refused("verify", run, "--accept-changed", code=1, keep=run)
    assert "different runs" in sentence or "tokenizer.json is not the tokenizer" in sentence


# The other commands on such a run


def test_evaluate_prints_scores_with_their_signatures(cli, run, opened):
    sacrebleu = pytest.importorskip("sacrebleu")
    said = cli("evaluate", run)
    assert re.search(
        rf"\n  bleu +\d+\.\d{{4}}  nrefs:1\|.*version:{re.escape(sacrebleu.__version__)}\n",
        said.out,
    )
    assert re.search(r"\n  chrf +\d+\.\d{4}  nrefs:1\|", said.out)
    scores = cli("evaluate", run, "--json", "--split", "test").json
    texts = opened.processor.load_stored(opened.recipe.data, opened.folder)["test"].records
    outputs, references = opened.translate([t.source for t in texts]), [t.target for t in texts]
    assert scores["bleu"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert scores["exact_match"] == sum(map(str.__eq__, outputs, references)) / len(texts)
    log_probs = [
        p for row in opened.score_pairs([(t.source, t.target) for t in texts]) for p in row
    ]
    assert scores["tokens"] == len(log_probs)
    assert scores["loss"] == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)
    assert "bleu" not in cli("evaluate", run, "--split", "train", "--json").json


def test_evaluate_other_pairs(cli, refused, run, opened, tmp_path):
    sources, targets = tmp_path / "s.txt", tmp_path / "t.txt"
    sources.write_text("a dog\ncat\n")
    targets.write_text("god a\ntac\n")
    two = cli("evaluate", run, "--data", sources, "--targets", targets, "--json").json
    (tmp_path / "p.tsv").write_text("a dog\tgod a\ncat\ttac\n")
    one = cli("evaluate", run, "--data", tmp_path / "p.tsv", "--json").json
    assert {**one, "data": ""} == {**two, "data": ""}
    assert two["tokens"] == len("god a") + len("tac") + 2
    log_probs = [p for row in opened.score_pairs([("a dog", "god a"), ("cat", "tac")]) for p in row]
    assert two["loss"] == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)
    piped = cli(
        "evaluate", run, "--data", "-", "--targets", targets, "--json", stdin=sources.read_bytes()
    )
    assert {**piped.json, "data": ""} == {**two, "data": ""}
    assert cli("evaluate", run, "--data", sources, "--targets", targets, "--beams", 2).code == 0
    sources.write_text("a dog\n")
    sentence = refused(
        "evaluate", run, "--data", sources, "--targets", targets, code=1, keep=tmp_path
    )
    assert "t.txt goes on at line 2" in sentence
    assert "give --data PATH too" in refused(
        "evaluate", run, "--targets", targets, code=2, keep=tmp_path
    )
    sentence = refused("evaluate", run, "--data", sources, code=1, keep=tmp_path)
    assert "s.txt is a text file with one side only" in sentence


def test_evaluate_counts_a_source_that_is_too_long_by_windows(cli, run, tmp_path):
    (tmp_path / "p.tsv").write_text(f"a dog\tgod a\n{LONG}\ttac\n")
    scores = cli("evaluate", run, "--data", tmp_path / "p.tsv", "--json")
    assert scores.code == 0, scores.err
    assert scores.json["tokens"] == len("god a") + 1


def test_scores_by_group(cli, pair_recipe, tmp_path):
    rows = [
        {"source": "ab" * (i % 3 + 1), "target": "ba", "lang": ["de", "fr"][i % 2]}
        for i in range(40)
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    changes = [
        f"data.train.path={tmp_path / 'p.jsonl'}",
        "data.group_field=lang",
        "data.test.fraction=0.5",
    ]
    assert cli("train", pair_recipe, *changes, "--run", tmp_path / "run").code == 0
    table = cli("evaluate", tmp_path / "run", "--split", "test", "--json").json["table"]
    assert [row["group"] for row in table] == ["de", "fr"]
    assert sum(row["n"] for row in table) == 20
    said = cli("evaluate", tmp_path / "run", "--split", "test").out
    assert re.search(rf"\n    de +\d+\.\d\d% of {table[0]['n']}\n", said)


def test_data_show_has_both_sides_and_both_masks(cli, run, opened):
    row = cli("data", "show", run, "--rows", 1, "--json").json
    pair = opened.processor.pair
    source, target = row["source"], [i for i in row["targets"] if i != -100]
    real = sum(source["mask"][0])
    words = pair.source.decode(source["ids"][:real])
    assert words[::-1] == pair.target.decode(target)
    assert row["ids"][: len(target)] == [pair.bos, *target[:-1]]
    assert row["bears_loss"] == [i != -100 for i in row["targets"]]
    n = len(row["ids"])
    assert real == len(words) + 1
    assert row["mask"] == [[key <= query for key in range(n)] for query in range(n)]
    assert source["mask"] == [[key < real for key in range(len(source["ids"]))]] * len(
        source["ids"]
    )
    assert row["cross_mask"] == [[key < real for key in range(len(source["ids"]))]] * n
    said = cli("data", "show", run, "--rows", 2, "--width", 5).out
    assert said.count("the source, which the encoder reads:") == 2
    assert "'<bos>'" in said
    assert "in the source" in said


def test_what_train_says_in_the_end(cli, pair_recipe, tmp_path):
    said = cli("train", pair_recipe, "--run", tmp_path / "run", "train.evaluate.best=exact_match")
    assert "best validation exact_match 0." in said.out
    assert f"next: glassformer translate {tmp_path / 'run'} < lines" in said.out
    values = cli("train", pair_recipe, "--run", tmp_path / "other", "--json").json
    assert values["best_loss"] == values["loss"] or values["best_loss"] < values["loss"]
    assert "bleu" in values


def test_options_of_python_are_those_of_the_recipe_with_changes(opened):
    assert opened.options().beams == 5
    assert opened.options(temperature=0.5).beams == 0
    assert opened.options(top_k=3).beams == 0
    assert opened.options(beams=2).beams == 2
    from dataclasses import replace

    from glassformer.run import Run

    sampling = replace(
        opened.recipe, generate=opened.recipe.generate.model_copy(update={"beams": 0, "top_p": 0.5})
    )
    task = copy(opened.task)
    task.recipe = sampling
    by_sampling = Run(opened.folder, opened.model, task, sampling)
    assert (by_sampling.options().beams, by_sampling.options().top_p) == (0, 0.5)
    assert (by_sampling.options(beams=3).beams, by_sampling.options(beams=3).top_p) == (3, None)
    assert by_sampling.options(beams=0).top_p == 0.5


def test_translate_gives_text_for_text_and_a_list_for_a_list(opened):
    one = opened.translate("a dog")
    assert isinstance(one, str)
    assert opened.translate(["a dog", "", "cat"]) == [one, "", opened.translate("cat")]
    assert opened.translate([]) == []
