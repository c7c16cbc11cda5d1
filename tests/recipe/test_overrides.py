"""Overrides are read by the type of their field."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.recipe.reading import read_recipe
from glassformer.recipe.recipe import Recipe


def read(*overrides: str) -> Recipe:
    return read_recipe(None, ["task=text-generation", *overrides])


PATHS = [
    "2024",
    "12:30",
    "a: b.txt",
    "notes #2.txt",
    "-",
    "true",
    "0x10",
    "*.txt",
    "é ü",
    "1e3",
    "a, b",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_the_text_that_was_given(path):
    assert read(f"data.train.path={path}").data.train.path == path


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_that_is_no_collection_stays_as_it_is(text):
    got = read(f"train.sample.prompt={text}").train.sample.prompt
    assert got == text or text[0] in "[{'\""


def test_texts_that_look_like_numbers():
    tasks = {"text_field": "text-generation", "word_field": "token-classification"}
    tasks |= {"pair_field": "text-classification", "source_field": "text-to-text"}
    for field, task in tasks.items():
        assert getattr(read_recipe(None, [f"task={task}", f"data.{field}=2"]).data, field) == "2"
        values = {"task": task, "data": {field: 2}}
        assert getattr(Recipe.parse(values).data, field) == "2"
    for text in ("[0,1,2]", "[0, 1, 2]", '["0", "1", "2"]'):
        given = read_recipe(None, ["task=text-classification", f"data.class_names={text}"])
        assert given.data.class_names == ("0", "1", "2")
    values = {"task": "text-classification", "data": yaml.safe_load("class_names: [0, 1, 2]")}
    assert Recipe.parse(values).data.class_names == ("0", "1", "2")


def test_lists_sections_and_quoted_texts_are_yaml():
    assert read("data.train.path=[a.txt, 2024]").data.train.path == ["a.txt", "2024"]
    assert read("data.train.path=[1].txt").data.train.path == "[1].txt"
    assert read("train.sample.prompt='a: '").train.sample.prompt == "a: "
    assert (
        read("processor.tokenizer={kind: word, vocab_size: 300}").processor.tokenizer.vocab_size
        == 300
    )


@pytest.mark.parametrize("nothing", ["", "null", "~"])
def test_null_where_a_field_may_be_null(nothing):
    assert read(f"data.pair_field={nothing}").data.pair_field is None
    assert read(f"train.length={nothing}").train.length is None
    if nothing:  # which no prompt is
        assert read(f"train.sample.prompt={nothing}").train.sample.prompt == nothing


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("train.steps=010", 10),
        ("train.steps=1_000", 1000),
        ("train.seed=9223372036854775807", 2**63 - 1),
    ],
)
def test_whole_numbers(override, value):
    name = override.partition("=")[0].removeprefix("train.")
    assert getattr(read(override).train, name) == value


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("train.steps=12:30", "train.steps: input should be a valid integer"),
        ("train.steps=yes", "train.steps: input should be a valid integer"),
        ("train.steps=1e400", "train.steps: input should be a valid integer"),
        ("train.steps=-3", "train.steps: input should be greater than or equal to 1, got -3."),
        ("train.seed=9223372036854775808", "a whole number must be below 2"),
        ("train.seed=" + "9" * 5000, "train.seed: unable to parse input string as an integer"),
        ("train.batch_size=1180591620717411303424", "less than or equal to 1048576"),
        ("train.compile=maybe", "train.compile: input should be a valid boolean"),
        ("train.optimizer.learning_rate=fast", "learning_rate: input should be a valid number"),
        ("train.optimizer.learning_rate=nan", "learning_rate: input should be a finite number"),
    ],
)
def test_what_a_field_does_not_take(override, sentence):
    with pytest.raises(ConfigError) as caught:
        read(override)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_number_of_thousands_of_digits_in_a_file(tmp_path):
    (tmp_path / "r.yaml").write_text(f"task: fill-mask\ntrain: {{seed: {'9' * 5000}}}\n")
    with pytest.raises(ConfigError, match="unable to parse input string as an integer"):
        read_recipe(tmp_path / "r.yaml")


def test_a_choice_of_numbers():
    assert read("model.first_position=1").model.first_position == 1
    with pytest.raises(ConfigError, match=r"model\.first_position: input should be 0 or 1, got 2"):
        read("model.first_position=2")
