"""The public Python interface: what it has, and that it does what the command line does."""

import inspect
import subprocess
import sys

import pytest
import torch

import glassformer as gf
from glassformer.errors import CheckpointError, ConfigError, GlassformerError

TEXT = "the quick brown fox jumps over the lazy dog\n" * 40
RECIPE = """
model: {d_model: 16, n_layers: 1, n_heads: 2, max_length: 16}
tokenizer: {kind: character}
train: {batch_size: 4, evaluate_every: 2, save_every: 2, sample_tokens: 0, warmup_steps: 0, device: cpu,
  precision: float32}
generate: {max_new_tokens: 9}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "tiny.yaml").write_text(RECIPE, encoding="utf-8")
    return folder / "tiny.yaml"


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    changes = {"train.steps": 2, "data.path": recipe.parent / "text.txt", "generate.temperature": 0.5}
    return gf.train(recipe, changes, tmp_path_factory.mktemp("runs") / "run")


def test_the_public_names_are_these():
    """A change here is a change of what people's programs rely on: it belongs into the CHANGELOG."""
    assert set(gf.__all__) == {"GlassformerError", "Run", "__version__", "load", "models", "train"}
    assert set(gf.__all__) <= set(dir(gf))
    from glassformer import run as module

    shape = lambda function: str(inspect.signature(function)).replace("pathlib._local.", "pathlib.")
    public = {name for name in dir(gf.Run) if not name.startswith("_")} | {"folder", "model", "tokenizer", "recipe"}
    assert public == {
        *("evaluate", "folder", "generate", "generated", "model", "options", "recipe", "score", "stream"),
        *("tokenizer", "tokens", "pair", "pairs", "translate", "transduced", "score_pairs", "cross_attention"),
        *("tag", "tagged", "classify", "classified", "classes", "words", "sequences", "embed", "contexts", "reader"),
    }
    assert list(inspect.signature(module.load).parameters) == ["folder", "device"]
    assert list(inspect.signature(module.train).parameters) == ["recipe", "changes", "run", "resume"]
    assert list(inspect.signature(gf.Run.evaluate).parameters) == [
        *("self", "split", "data", "batch_size", "targets", "changes")
    ]
    assert "**changes" in shape(gf.Run.generate)
    assert "**changes" in shape(gf.Run.stream)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = gf.lode  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_is_cheap():
    program = "import sys, glassformer as gf; gf.__version__; dir(gf); sys.exit(str('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("first", ["gf.load", "from glassformer.train import Recipe"])
def test_train_can_be_called_whatever_was_imported_before(first):
    """The package glassformer.train has the name of the function: importing it must not take the function away."""
    program = (
        f"import glassformer as gf\n{first}\nfor _ in range(2):\n"
        "  try: gf.train('missing.yaml')\n  except gf.GlassformerError as error: print('missing.yaml' in str(error))\n"
        "import glassformer.train.loop; print(glassformer.train.loop.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "glassformer.train.loop"]


def test_a_trained_run_is_the_loaded_one(run):
    again = gf.load(run.folder)
    assert isinstance(again, gf.Run)
    assert isinstance(again.model, torch.nn.Module)
    assert not again.model.training
    assert again.generate("the") == run.generate("the")
    assert again.evaluate() == run.evaluate()


def test_generate_gives_text_for_text_and_a_list_for_a_list(run):
    one = run.generate("the ", seed=3)
    assert isinstance(one, str)
    assert run.generate(["the ", "fox"], seed=3) == [one, run.generate("fox", seed=3)]
    assert run.generate([]) == []
    assert "".join(delta.text for delta in run.stream("the ", seed=3)) == one
    results = run.generated(["the "], run.options(seed=3, max_new_tokens=4))
    assert (len(results[0].ids), results[0].finish) == (4, "length")
    assert one.startswith(results[0].text)


def test_options_are_the_recipes_with_changes(run):
    assert run.options().temperature == 0.5
    assert run.options().max_new_tokens == 9
    assert run.options(temperature=2).temperature == 2
    with pytest.raises(ConfigError, match=r"generate\.temprature; did you mean 'temperature'"):
        run.generate("the", temprature=1)
    assert gf.Run(run.folder, run.model, run.tokenizer).options().temperature == 1.0


def test_score_gives_each_token_its_log_probability(run):
    scores = run.score("the fox")
    assert "".join(token.piece for token in scores) == "the fox"
    assert scores[0].log_prob is None
    ids = torch.tensor([run.tokenizer.encode("the fox").tolist()], dtype=torch.long)
    with torch.no_grad():
        table = run.model(ids[:, :-1]).logits[0].log_softmax(-1)
    own = table.gather(1, ids[0, 1:, None])[:, 0].tolist()
    assert [token.log_prob for token in scores[1:]] == pytest.approx(own, abs=1e-5)


def test_evaluate_equals_the_score_of_every_window(run):
    """The whole split in windows of the context, each token but the first once."""
    ids, context, total = run.tokens("validation").tokens.tolist(), 16, 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, context):
            window = torch.tensor([ids[begin : begin + context + 1]])
            table = run.model(window[:, :-1]).logits[0].log_softmax(-1)
            total -= float(table.gather(1, window[0, 1:, None]).sum())
    scores = run.evaluate()
    assert scores["tokens"] == len(ids) - 1
    assert scores["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert run.evaluate(batch_size=3)["loss"] == pytest.approx(scores["loss"], rel=1e-6)


def test_errors_are_of_one_family(run, tmp_path):
    with pytest.raises(CheckpointError, match="is not a folder"):
        gf.load(tmp_path / "missing")
    with pytest.raises(ConfigError, match="There is no split 'valid'; did you mean 'validation'"):
        run.evaluate("valid")
    with pytest.raises(GlassformerError, match="is no device"):
        gf.load(run.folder, device="abacus")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 3}, "'steps' is no field of a recipe; write section.key"),
        ({"train.step": 3}, "Unknown key train.step; did you mean 'steps'"),
        ({"trian.steps": 3}, "Unknown section 'trian'"),
    ],
)
def test_wrong_changes_of_a_recipe(recipe, tmp_path, changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        gf.train(recipe, changes, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_any_text_arrives_in_a_recipe_as_it_is(recipe, tmp_path):
    """Nothing is written to YAML and read again on the way."""
    path = tmp_path / "naïve 🙂: #1.txt"
    path.write_text(TEXT, encoding="utf-8")
    changes = {"train.steps": 1, "data.path": path, "train.sample_prompt": "no: 🙂\n#\t", "train.learning_rate": 1e-05}
    trained = gf.train(recipe, changes, tmp_path / "run")
    assert trained.recipe is not None
    assert trained.recipe.train.sample_prompt == "no: 🙂\n#\t"
    assert trained.recipe.train.learning_rate == 1e-05


def test_an_interrupted_training_is_a_keyboard_interrupt(recipe, tmp_path, monkeypatch):
    from glassformer.train.loop import Result

    stopped = Result(tmp_path, 7, {}, None, "loss", "use", 1.0, interrupted=2)
    monkeypatch.setattr("glassformer.run.folder.train_run", lambda *arguments: stopped)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 7"):
        gf.train(recipe, {}, tmp_path)
