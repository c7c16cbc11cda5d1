"""The public Python interface: what it has, and that it does what the command line does."""

import dataclasses
import inspect
import json
import random
import shutil
import subprocess
import sys

import pytest
import torch

import glassformer as gf
from glassformer.core.errors import CheckpointError, ConfigError, DataError, GlassformerError
from glassformer.tasks.evaluate import Evaluation
from glassformer.training.folder.model_files import accept_changed
from small_runs import go, probabilities, text_file
from small_tasks import (
    class_file,
    class_recipe,
    json_file,
    masked_recipe,
    order_label,
    slash,
    tag_file,
    tag_recipe,
    two_labels,
    words,
)

TEXT = "the quick brown fox jumps over the lazy dog\n" * 40
RECIPE = """
task: text-generation
model: {d_model: 16, n_layers: 1, n_heads: 2, max_length: 16}
processor: {tokenizer: {kind: character}}
train: {batch_size: 4, evaluate: {every: 2}, save: {every: 2}, sample: {tokens: 0}, schedule: {warmup_steps: 0},
  device: cpu, precision: float32}
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
    changes = {
        "train.steps": 2,
        "data.train.path": recipe.parent / "text.txt",
        "generate.temperature": 0.5,
    }
    return gf.train(recipe, changes, tmp_path_factory.mktemp("runs") / "run")


def test_the_public_names_are_these():
    """A change here is a change of what people's programs rely on: it belongs into the
    CHANGELOG."""
    assert set(gf.__all__) == {
        "GlassformerError",
        "Run",
        "__version__",
        "edits",
        "export_run",
        "finetune",
        "import_published",
        "load",
        "look",
        "models",
        "train",
        "view",
    }
    assert set(gf.__all__) <= set(dir(gf))
    from glassformer import run as module

    shape = lambda function: str(inspect.signature(function)).replace("pathlib._local.", "pathlib.")
    public = {name for name in dir(gf.Run) if not name.startswith("_")} | {
        "folder",
        "model",
        "task",
        "recipe",
    }
    assert public == {
        *("folder", "model", "processor", "task", "recipe", "tokenizer", "classes", "reader"),
        *("fingerprint", "bits", "quantized"),
        *("options", "evaluate", "at", "look", "encode", "example_inputs"),
        *("generate", "record", "stream", "score", "chat"),
        *("translate", "score_pairs", "cross_attention"),
        *("compiled", "predict", "predictor", "tag", "classify", "embed", "contexts"),
        *("fill", "likelihoods", "few_shot", "choose", "answer", "draw"),
    }
    assert list(inspect.signature(module.load).parameters) == [
        "folder",
        "device",
        "checkpoint",
        "accept_changed",
        "quantize",
        "compile",
    ]
    assert list(inspect.signature(gf.look).parameters) == ["what", "given", "edits", "checkpoint"]
    assert list(inspect.signature(gf.Run.record).parameters) == [
        "self",
        "given",
        "watch",
        "options",
    ]
    assert list(inspect.signature(module.train).parameters) == [
        "recipe",
        "changes",
        "run",
        "resume",
        "listener",
        "checkpoint",
    ]
    assert list(inspect.signature(gf.Run.evaluate).parameters) == [
        *("self", "split", "data", "targets", "changes")
    ]
    assert "max_new_tokens=None" in shape(gf.Run.generate)
    assert "**options" in shape(gf.Run.stream)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = gf.lode  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_is_cheap():
    program = (
        "import sys, glassformer as gf; gf.__version__; dir(gf); sys.exit(str('torch' in "
        "sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "False"


def test_train_is_a_plain_function_of_the_package():
    assert inspect.isfunction(gf.train)


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
    (result,) = run.predict(["the "], seed=3, max_new_tokens=4)
    assert (len(result.ids), result.finish) == (4, "length")
    assert one.startswith(result.text)


def test_options_are_the_recipes_with_changes(run):
    assert run.options().temperature == 0.5
    assert run.options().max_new_tokens == 9
    assert run.options(temperature=2).temperature == 2
    with pytest.raises(ConfigError, match=r"generate\.temprature; did you mean 'temperature'"):
        run.generate("the", temprature=1)


def test_a_record_is_the_text_with_every_choice_among_its_alternatives(run):
    from glassformer.runtime.trace import Watch

    options = {"max_new_tokens": 5, "temperature": 0.7, "seed": 3}
    found = run.record("the", Watch(top=4), **options)
    assert found.text == run.generate("the", **options)
    assert [choice.id for choice in found.choices] == found.ids
    text = "the"
    for choice in found.choices:
        p = run.look(text).probabilities().double()
        assert choice.before == pytest.approx(float(p[choice.id]), rel=1e-4)
        assert [one.id for one in choice.alternatives] == p.argsort(descending=True, stable=True)[
            :4
        ].tolist()
        text += run.tokenizer.decode([choice.id])
    assert len(run.record("the", max_new_tokens=1).choices[0].alternatives) == 10
    with pytest.raises(ConfigError, match="A beam search is watched step by step"):
        run.record("the", beams=2)


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
    kept = run.processor.load_stored(run.recipe.data, run.folder)
    ids, context, total = kept["validation"].tokens.tolist(), 16, 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, context):
            window = torch.tensor([ids[begin : begin + context + 1]])
            table = run.model(window[:, :-1]).logits[0].log_softmax(-1)
            total -= float(table.gather(1, window[0, 1:, None]).sum())
    scores = run.evaluate()
    assert scores["tokens"] == len(ids) - 1
    assert scores["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    task = type(run.task)(run.task.kind, run.recipe, run.processor, run.folder, kept)
    three = task.objective.evaluate(run.model, "validation", Evaluation(rows=3))["loss"]
    assert three == pytest.approx(scores["loss"], rel=1e-6)


def test_errors_are_of_one_family(run, tmp_path):
    with pytest.raises(CheckpointError, match="is not a folder"):
        gf.load(tmp_path / "missing")
    with pytest.raises(ConfigError, match="There is no split 'valid'; did you mean 'validation'"):
        run.evaluate("valid")
    with pytest.raises(GlassformerError, match="is no device"):
        gf.load(run.folder, device="abacus")
    for wrong in (5, None, ["a", 5], [None], {"text": 5}.values()):
        for verb in (run.generate, run.embed):
            with pytest.raises(
                ConfigError, match=r"A text or a list of texts is needed, not '(5|None)'"
            ):
                verb(wrong)


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
    changes = {
        "train.steps": 1,
        "data.train.path": path,
        "train.sample.prompt": "no: 🙂\n#\t",
        "train.optimizer.learning_rate": 1e-05,
    }
    trained = gf.train(recipe, changes, tmp_path / "run")
    assert trained.recipe is not None
    assert trained.recipe.train.sample.prompt == "no: 🙂\n#\t"
    assert trained.recipe.train.optimizer.learning_rate == 1e-05


def test_an_interrupted_training_is_a_keyboard_interrupt(recipe, tmp_path, monkeypatch):
    from glassformer.training.loop.trainer import Result

    stopped = Result(tmp_path, 7, {}, None, "loss", "use", 1.0, interrupted=2)
    monkeypatch.setattr("glassformer.run.folder.train_run", lambda *given, **options: stopped)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 7"):
        gf.train(recipe, {}, tmp_path)


HELD = {"validation.fraction": 0.2, "test.fraction": 0.2}
OTHER = [words(random.Random(5)) for _ in range(9)]


def test_a_draft_changes_no_text(run, recipe, tmp_path):
    how = {"max_new_tokens": 30, "seed": 1}
    expected = run.generate(["the cat", "a"], **how)
    for draft in (run, "ngram"):
        assert run.generate(["the cat", "a"], draft=draft, draft_tokens=2, **how) == expected
        pieces = run.stream("the cat", draft=draft, **how)
        assert "".join(piece.text for piece in pieces) == expected[0]
    changes = {"train.steps": 1, "data.train.path": recipe.parent / "text.txt"}
    other = gf.train(recipe, {**changes, "processor.tokenizer.kind": "byte"}, tmp_path / "run")
    for draft, sentence in ((other, "another vocabulary"), ("trigram", "neither a run nor ngram")):
        with pytest.raises(ConfigError, match=sentence):
            run.generate("the", draft=draft)
    with pytest.raises(ConfigError, match="draft_tokens=2 is for a draft"):
        run.generate("the", draft_tokens=2)
    with pytest.raises(ConfigError, match="beams=2; leave out one"):
        run.generate("the", draft="ngram", beams=2)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run for each head, and where their data are."""
    folder = tmp_path_factory.mktemp("tasks")
    text_file(folder, 2000)
    train = {"steps": 4, "optimizer.learning_rate": 0.01, "evaluate.batches": None}
    made = {
        "tag": tag_recipe(folder, data={"train.path": tag_file(folder), **HELD}, train=train),
        "classify": class_recipe(
            folder, data={"train.path": class_file(folder), **HELD}, train=train
        ),
        "several": class_recipe(
            folder,
            model={"multi_label": True},
            data={"train.path": class_file(folder, label=two_labels, name="several.jsonl"), **HELD},
            train=train,
        ),
        "masked": masked_recipe(folder, data=HELD, train=train),
    }
    for name, one in made.items():
        go(one, folder / name)
    return folder


