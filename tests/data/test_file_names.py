"""Fields of file names against a regular expression, which tries every division."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.data.records.labelled_files import fields_of


@pytest.mark.parametrize(
    ("pattern", "name", "fields"),
    [
        (
            "{label}_{speaker}_{index}.wav",
            "7_jackson_0.wav",
            {"label": "7", "speaker": "jackson", "index": "0"},
        ),
        (
            "{label}_{index}.jpg",
            "pets/basset_hound_12.jpg",
            {"label": "basset_hound", "index": "12"},
        ),
        ("{label}/{n}.png", "/data/train/cat/0001.png", {"label": "cat", "n": "0001"}),
        ("clip-{label}", "clip-a.b", {"label": "a.b"}),
        ("{label}__{n}", "a___b", {"label": "a_", "n": "b"}),
        ("{label}_{n}.wav", "7.wav", None),
        ("{label}_{n}.wav", "_0.wav", None),
        ("{label}_{n}.wav", "7_.wav", None),
        ("{label}/{n}.png", "0001.png", None),
        ("{label}.wav", "x.mp3", None),
        ("a{label}.wav", "a.wav", None),
    ],
)
def test_fields(pattern, name, fields):
    assert fields_of(pattern, name) == fields


@given(
    st.lists(st.sampled_from(["_", "-", "__", "_-", "ab"]), min_size=0, max_size=3),
    st.tuples(st.sampled_from(["", "a", "_"]), st.sampled_from(["", "b", ".wav", "_"])),
    st.text("ab_-.", max_size=12),
)
def test_the_same_as_a_greedy_regular_expression(between, ends, name):
    literals = [ends[0], *between, ends[1]]
    fields = [f"f{i}" for i in range(len(between) + 1)]
    pattern = (
        "".join(literal + f"{{{field}}}" for literal, field in zip(literals, fields, strict=False))
        + ends[1]
    )
    expression = "".join(
        re.escape(literal) + f"(?P<{field}>.+)"
        for literal, field in zip(literals, fields, strict=False)
    ) + re.escape(ends[1])
    match = re.fullmatch(expression, name)
    assert fields_of(pattern, name) == (match.groupdict() if match else None)


@pytest.mark.parametrize(
    "pattern", ["", "x.wav", "{label", "label}_{n}", "{label}{n}", "{a}_{a}", "{}_{n}", "{a b}"]
)
def test_a_template_that_is_none(pattern):
    with pytest.raises(ConfigError, match=r"data\.label_pattern .* has .*write it like"):
        fields_of(pattern, "x_y")
