"""Every command from its arguments to what it prints: results on stdout, progress on stderr, strict
JSON."""

import math

import pytest

import glassformer as gf
from glassformer.training.folder.checkpoints import Checkpoints
from small_runs import go
from small_senses import picture_recipe


def test_train_prints_its_result_and_says_what_to_do_next(cli, recipe, tmp_path):
    run = tmp_path / "run"
    said = cli("train", recipe, "--run", run)
    assert said.code == 0
    first, curves, following = said.out.splitlines()
    assert first.startswith("trained 6 steps in ")
    assert curves == f"curves and samples: {run / 'report.html'}"
    assert following.startswith(f"next: glassformer generate {run}")
    assert "step 6: validation loss" in said.err
    for name in (
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "recipe.yaml",
        "report.html",
        "metrics.jsonl",
    ):
        assert (run / name).is_file()


def test_train_resumes_with_more_steps_and_without_a_recipe(cli, copied):
    said = cli("train", "--resume", "--run", copied, "train.steps=8", "--json")
    assert said.code == 0
    assert said.json["steps"] == 8
    assert math.isfinite(said.json["best_loss"])
    assert "resuming at step 6" in said.err


def test_train_goes_on_from_a_named_checkpoint(cli, copied):
    first = Checkpoints(copied).steps()[0]
    said = cli("train", "--resume", "--checkpoint", first, "--run", copied, "train.steps=7")
    assert said.code == 0
    assert f"resuming at step {first}" in said.err
    assert Checkpoints(copied).steps()[-1] == 7
    recipe = copied / "recipe.yaml"
    refused = "train", recipe, "--checkpoint", "7", "--run", copied, "train.steps=8"
    for more in (), ("--processes", "2", "--max-restarts", "1"):
        said = cli(*refused, *more)
        assert said.code == 2
        assert said.err.count("add --resume") == 1


def test_train_takes_overrides_alone(cli, text, tmp_path):
    said = cli(
        *(
            "train",
            "task=text-generation",
            f"data.train.path={text}",
            "processor.tokenizer.kind=byte",
            "model.d_model=16",
            "model.n_layers=1",
        ),
        *(
            "model.max_length=16",
            "train.steps=1",
            "train.batch_size=2",
            "train.sample.tokens=0",
            "train.device=cpu",
        ),
        *("--run", tmp_path / "run", "--json"),
    )
    assert (said.code, said.json["steps"]) == (0, 1)


def test_evaluate_the_runs_own_splits_and_another_text(cli, trained, text):
    validation = cli("evaluate", trained, "--json").json
    assert validation["split"] == "validation"
    assert validation["perplexity"] == pytest.approx(math.exp(validation["loss"]))
    assert cli("evaluate", trained, "--split", "test", "--json").json["loss"] != validation["loss"]
    other = cli("evaluate", trained, "--data", text, "--json").json
    assert (other["split"], other["data"]) == ("all", str(text))
    assert other["tokens"] == len(text.read_text(encoding="utf-8")) - 1
    piped = cli("evaluate", trained, "--data", "-", "--json", stdin=text.read_bytes()).json
    assert piped["loss"] == pytest.approx(other["loss"])
    shown = cli("evaluate", trained).out
    assert f"loss           {validation['loss']:.4f}" in shown