def test_tag_gives_names_for_a_text_words_and_sentences(small):
    run = gf.load(small / "tag")
    assert run.classes == ("END", "HIGH", "LOW")
    one = run.tag("a b c")
    assert [word for word, _ in one] == ["a", "b", "c"]
    assert all(tag in run.classes for _, tag in one)
    assert run.tag(["a", "b", "c"]) == one
    assert run.tag([["a", "b", "c"], ["d"], []]) == [one, run.tag("d"), []]
    assert run.tag("") == run.tag([]) == []
    (top,) = run.predict([["a", "b"]], top=3)
    assert top.classes.shape == (2, 3)
    assert [run.classes[i] for i in top.classes[:, 0]] == [tag for _, tag in run.tag(["a", "b"])]


def test_classify_gives_names_for_texts_and_pairs(small):
    run = gf.load(small / "classify")
    assert run.classes == ("a", "b")
    texts = ["a b", "b a", ("a", "b")]
    found = run.classify(texts)
    rows = probabilities(run, texts)
    assert found == [run.classes[i] for i in rows.argmax(1)]
    assert [run.classify(text) for text in texts] == found
    assert run.classify([]) == []
    assert rows.sum(1) == pytest.approx(1, abs=1e-6)


def test_several_classes_are_those_that_are_likely_enough(small):
    run = gf.load(small / "several")
    texts = ["a b", "h h"]
    rows = probabilities(run, texts)
    for threshold in (0.0, float(rows.mean()), 1.0):
        expected = [
            [name for name, p in zip(run.classes, row, strict=True) if p >= threshold]
            for row in rows
        ]
        assert run.classify(texts, threshold=threshold) == expected
        assert run.classify(texts[0], threshold=threshold) == expected[0]
    assert run.classify(texts, threshold=0.0) == [["h", "low"]] * 2


