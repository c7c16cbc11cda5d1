"""The page of a word in several sentences: every similarity, and dots that can be told apart."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from glassformer.errors import ConfigError
from glassformer.inspect.contextual import Contexts, Occurrence
from glassformer.pages.charts import scatter
from glassformer.pages.word_contexts import MOST, contexts_html
from pages.reading import Page


def look_at(vectors, causal=False):
    vectors = np.asarray(vectors, np.float32)
    occurrences = [Occurrence(i + 1, "the bank", 4, 8, ("bank",)) for i in range(vectors.shape[1])]
    return Contexts("bank", tuple(occurrences), vectors, causal)


def test_the_page_says_every_number():
    look = look_at(np.random.default_rng(1).normal(size=(3, 6, 4)) + np.ones((1, 6, 4)))
    look.vectors[0] = 1
    text = contexts_html(look, "run <1>")
    page = Page(text)
    wanted = [f"{value:.2f}" for table in look.similarities for row in table for value in row]
    assert [float(cell) for cell in page.cells] == [float(number) for number in wanted]
    assert len(page.values("aria-label", "svg")) == 1 + 3  # the curve, and a map for each layer
    assert "run &lt;1&gt;" in text
    assert text.count("<mark>bank</mark>") == len(look.occurrences) == 6
    assert "1–6" in text  # static: all in one place
    assert "reads from left to right" not in text
    assert "has one vector, whatever stands around it" in text
    assert text == contexts_html(look, "run <1>")


def test_the_page_says_what_a_decoder_sees_and_that_tokens_differ():
    vectors = np.random.default_rng(0).normal(size=(3, 2, 4))
    look = look_at(vectors, causal=True)
    one, other = look.occurrences
    look = replace(look, occurrences=(one, replace(other, pieces=(" b", "ank"))))
    text = contexts_html(look, "x")
    assert "reads from left to right" in text
    assert "not the same tokens everywhere (bank and ␣b·ank)" in text
    assert "has one vector, whatever" not in text


@pytest.mark.parametrize("n", [2, 13, 30, MOST])
def test_pages_of_many(n):
    vectors = np.random.default_rng(0).normal(size=(3, n, 4))
    assert len(Page(contexts_html(look_at(vectors), "x")).cells) == 3 * n * n
    with pytest.raises(ConfigError, match=f"{MOST + 1} occurrences are too many"):
        contexts_html(look_at(np.ones((2, MOST + 1, 2))), "x")


@pytest.mark.parametrize("seed", range(4))
def test_dots_do_not_cover_one_another_and_none_is_lost(seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (12, 2)) ** 3
    text = scatter(points, "x", few=True)
    found = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="20"', text)
    for one, other in itertools.combinations([tuple(map(float, place)) for place in found], 2):
        left, right = sorted((one, other))
        assert left[0] + left[2] <= right[0] + 1.2 or abs(one[1] - other[1]) >= 18.9
    numbers: list[int] = []
    for label in re.findall(r"<text[^>]*>([^<]+)</text>", text):
        for part in label.split(", "):
            first, _, last = part.partition("–")
            numbers += range(int(first), int(last or first) + 1)
    assert sorted(numbers) == list(range(1, 13))


def test_of_many_only_dots_that_lie_apart_have_a_number():
    points = np.array([[0, 0], [0.01, 0], [0.8, 0.8], [-0.8, 0.5]])
    text = scatter(points, "x", few=False)
    assert re.findall(r">(\d+)</text>", text) == ["3", "4"]
    assert re.findall(r"<title>(\d+)<", text) == ["1", "2", "3", "4"]
    assert "1–40" in scatter(np.zeros((40, 2)), "x", few=False)