def test_evaluate_a_checkpoint_and_all_of_them(cli, trained):
    found = cli("evaluate", trained, "--checkpoint", 3, "--json").json
    newest = cli("evaluate", trained, "--checkpoint", 6, "--json").json
    assert (found["checkpoint"], newest["checkpoint"]) == (3, 6)
    assert (
        f"{trained} at step 3, validation split" in cli("evaluate", trained, "--checkpoint", 3).out
    )
    said = cli("evaluate", trained, "--all-checkpoints", "--json").json
    rows = {row["step"]: row for row in said["checkpoints"]}
    for own in (found, newest):
        row = rows[own["checkpoint"]]
        assert row["scores"]["loss"] == pytest.approx(own["loss"], rel=1e-5)
        assert row["reported"]["loss"] == pytest.approx(own["loss"], rel=1e-5)
    better = min(found, newest, key=lambda own: own["loss"])["checkpoint"]
    assert (said["best"], said["metric"]) == (better, "loss")
    header, *lines, last = cli("evaluate", trained, "--all-checkpoints").out.splitlines()
    assert header.split()[:2] == ["step", "loss"]
    assert header.endswith("reported loss")
    assert [int(line.split()[0]) for line in lines] == [3, 6]
    assert last == f"best by loss: step {better}"


def test_generate_as_the_model_was_at_a_step(cli, trained):
    def text(*step):
        how = ("--prompt", "the ", "--temperature", 0, "--max-new-tokens", 12)
        return cli("generate", trained, *how, *step).out

    run = gf.load(trained, checkpoint=3)
    assert text("--checkpoint", 3) == "the " + run.generate("the ", temperature=0) + "\n"
    assert text("--checkpoint", 6) == text() or text("--checkpoint", 3) == text()


def test_evaluating_writes_nothing_into_the_run(cli, copied, text):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    cli("evaluate", copied)
    cli("evaluate", copied, "--data", text)
    cli("evaluate", copied, "--checkpoint", 3)
    cli("evaluate", copied, "--all-checkpoints")
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_a_run_whose_text_has_gone_is_still_evaluated(cli, recipe, text, tmp_path):
    own = tmp_path / "own.txt"
    own.write_bytes(text.read_bytes())
    cli("train", recipe, f"data.train.path={own}", "train.steps=1", "--run", tmp_path / "run")
    own.unlink()
    assert cli("evaluate", tmp_path / "run").code == 0


def test_generate_prints_prompt_and_text(cli, trained):
    said = cli("generate", trained, "--prompt", "the ", "--seed", 1)
    assert said.code == 0
    assert said.out.startswith("the ")
    assert said.err == ""
    assert cli("generate", trained, "--prompt", "the ", "--seed", 1).out == said.out
    assert cli("generate", trained, "--prompt", "the ", "--seed", 2).out != said.out
    assert cli("generate", trained, "--prompt", "the ", "--seed", 1, "--stream").out == said.out


def test_several_prompts_are_each_what_they_are_alone(cli, trained):
    prompts = ["the ", "a lazy dog and", "f"]
    said = cli(
        "generate",
        trained,
        *(part for p in prompts for part in ("--prompt", p)),
        "--json",
        "--seed",
        5,
    )
    assert [line["prompt"] for line in said.lines] == prompts
    for line in said.lines:
        assert (
            cli("generate", trained, "--prompt", line["prompt"], "--json", "--seed", 5).json == line
        )
    shown = cli("generate", trained, "--prompt", "the ", "--prompt", "f", "--seed", 5).out
    assert shown == f"the {said.lines[0]['text']}\n\nf{said.lines[2]['text']}\n"


def test_generate_json_says_why_each_text_ended(cli, trained):
    free = cli("generate", trained, "--prompt", "the", "--json", "--max-new-tokens", 10).json
    assert (free["finish"], free["tokens"]) == ("length", 10)
    stop = free["text"][4:6]
    stopped = cli(
        "generate", trained, "--prompt", "the", "--json", "--max-new-tokens", 10, "--stop", stop
    ).json
    assert stopped["finish"] == "stop"
    assert stopped["text"] == free["text"].partition(stop)[0]


def test_generate_streams_json_whose_pieces_are_the_text(cli, trained):
    whole = cli("generate", trained, "--prompt", "the", "--json", "--seed", 2).json
    pieces = cli("generate", trained, "--prompt", "the", "--json", "--seed", 2, "--stream").lines
    assert "".join(piece["text"] for piece in pieces) == whole["text"]
    assert [piece["finish"] for piece in pieces] == [None] * (len(pieces) - 1) + ["length"]