@pytest.mark.parametrize("name", ["tag", "classify", "several", "masked"])
def test_evaluate_of_a_split_is_what_training_said(small, name):
    run = gf.load(small / name)
    scores = run.evaluate()
    from glassformer.training.folder.history import read_metrics

    last = [line for line in read_metrics(small / name) if "validation_loss" in line][-1]
    assert last["step"] == 4, "whose model is the best, as the loss only falls"
    assert scores["loss"] == pytest.approx(last["validation_loss"], rel=1e-6)
    assert scores["accuracy"] == last["validation_accuracy"]
    assert (scores["run"], scores["split"], scores["data"]) == (
        str(small / name),
        "validation",
        None,
    )
    assert run.evaluate("test")["loss"] != scores["loss"]
    assert run.evaluate("train")["loss"] != scores["loss"]


def test_evaluate_of_other_data_reads_them_in_the_form_of_the_runs_own(
    small, tmp_path, monkeypatch
):
    gold = [["END" if i == len(s) - 1 else "LOW" for i in range(len(s))] for s in OTHER]
    (tmp_path / "o.txt").write_text("".join(map(slash, OTHER, gold)))
    run = gf.load(small / "tag")
    monkeypatch.chdir(tmp_path)
    scores = run.evaluate(data="o.txt")
    found = run.tag(OTHER)
    right = [
        tag == own
        for s, tags in zip(found, gold, strict=True)
        for (_, tag), own in zip(s, tags, strict=True)
    ]
    assert scores["tokens"] == len(right)
    assert scores["accuracy"] == pytest.approx(sum(right) / len(right))
    assert (scores["split"], scores["data"]) == ("all", "o.txt")
    run = gf.load(small / "classify")
    texts = [" ".join(s) for s in OTHER]
    json_file(
        tmp_path, "o.jsonl", [(text, order_label(s)) for text, s in zip(texts, OTHER, strict=True)]
    )
    scores = run.evaluate(data="o.jsonl")
    assert scores["examples"] == 9
    labels = [order_label(s) for s in OTHER]
    assert scores["accuracy"] == pytest.approx(
        sum(a == b for a, b in zip(run.classify(texts), labels, strict=True)) / 9
    )
    (tmp_path / "o2.txt").write_text("the cat sat on a mat " * 30)
    scores = gf.load(small / "masked").evaluate(data="o2.txt")
    assert scores["tokens"] > 40
    assert scores["split"] == "all"
    assert not list((small / "tag").glob("*.tmp"))


def test_other_data_of_another_form_or_none_are_refused(small, tmp_path):
    (tmp_path / "plain.txt").write_text("no tags here\n")
    with pytest.raises(DataError, match="no tag after 'no'"):
        gf.load(small / "tag").evaluate(data=str(tmp_path / "plain.txt"))
    with pytest.raises(GlassformerError, match=r"missing\.txt"):
        gf.load(small / "tag").evaluate(data=str(tmp_path / "missing.txt"))
    with pytest.raises(ConfigError, match="Only an encoder-decoder has targets"):
        gf.load(small / "tag").evaluate(targets="x")


