"""YAML of recipes: what small and hostile texts are told."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.data.config import DataConfig
from glassformer.recipe.reading import read_recipe, read_yaml
from glassformer.recipe.yaml_text import parse

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD = [
    ("train: {steps: 1}\ntrain: {seed: 2}\n", "at line 2 (the key 'train' is there twice)"),
    ("train:\n  steps: 1\n  steps: 2\n", "at line 3 (the key 'steps' is there twice)"),
    (LAUGHS, "more than 20,000 values, aliases written out"),
    ("a: &a [*a]\n", "more than 20,000 values, aliases written out"),
    ("a: " + "[" * 100_000, "nested too deeply"),
    ("# " + "x" * 2_000_000, "more than 1,000,000 characters"),
    ("train: {steps: 1\n", "at line"),
    ("a: \0", "(unacceptable character"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_a_text_of_no_use_is_one_sentence_at_once(tmp_path, text, words):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    begun = time.process_time()
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 10  # hours for nine lines of aliases that are written out


def test_values_are_texts_that_fields_read_by_their_types():
    """A class may be called no; 1:30 is 90 in YAML 1.1."""
    texts = "no, Yes, true, 1:30, 2026-01-01, 010, 1e-4, 0x10, 1_000, .5"
    assert parse(f"[{texts}]") == texts.split(", ")
    assert parse("[~, null, 'null', \"~\"]") == [None, None, "null", "~"]
    assert parse("{a: , !!int b: !x 1}") == {"a": None, "b": "1"}
    assert DataConfig.parse({"class_names": parse("[true, 0.5]")}).class_names == ("true", "0.5")
    assert read_recipe("lm", ["data.train.path=x", "train.tensorboard=yes"]).train.tensorboard


def test_aliases_of_reasonable_size_are_values():
    assert parse("a: &a [1, 2]\nb: *a\n") == {"a": ["1", "2"], "b": ["1", "2"]}


def test_an_override_that_grows_is_a_text():
    with pytest.raises(ConfigError):
        read_recipe(None, ["train.steps=" + "[" * 100_000])


TEXT = st.text(st.characters(exclude_characters="\x85\u2028\u2029\ufeff"), max_size=9)
"""PyYAML itself reads the excluded ones as something else than it writes."""
VALUES = st.recursive(
    st.none() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(VALUES)
def test_what_is_written_is_read_as_by_the_library(value):
    text = yaml.safe_dump(value, allow_unicode=True)
    assert parse(text) == yaml.safe_load(text) == value