def test_generate_reads_standard_input_or_begins_a_line(cli, trained):
    assert cli("generate", trained, stdin="café ".encode()).out.startswith("café ")
    said = cli("generate", trained, "--json")
    assert said.json["prompt"] == "\n"


def test_generate_streams_to_a_terminal_by_itself(cli, trained, monkeypatch):
    whole = cli("generate", trained, "--prompt", "the").out
    monkeypatch.setattr("glassformer.cli.prompts.on_terminal", lambda: True)
    monkeypatch.setattr("glassformer.cli.predict.predictions", None)
    assert cli("generate", trained, "--prompt", "the").out == whole


WINDOW = ("--overflow", "window")


def test_generate_options_reach_the_model(cli, trained):
    greedy = cli("generate", trained, "--prompt", "the", "--temperature", 0).out
    assert cli("generate", trained, "--prompt", "the", "--top-k", 1, "--seed", 9).out == greedy
    assert cli("generate", trained, "--prompt", "the", "--top-p", 1e-9, "--seed", 9).out == greedy
    assert cli("generate", trained, "--prompt", "the", "--min-p", 1, "--seed", 9).out == greedy
    assert (
        cli(
            "generate", trained, "--prompt", "the", "--temperature", 0, "--repetition-penalty", 50
        ).out
        != greedy
    )
    long = "the dog " * 10
    assert "--overflow window" in cli("generate", trained, "--prompt", long).err
    assert cli("generate", trained, "--prompt", long, *WINDOW, "--max_new_tokens", 3).code == 0


def test_quantized_weights_are_scored_and_used(cli, trained):
    asked = ("generate", trained, "--prompt", "the", "--temperature", "0")
    assert cli(*asked, "--quantize", "fp16").out == cli(*asked).out
    full = cli("evaluate", trained, "--json").json
    low = cli("evaluate", trained, "--quantize", "fp16", "--device", "cpu", "--json").json
    assert low["loss"] != full["loss"]
    assert low["loss"] == pytest.approx(full["loss"], abs=1e-3)  # half precision has 11 digits


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_a_draft_changes_no_text(cli, trained, temperature):
    asked = ("generate", trained, "--prompt", "the dog the", "--temperature", temperature)
    alone = cli(*asked)
    for draft in ("ngram", trained):
        said = cli(*asked, "--draft", draft, "--draft-tokens", "3")
        assert said.out == alone.out
    assert cli(*asked, "--draft", trained, "--stream").out == cli(*asked, "--stream").out
    assert "--draft is empty" in cli(*asked, "--draft", "").err
    assert "draft_tokens=3 is for a draft" in cli(*asked, "--draft-tokens", "3").err


def test_score_gives_every_token_of_the_prompt(cli, trained):
    said = cli("score", trained, "--prompt", "the dog", "--json").json
    assert [row["piece"] for row in said["tokens"]] == list("the dog")
    assert said["tokens"][0]["log_prob"] is None
    assert said["log_prob"] == pytest.approx(sum(row["log_prob"] for row in said["tokens"][1:]))
    shown = cli("score", trained, "--prompt", "the dog").out.splitlines()
    assert len(shown) == 9
    assert "6 predicted" in shown[-1]


def test_tokenize_by_a_run_a_file_and_a_recipe(cli, trained, recipe):
    expected = "t|h|e|\\n\n"
    for where in (trained, trained / "tokenizer.json", recipe):
        said = cli("tokenize", where, stdin=b"the\n")
        assert said.out.startswith(expected), where
        row = cli("tokenize", where, "--text", "the", "--json").json
        assert (row["text"], row["pieces"]) == ("the", ["t", "h", "e"])
        assert said.out.splitlines()[1].split()[:3] == [str(i) for i in row["ids"]]