@pytest.mark.parametrize("name", ["tag", "classify", "several", "masked"])
def test_a_copied_folder_is_used_without_its_data(small, tmp_path, name):
    run = gf.load(small / name)
    ask = {"tag": run.tag, "masked": run.embed}.get(name, run.classify)
    expected = ask("a b")
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(small / name / file, bare)
    shutil.copytree(
        small / name, tmp_path / "whole", ignore=shutil.ignore_patterns("tokens", "checkpoints")
    )
    recipe = (tmp_path / "whole" / "recipe.yaml").read_text()
    (tmp_path / "whole" / "recipe.yaml").write_text(
        recipe.replace(str(small), str(tmp_path / "gone"))
    )
    for folder in (bare, tmp_path / "whole"):
        with pytest.raises(CheckpointError, match=r"--accept-changed"):
            gf.load(folder)
        accept_changed(folder)
        copied = gf.load(folder)
        assert copied.classes == run.classes
        found = {"tag": copied.tag, "masked": copied.embed}.get(name, copied.classify)("a b")
        assert (found == expected) if name != "masked" else (found == expected).all()
    with pytest.raises(GlassformerError, match="gone"):
        gf.load(tmp_path / "whole").evaluate()
    with pytest.raises(ConfigError, match=r"has no recipe\.yaml"):
        gf.load(bare).evaluate()
    values = json.loads((bare / "config.json").read_text())
    assert (values.pop("task"), values["input"]) == (run.recipe.task, run.recipe.processor.input)
    (bare / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"names task None and input '.*'; add them"):
        gf.load(bare, accept_changed=True)


def test_a_run_is_asked_only_for_what_it_can(run, small):
    tagger, classifier, masked = (gf.load(small / name) for name in ("tag", "classify", "masked"))
    tagging, classifying = "use `glassformer tag`", "use `glassformer classify`"
    tags = "is a model for token-classification, so "
    refused = [
        (lambda: tagger.generate("a"), f"{tags}generating text is not for it; {tagging}"),
        (lambda: list(tagger.stream("a")), f"{tags}streaming text is not for it; {tagging}"),
        (lambda: tagger.score("a b"), f"{tags}scoring text is not for it; {tagging}"),
        (lambda: tagger.translate("a"), f"{tags}translating is not for it; {tagging}"),
        (lambda: tagger.classify("a"), f"{tags}classifying is not for it; {tagging}"),
        (lambda: tagger.answer("a"), f"{tags}generating text is not for it; {tagging}"),
        (lambda: tagger.draw("a"), f"{tags}drawing is not for it; {tagging}"),
        (lambda: tagger.score_pairs([("a", "b")]), f"{tags}scoring text is not for it"),
        (lambda: tagger.cross_attention("a", "b"), f"{tags}reading a source is not for it"),
        (lambda: classifier.tag("a"), f"text-classification, so tagging is not .* {classifying}"),
        (lambda: classifier.generate("a"), f"so generating text is not for it; {classifying}"),
        (lambda: masked.generate("a"), "is a model for fill-mask, so generating text is not"),
        (lambda: masked.tag("a"), "is a model for fill-mask, so tagging is not for it"),
        (lambda: run.tag("a"), "text-generation, so tagging is not .* use `glassformer generate`"),
        (lambda: run.classify("a"), "so classifying is not for it; use `glassformer generate`"),
    ]
    for ask, sentence in refused:
        with pytest.raises(ConfigError, match=sentence):
            ask()


def test_windows_are_those_of_training(tmp_path):
    made = tag_recipe(
        tmp_path,
        train={"length": 8, "steps": 2},
        data={"train.path": tag_file(tmp_path), "overlap": 1},
    )
    go(made, tmp_path / "x")
    run = gf.load(tmp_path / "x")
    assert (run.processor.builder.longest, run.processor.builder.overlap) == (8, 1)
    assert run.reader.longest == 8


def test_other_text_is_read_in_the_form_of_the_runs_own(run, tmp_path):
    data = run.recipe.data.model_copy(update={"format": "slash"})
    recipe = dataclasses.replace(run.recipe, data=data)
    changed = dataclasses.replace(
        run, task=type(run.task)(run.task.kind, recipe, run.processor, run.folder)
    )
    words, plain = tmp_path / "words.txt", tmp_path / "plain.txt"
    words.write_text("the/DET old/ADJ man/NOUN\nthe/DET boats/NOUN\n" * 20, encoding="utf-8")
    plain.write_text(" the old man\n the boats\n" * 20, encoding="utf-8")
    assert changed.evaluate(data=str(words))["loss"] == run.evaluate(data=str(plain))["loss"]
    assert changed.evaluate(data=str(words))["loss"] != run.evaluate(data=str(words))["loss"]
