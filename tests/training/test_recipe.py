"""A recipe says everything, and what it says wrongly is named."""

import pytest
import yaml

from glassformer.core.errors import ConfigError
from glassformer.models import presets
from glassformer.recipe.reading import read_recipe, read_yaml
from glassformer.recipe.recipe import Recipe


def made(*overrides: str) -> Recipe:
    """A recipe of text generation without a file."""
    return read_recipe(None, ["task=text-generation", *overrides])


def test_a_task_alone_is_a_recipe():
    assert made().train.steps == 2000
    assert (made().task, made().processor.input) == ("text-generation", "documents")
    assert made().model.head == "lm"


def test_the_task_is_an_override_without_a_section(tmp_path):
    (tmp_path / "r.yaml").write_text("task: text-generation\ntrain: {steps: 5}\n")
    overrides = ["task=token-classification", "processor.input=parts"]
    changed = read_recipe(tmp_path / "r.yaml", overrides)
    assert (changed.task, changed.processor.input) == ("token-classification", "parts")
    assert (changed.model.head, changed.train.steps) == ("tag", 5)


def test_a_preset_is_expanded_and_changed():
    model = made("model.preset=gpt2", "model.size=medium", "model.n_layers=3").model
    # The vocabulary is left to the tokenizer.
    assert model == presets.gpt2("medium", n_layers=3, vocab_size=0)


def test_the_classes_of_a_preset_are_the_datas_unless_asked_for():
    vit = ["task=image-classification", "model.preset=vit"]
    assert read_recipe(None, vit).model.n_classes is None
    assert read_recipe(None, [*vit, "model.n_classes=7"]).model.n_classes == 7


