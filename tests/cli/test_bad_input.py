"""What users get wrong: one sentence with the value and the remedy, exit code 1 or 2, and nothing
is changed."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import started


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("trian.steps=5", "Unknown section 'trian' in the recipe; did you mean 'train'?"),
        ("train.step=5", "Unknown key train.step; did you mean 'steps'"),
        ("model.n_head=2", "Unknown key model.n_head; did you mean 'n_heads'"),
        ("train.steps=many", "train.steps: input should be a valid integer"),
        ("train.steps=-3", "train.steps: input should be greater than or equal to 1, got -3"),
        (
            "train.optimizer.kind=sgd",
            "train.optimizer.kind: input should be 'adamw' or 'muon', got 'sgd'",
        ),
        ("model.n_heads=5", "n_heads=5 does not divide d_model=16; choose a divisor or set d_head"),
        ("model.preset=gpt5", "There is no model.preset 'gpt5'; did you mean 'gpt2'"),
        (
            "model.vocab_size=10",
            "model.vocab_size=10 is smaller than the tokenizer's vocabulary of",
        ),
    ],
)
def test_a_wrong_recipe(refused, recipe, tmp_path, override, sentence):
    assert sentence in refused(
        "train", recipe, override, "--run", tmp_path / "run", code=2, keep=tmp_path
    )


@pytest.mark.parametrize(
    ("device", "sentence"),
    [("abacus", "'abacus' is no device"), ("cuda:99", "'cuda:99' is not on this machine")],
)
def test_a_device_that_is_not_there(refused, recipe, copied, device, sentence):
    change = f"train.device={device}"
    assert sentence in refused(
        "train", recipe, change, "--run", copied, "--resume", code=2, keep=recipe.parent
    )
    assert sentence in refused("evaluate", copied, "--device", device, code=2, keep=copied)


def test_an_argument_that_is_no_override(refused, recipe, tmp_path):
    assert "'steps=5' is no override" in refused(
        "train", recipe, "steps=5", "--run", tmp_path, code=2, keep=tmp_path
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("model: {d_model: 16\n", "is not valid YAML at line"),
        ("- a\n- b\n", "holds list, not sections"),
        ("task: fill-mask\nmodel: 3\n", "The section model must hold key: value lines, not '3'"),
        ("task: fill-mask\ntrain: {steps: 5}\n", "has no data.train.path"),
        ("train: {steps: 5}\n", "The recipe has no task; add task: text-generation or fill-mask"),
        ("task: fill-masks\n", "There is no task 'fill-masks'; did you mean 'fill-mask'"),
        (
            "task: text-generation\nprocessor: {input: words}\ndata: {train: {path: x}}\n",
            "task='text-generation' does not read input='words'; use documents",
        ),
        (
            "task: fill-mask\nmodel: {head: lm}\n",
            "model.head='lm' is not for task='fill-mask'; use masked_lm, or leave it out",
        ),
        ("!!python/object/apply:os.system ['true']", "holds list, not sections"),
    ],
)
def test_a_file_that_is_no_recipe(refused, tmp_path, content, sentence):
    path = write(tmp_path / "bad.yaml", content)
    assert sentence in refused("train", path, "--run", tmp_path / "run", code=2, keep=tmp_path)


@pytest.mark.parametrize("command", [["train"], ["data", "show"], ["plan"]], ids=" ".join)
def test_a_recipe_that_is_missing(refused, tmp_path, command):
    assert "no.yaml does not exist" in refused(
        *command, tmp_path / "no.yaml", code=2, keep=tmp_path
    )


def test_nothing_to_train_by(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "There is nothing to train by" in refused("train", code=2, keep=tmp_path)
    assert f"`glassformer train --resume --run {tmp_path}`" in refused(
        "train", "--resume", tmp_path, code=2, keep=tmp_path
    )
    assert "holds no run to resume; name its folder" in refused(
        "train", "--resume", code=2, keep=tmp_path
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no file or folder"),
        (b"", "is empty"),
        (b"MZ\x00\x01" * 500, "looks binary (a NUL byte at offset 2)"),
        ("naïve ".encode("latin-1") * 200, "is not utf-8: byte 0xef at offset 2"),
        (b"too short", "and a training sequence needs"),
    ],
    ids=["missing", "empty", "binary", "latin-1", "short"],
)
@pytest.mark.parametrize("command", ["train", "data show", "plan"])
def test_a_text_that_cannot_be_used(cli, recipe, tmp_path, content, sentence, command):
    data = tmp_path / "data.txt"
    if content is not None:
        data.write_bytes(content)
    run = ["--run", tmp_path / "run"] if command == "train" else []
    if content == b"too short" and command == "plan":
        return  # what it costs can be said
    said = cli(*command.split(), recipe, f"data.train.path={data}", *run)
    assert said.code in (1, 2)
    assert said.out == ""
    last = said.err.splitlines()[-1]
    assert last.startswith("glassformer: ")
    wordings = (sentence, "needs 33") if content == b"too short" else (sentence,)
    assert any(wording in last for wording in wordings)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_run_folder_that_cannot_be(refused, recipe, tmp_path):
    file = write(tmp_path / "file", "content")
    for run in (file, file / "run"):
        sentence = refused("train", recipe, "--run", run, code=1, keep=tmp_path)
        assert f"Cannot write {run}: " in sentence


@pytest.mark.skipif(
    not Path("/proc/self").is_dir(),
    reason="needs a file system that cannot be written, even by root",
)
def test_a_run_folder_where_nothing_can_be_written(refused, recipe, tmp_path):
    sentence = refused("train", recipe, "--run", "/proc/run", code=1, keep=tmp_path)
    assert "Cannot write /proc/run: " in sentence
    assert "choose another" in sentence


def test_a_folder_that_already_holds_a_run(refused, recipe, copied):
    sentence = refused("train", recipe, "--run", copied, code=2, keep=copied)
    assert "already holds a run at step 6; add --resume or choose another --run" in sentence


def test_resuming_the_run_of_another_model_or_text(refused, recipe, copied, tmp_path):
    other = write(tmp_path / "other.txt", "another text\n" * 100)
    for change, named in (
        ("model.n_layers=3", "model.n_layers=2, not 3"),
        (f"data.train.path={other}", "data.train.path="),
    ):
        sentence = refused(
            "train", recipe, change, "--run", copied, "--resume", code=2, keep=copied
        )
        assert named in sentence


def test_resuming_what_is_no_run(refused, recipe, tmp_path):
    sentence = refused(
        "train", recipe, "--run", tmp_path / "new", "--resume", code=2, keep=tmp_path
    )
    assert "holds no run to resume" in sentence


def flip(path: Path) -> None:
    """Another value for one byte in the middle of the tensors."""
    raw = bytearray(path.read_bytes())
    raw[-len(raw) // 4] ^= 0x55
    path.write_bytes(raw)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "sentence"), [(cut, "bytes instead of"), (flip, "its SHA-256 differs")]
)
def test_a_damaged_checkpoint_is_not_resumed(refused, copied, damage, sentence):
    for step in (copied / "checkpoints").glob("step-*"):
        damage(step / "model.safetensors")
    assert sentence in refused(
        "train", "--resume", "--run", copied, "train.steps=8", code=1, keep=copied
    )


@pytest.mark.parametrize("command", ["evaluate", "generate", "verify"])
def test_a_damaged_run(refused, copied, command):
    model, config = copied / "model.safetensors", copied / "config.json"
    tokenizer, recipe = copied / "tokenizer.json", copied / "recipe.yaml"
    whole = {path: path.read_bytes() for path in (model, config, tokenizer, recipe)}

    def damaged(path: Path, content: bytes, sentence: str, code: int = 1) -> None:
        path.write_bytes(content)
        said = refused(command, copied, code=code, keep=copied)
        assert sentence in said
        path.write_bytes(whole[path])

    damaged(model, whole[model][:-7], "model.safetensors")
    damaged(model, b"", "model.safetensors")
    damaged(config, b"{", "config.json is not readable JSON")
    damaged(config, b"[]", "does not describe a glassformer model")
    damaged(config, b'{"model_type": "gpt2"}', "lacks the key 'vocab_size'; restore it")
    damaged(config, b'{"model_type": "mamba"}', "model_type 'mamba', which is not known")
    changed = json.loads(whole[config]) | {"d_model": 32}
    damaged(config, json.dumps(changed).encode(), "of another model")
    changed = json.loads(whole[config]) | {"d_modle": 32}
    damaged(config, json.dumps(changed).encode(), "d_modle")
    damaged(tokenizer, b"{}", "tokenizer.json has 2 bytes instead of")
    damaged(recipe, b"train: [", "recipe.yaml has 8 bytes instead of")


def test_the_tokenizer_of_another_run(refused, copied, tmp_path):
    from glassformer.tokenizers.config import TokenizerConfig
    from glassformer.tokenizers.text import Tokenizer
    from glassformer.tokenizers.train import train_tokenizer

    own = Tokenizer.load(copied).vocab_size
    same_size = [chr(0x4E00 + i) for i in range(own - 5)]
    for characters in (same_size, [*same_size, "x", "y"]):
        other = train_tokenizer(TokenizerConfig.parse({"kind": "character"}), ["".join(characters)])
        other.save(copied / "tokenizer.json")
        sentence = refused("generate", copied, "--prompt", "x", code=1, keep=copied)
        assert f"`glassformer verify {copied} --accept-changed`" in sentence
        sentence = refused("verify", copied, "--accept-changed", code=1, keep=copied)
        assert "not the tokenizer" in sentence or "different runs" in sentence


@pytest.mark.parametrize("command", ["evaluate", "generate", "verify", "tokenize"])
def test_a_folder_that_is_no_run(refused, tmp_path, command):
    refused(command, tmp_path, code=1, keep=tmp_path)
    refused(command, tmp_path / "missing", code=1, keep=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--temperature", "-1"],
            "generate.temperature: input should be greater than or equal to 0, got -1",
        ),
        (["--temperature", "nan"], "generate.temperature"),
        (["--temperature", "inf"], "generate.temperature"),
        (["--top-p", "2"], "generate.top_p: input should be less than or equal to 1, got 2"),
        (["--top-p", "0"], "generate.top_p"),
        (["--top-k", "0"], "generate.top_k"),
        (["--min-p", "-0.1"], "generate.min_p"),
        (["--repetition-penalty", "0"], "generate.repetition_penalty"),
        (["--seed", "-1"], "generate.seed"),
        (["--prompt", "x" * 33], "The prompt has 33 tokens and the context 32"),
        (["--device", "abacus"], "'abacus' is no device"),
        (
            ["--prompt", "a", "--prompt", "b", "--stream"],
            "--stream shows one text as it grows, not 2",
        ),
        (["--image", "a.png"], "reads text alone, not image; leave out the others"),
        (["--stream", "--audio", "a.wav"], "so --audio has no use; leave it out"),
    ],
    ids=lambda value: " ".join(value)[:24] if isinstance(value, list) else "",
)
def test_wrong_options_of_generate(refused, trained, arguments, sentence):
    given = arguments if "--prompt" in arguments else ["--prompt", "the", *arguments]
    assert sentence in refused("generate", trained, *given, code=2, keep=trained)


def test_a_text_of_one_token_is_not_scored(refused, trained):
    said = refused("score", trained, "--prompt", "a", code=2, keep=trained)
    assert "cannot be scored" in said


def test_an_option_that_would_change_nothing(refused, trained):
    for arguments, sentence in (
        (["tokenize", trained, "train.steps=5"], f"train.steps=5 changes a recipe, and {trained}"),
        (["recipe", "fields", "train", "--task", "fill-mask"], "so --task has no use; leave it"),
    ):
        assert sentence in refused(*arguments, code=2, keep=trained)


def test_standard_input_that_is_not_utf_8(refused, trained):
    for command in ("generate", "tokenize"):
        assert "byte 0xff at offset 2" in refused(
            command, trained, stdin=b"ab\xff", code=1, keep=trained
        )


def test_wrong_options_of_evaluate(refused, trained, recipe, tmp_path):
    sentence = refused("evaluate", trained, "--split", "valid", code=2, keep=trained)
    assert "There is no split 'valid'; did you mean 'validation'?" in sentence
    assert "there is no file" in refused(
        "evaluate", trained, "--data", tmp_path / "no", code=1, keep=trained
    )
    sentence = refused("evaluate", trained, "--data", "-", "--split", "test", code=2, keep=trained)
    assert "The split 'test' is of the run's own data, and --data is scored whole" in sentence
    assert "too few" in refused(
        "evaluate", trained, "--data", write(tmp_path / "a", "a"), code=1, keep=trained
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--checkpoint", 4], "There is no checkpoint of step 4 in"),
        (["--all-checkpoints", "--beams", 2], "so --beams has no use"),
        (["--all-checkpoints", "--checkpoint", 3], "so --checkpoint has no use"),
        (["--all-checkpoints", "--split", "test"], "so --split has no use"),
    ],
)
def test_wrong_checkpoints_of_evaluate(refused, trained, options, sentence):
    assert sentence in refused("evaluate", trained, *options, code=2, keep=trained)


def test_a_run_without_checkpoints_has_none_to_compare(refused, cli, copied):
    shutil.rmtree(copied / "checkpoints")
    sentence = refused("evaluate", copied, "--all-checkpoints", code=2, keep=copied)
    assert "has no checkpoints; score its model without --all-checkpoints" in sentence
    assert cli("verify", copied).code == 0


def test_a_run_without_a_recipe_has_no_data_of_its_own(refused, cli, copied, text):
    (copied / "recipe.yaml").unlink()
    assert "recipe.yaml is missing" in refused("evaluate", copied, code=1, keep=copied)
    assert cli("verify", copied, "--accept-changed").code == 0
    assert "give --data PATH" in refused("evaluate", copied, code=2, keep=copied)
    assert cli("evaluate", copied, "--data", text).code == 0
    assert cli("generate", copied, "--prompt", "the").code == 0


def test_an_unknown_demo(refused, tmp_path):
    assert "There is no demo 'lmm'; did you mean 'lm'?" in refused(
        "demo", "lmm", code=2, keep=tmp_path
    )
    assert (
        "There is no demo 'tictactoe'; known are audio, classify, lm, tag, translate, vision"
        in refused("demo", "tictactoe", code=2, keep=tmp_path)
    )


def test_wrong_options_of_verify(refused, trained, tmp_path):
    assert "--text needs a RUN" in refused("verify", "--text", "x", code=2, keep=tmp_path)
    assert "has 1 token; between 2 and the context of 32" in refused(
        "verify", trained, "--text", "x", code=2, keep=trained
    )


def test_an_error_of_training_leaves_a_model_that_was_there(refused, copied):
    """A full run folder: a second `train` into it changes nothing, whatever is wrong first."""
    shutil.rmtree(copied / "checkpoints")
    sentence = refused(
        "train",
        "task=text-generation",
        f"data.train.path={copied / 'recipe.yaml'}",
        "--run",
        copied,
        code=2,
        keep=copied,
    )
    assert "already holds a model" in sentence


@pytest.mark.parametrize("times", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 5])
def test_ctrl_c_again_and_again_before_training_leaves_no_traceback(recipe, tmp_path, times):
    run = tmp_path / "run"
    arguments = ["train", recipe, "data.train.path=-", "--run", run]
    command = [sys.executable, "-m", "glassformer", *map(str, arguments)]
    with started(command, stdin=subprocess.PIPE) as process:
        process.stdin.write(b"the cat sat\n" * 100_000)  # more than a pipe holds: it is being read
        process.stdin.flush()
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        err = process.stderr.read().decode()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not (run / "recipe.yaml").exists()


def test_ctrl_c_saves_and_says_how_to_go_on(cli, recipe, tmp_path):
    run = tmp_path / "run"
    arguments = ["train", recipe, "--run", run, "train.steps=100000"]
    command = [sys.executable, "-m", "glassformer", *map(str, arguments)]
    with started(command, text=True) as process:
        assert any("validation loss" in line for line in process.stderr)  # reads until it trains
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
    assert (process.returncode, out) == (130, "")
    last = err.splitlines()[-1]
    step = int(last.split()[3].rstrip(";"))
    assert last == f"stopped at step {step}; go on with: glassformer train --resume --run {run}"
    assert "Traceback" not in err
    said = cli("train", "--resume", "--run", run, f"train.steps={step + 1}", "--json")
    assert (said.code, said.json["steps"]) == (0, step + 1)
    assert f"resuming at step {step}" in said.err
