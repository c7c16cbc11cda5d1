"""Answers as bytes and back; pixels as roots; numbers that JSON does not have."""

import json
import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from glassformer.core.files import finite
from glassformer.serve.explorer.wire import Reply, root_bytes, text
from serve.asking import reply_of

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
KINDS = st.sampled_from(["uint8", "int32", "float16", "float32"])
NAMES = st.text("abcdefghij_", min_size=1, max_size=8)


@given(
    st.dictionaries(st.text(), PLAIN, max_size=4),
    st.dictionaries(NAMES, st.tuples(KINDS, st.lists(st.integers(0, 4), max_size=3)), max_size=4),
)
def test_an_answer_survives_its_bytes(header, shapes):
    arrays = {
        name: np.arange(math.prod(shape)).reshape(shape).astype(kind)
        for name, (kind, shape) in shapes.items()
    }
    data = Reply(header, arrays).to_bytes()
    again = reply_of(data)
    assert again.header == header
    assert again.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert again.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(again.arrays[name], array)
    assert load(data).keys() == arrays.keys()  # an ordinary safetensors file


def test_an_array_that_lies_otherwise_in_memory_arrives_the_same():
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    again = reply_of(Reply({}, {"a": array}).to_bytes())
    np.testing.assert_array_equal(again.arrays["a"], array)


def test_numbers_that_json_does_not_have_are_null():
    value = {"a": [1.5, math.nan, -math.inf], "b": ({"c": math.inf},)}
    assert finite(value) == {"a": [1.5, None, None], "b": [{"c": None}]}
    assert json.loads(text(value)) == {"a": [1.5, None, None], "b": [{"c": None}]}
    assert reply_of(Reply(value).to_bytes()).header["a"] == [1.5, None, None]


def test_half_of_a_character_pair_is_no_obstacle():
    assert json.loads(text({"a": "\ud800"})) == {"a": "\ud800"}
    assert reply_of(Reply({"a": "\ud800 — 猫"}).to_bytes()).header == {"a": "\ud800 — 猫"}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_pixels_are_off_by_at_most_what_the_page_says(values):
    pixels = root_bytes(torch.tensor(values, dtype=torch.float64))
    assert np.abs((pixels / 255.0) ** 2 - values).max() <= 0.0040