def test_overrides_are_yaml_values_on_top_of_the_file(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("task: text-generation\ntrain:\n  steps: 5\n  seed: 1\ngenerate: {stop: [a]}\n")
    overrides = [
        "train.steps=7",
        "train.optimizer.learning_rate=1e-4",
        "train.length=null",
        "data.train.path=[a, b]",
        "train.compile=yes",
    ]
    changed = read_recipe(path, [*overrides, "train.sample.prompt=a=b", "generate.top_k=3"])
    assert (changed.train.steps, changed.train.seed, changed.train.optimizer.learning_rate) == (
        7,
        1,
        1e-4,
    )
    assert changed.train.length is None
    assert changed.train.compile is True
    assert changed.train.sample.prompt == "a=b"
    assert changed.data.train.path == ["a", "b"]
    assert changed.generate.stop == ("a",)
    assert changed.generate.top_k == 3


def test_the_resolved_recipe_reads_back_as_itself(tmp_path):
    whole = made(
        "model.preset=modern",
        "model.vocab_size=7",
        "data.train.path=ü.txt",
        "generate.stop=['\\n']",
    )
    (tmp_path / "r.yaml").write_text(whole.yaml(), encoding="utf-8")
    assert read_recipe(tmp_path / "r.yaml") == whole
    assert yaml.safe_load(whole.yaml())["train"]["batch_size"] == 32


def test_sections_that_hold_nothing_are_defaults(tmp_path):
    (tmp_path / "r.yaml").write_text("task: text-generation\ntrain:\n  # steps: 3\nmodel:\n")
    assert read_recipe(tmp_path / "r.yaml", ["train.seed=2"]).train.seed == 2


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["task=text-generatoin"], r"no task 'text-generatoin'; did you mean 'text-generation'"),
        (["task="], "has no task; add task: text-generation or"),
        (["task"], "no override"),
        (["inputs=text"], "'inputs=text' is no override; .* or task=NAME"),
        (["train.step=3"], r"train\.step; did you mean 'steps'"),
        (["trian.steps=3"], r"'trian' in the recipe; did you mean 'train'"),
        (
            ["steps=3"],
            "'steps=3' is no override; write section.key=value, for example train.steps=5",
        ),
        (["train.steps"], "no override"),
        (["train.=3"], "no override"),
        (["train.steps=many"], r"train\.steps: .*'many'"),
        (["train.steps=0"], r"train\.steps: .*greater than or equal to 1, got 0"),
        (["train.steps=1.5"], r"train\.steps: .*1\.5"),
        (["train.steps=yes"], r"train\.steps: .*valid integer.*'yes'"),
        (["train.optimizer.learning_rate=inf"], r"train\.optimizer\.learning_rate: .*finite"),
        (["train.optimizer.learning_rate=.nan"], r"train\.optimizer\.learning_rate"),
        (["train.schedule.kind=cosin"], r"train\.schedule\.kind: .*'cosine'.*got 'cosin'"),
        (["train.micro_batches=5"], "micro_batches=5 does not divide batch_size=32"),
        (
            ["train.parallel_micro_batches=2"],
            "parallel_micro_batches=2 needs parts to compute; set micro_batches to as many or more",
        ),
        (
            ["train.parallel_micro_batches=2", "train.micro_batches=4", "train.compile=true"],
            "parallel_micro_batches=2 is not for compiled models",
        ),
        (["model.n_heads=3", "model.d_model=16"], "n_heads=3 does not divide d_model=16"),
        (["model.preset=gpt3"], "'gpt3'; did you mean 'gpt2'"),
        (["model.preset=gpt2", "model.size=huge"], "no size 'huge'"),
        (["model.size=small"], r"needs a model\.preset"),
        (["model.preset=gpt2", "model.name=x"], r"Unknown key model\.name"),
        (["model.preset=gpt2", "model.heads=3"], r"Unknown key model\.heads; did you mean"),
        (
            ["train.length=99", "model.max_length=9"],
            r"train\.length=99 exceeds model\.max_length=9",
        ),
        (["train.consistency=1", "model.dropout=0"], r"compares two passes .*; set model\.dropout"),
        (["data.train.path={a: b}"], r"data\.train\.path: .*string, got \{'a': 'b'\}"),
        (["data.encoding=utf-88"], "utf-88"),
        (["processor.tokenizer.kind=bpee"], r"processor\.tokenizer\.kind"),
        (["generate.temperature=-1"], r"generate\.temperature"),
        (["data.path=x"], r"^Unknown key data\.path; use data\.train\.path or data\.validation"),
        (
            ["train.learning_rate=1"],
            r"train\.learning_rate; use train\.optimizer\.learning_rate\.$",
        ),
        (["train.optimizer=muon"], r"The section train\.optimizer must hold .*, not 'muon'"),
        (["train.optimizer.kind.x=1", "train.optimizer=muon"], r"train\.optimizer must hold"),
        (["tokenizer.kind=word"], r"Unknown section 'tokenizer' .*; use processor\.tokenizer\.$"),
        (
            ["data.word_field=x"],
            r"data\.word_field has no use for input='documents', only for words",
        ),
        (
            ["data.train.labels=x"],
            r"data\.train\.labels has no use for input='documents', only for im",
        ),
        (["data.overlap=3"], r"data\.overlap has no use for input='documents', only for text or w"),
        (
            ["processor.tokenizer.source_path=x"],
            r"processor\.tokenizer\.source_path has no use for input='documents', only for pairs",
        ),
        (
            ["task=image-classification", "processor.tokenizer.kind=byte"],
            r"processor\.tokenizer has no use for input='image'",
        ),
        (
            ["task=audio-classification", "data.group_field=speaker"],
            r"data\.group_field has no use for task='audio-classification', only for text-to-text",
        ),
        (
            ["task=image-classification", "train.length=8"],
            r"train\.length has no use for input='image'",
        ),
        (
            ["train.evaluate.decode_lines=3"],
            r"train\.evaluate\.decode_lines has no use for task='text-generation'",
        ),
        (
            ["task=fill-mask", "train.sample.prompt=a"],
            r"train\.sample\.prompt has no use for task='fill-mask', only for text-generation",
        ),
        (
            ["task=text-classification", "data.store=x"],
            r"data\.store has no use for input='text', only for documents or pairs",
        ),
        (
            ["train.mask_fraction=0.3"],
            r"train\.mask_fraction has no use for task='text-generation'",
        ),
        (["data.train.fraction=0.3"], r"^data: train has neither fraction nor where"),
        (
            ["augment.image.flip=true"],
            r"augment\.image changes what processor\.image reads, which is",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(overrides, words):
    with pytest.raises(ConfigError, match=words) as caught:
        made(*overrides)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"train: [", "not valid YAML at line"),
        (b"- a\n- b", "holds list, not sections"),
        (b"text", "holds str, not sections"),
        (b"", "no task; add task: "),
        (b"train: {steps: 3}", "no task; add task: "),
        (b"task: 3", "no task '3'"),
        (b"task: {}", "no task '{}'"),
        (b"train: 3", "section train must hold"),
        (b"1: {a: 2}", "Unknown section '1'"),
        (b"task: fill-mask\nmodel: {1: 2}", r"Unknown key model\.1"),
        (b"task: text-generation\nmodel: {preset: gpt2, 1: 2}", r"Unknown key model\.1"),
        (b"!!python/object/apply:os.system [true]", "holds list, not sections"),
    ],
)
def test_a_file_that_is_no_recipe_is_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "r.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_recipe(tmp_path / "r.yaml")


def test_a_folder_is_no_recipe_and_a_file_of_a_task_is_all_defaults(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)
    (tmp_path / "r.yaml").write_text("task: text-generation\n")
    assert read_recipe(tmp_path / "r.yaml") == Recipe.parse({"task": "text-generation"})


def test_the_vocabulary_comes_from_the_tokenizer_or_must_hold_it():
    assert made().with_vocabulary(70).model.vocab_size == 70
    assert made("model.vocab_size=80").with_vocabulary(70).model.vocab_size == 80
    with pytest.raises(
        ConfigError, match="vocab_size=60 is smaller than the tokenizer's vocabulary of 70"
    ):
        made("model.vocab_size=60").with_vocabulary(70)


def test_a_vocabulary_asked_for_beside_a_preset_stays():
    assert made("model.preset=gpt2", "model.vocab_size=300").model.vocab_size == 300


def test_a_default_that_depends_on_another_field_is_written():
    assert made().augment.seed == 0
    assert made("train.seed=3").augment.seed == 3
    assert made("train.seed=3", "augment.seed=1").augment.seed == 1
    assert made().data.validation.fraction == 0.1
    assert made("data.validation=").data.validation.fraction == 0.1
    named = made("data.validation.path=v.txt", "data.validation.fraction=0.3").data
    assert (named.validation.fraction, named.held_out) == (None, (0.0, 0.0))
    answers = read_recipe(None, ["task=image-text-to-text"]).generate
    assert (answers.temperature, answers.beams) == (0.0, 0)
    assert read_recipe(None, ["task=text-to-text"]).generate.beams == 5