def test_tokenize_cuts_lines_at_newlines_only(cli, trained):
    rows = cli("tokenize", trained, "--json", stdin="a\x0bb\u2028c\nd".encode()).lines
    assert [row["text"] for row in rows] == ["a\x0bb\u2028c\n", "d"]


def test_tokenize_reports(cli, trained, recipe):
    row = cli("tokenize", trained, "--report", "--json", "--text", "the dog").json
    assert (row["tokens"], row["unknowns"], row["round_trip"]) == (7, 0, True)
    shown = cli(
        "tokenize", recipe
    ).out  # nothing on standard input: a report on the recipe's own text
    assert "tokens per byte" in shown
    assert cli("tokenize", trained, "--report", "--json").json["tokens"] == 0


def test_data_show(cli, recipe, trained):
    row = cli("data", "show", recipe, "--rows", 1, "--json").json
    assert row["targets"][:-1] == row["ids"][1:]
    assert all(row["bears_loss"])
    shown = cli("data", "show", trained, "--rows", 2, "--width", 4).out
    assert "row 0: 32 elements, 32 bear loss; the first 4:" in shown
    assert "row 1:" in shown


def test_plan(cli, recipe):
    plan = cli("plan", recipe, "--json").json
    assert plan["parameters"] == sum(row["numbers"] for row in plan["matrices"])
    shown = cli("plan", recipe).out
    assert f"{plan['parameters']:,}" in shown


def test_verify_a_run(cli, trained, tmp_path):
    said = cli("verify", trained, "--json", "--html", tmp_path / "page.html")
    assert said.code == 0, said
    assert all(row["passed"] for row in said.json)
    assert {"note", "equation", "formula", "max_abs_error", "tolerance", "passed"} <= said.json[
        0
    ].keys()
    assert (tmp_path / "page.html").is_file()
    assert cli("verify", trained, "--text", "the dog sleeps").code == 0


def test_verify_a_run_that_reads_pictures_or_tags_words(cli, saved, tmp_path):
    go(
        picture_recipe(tmp_path, model={"position": "rotary_2d", "stem": [4]}),
        tmp_path / "run",
    )
    for run in (tmp_path / "run", saved("tags", head="tag", classes=("noun", "verb"))):
        said = cli("verify", run, "--json")
        assert said.code == 0, said
        assert all(row["passed"] for row in said.json)
        assert any("whole forward pass" in row["formula"] for row in said.json)
    said = cli("verify", tmp_path / "run", "--text", "a.png")
    assert said.code == 2
    assert "reads one image and no text, got --text 'a.png'; leave it out" in said.err


@pytest.mark.slow  # the whole standard library's docstrings are read: about 15 s
def test_demo_works_offline_and_goes_on(cli, tmp_path, monkeypatch):
    import socket

    def refuse(*arguments, **named):
        raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    run = tmp_path / "demo"
    said = cli("demo", "lm", "--steps", 2, "--run", run, "--json")
    assert said.code == 0, said.err
    assert set(said.json["bits_per_byte"]) == {
        "a uniform guess",
        "a unigram guess",
        "a bigram guess",
        "this model",
    }
    assert said.json["text"].startswith("Return a new")
    again = cli("demo", "--steps", 3, "--run", run)
    assert "trained 3 steps" in again.out
    assert "a uniform guess" in again.out
    assert "resuming at step 2" in again.err


def test_what_the_vocabulary_lacks_is_reported(cli, recipe, tmp_path):
    """On standard error, so that the text stays what it is."""
    kind = "processor.tokenizer.kind=character"
    assert cli("train", recipe, kind, "--run", tmp_path / "run").code == 0
    own = ["generate", tmp_path / "run", "--max-new-tokens", 1]
    said = cli(*own, "--prompt", "\N{SNOWMAN}a\N{SNOWMAN}")
    assert said.code == 0
    assert "2 tokens of the prompt are not in the vocabulary, and read as <unk>" in said.err
    assert "not in the vocabulary" not in cli(*own, "--prompt", "a").err
