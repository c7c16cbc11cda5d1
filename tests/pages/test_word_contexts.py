"""The page of a word in several sentences: every similarity, and dots that can be told apart."""

import re
from dataclasses import replace

import numpy as np
import pytest

from glassformer.core.errors import ConfigError
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
    printed = re.findall(r'fill="var\(--t\d+\)"[^>]*>(.*?)<', text)
    assert [float(cell) for cell in printed] == [float(number) for number in wanted]
    assert len(page.values("aria-label", "svg")) == 1 + 2 * 3  # the curve, two for each layer
    assert "run &lt;1&gt;" in text
    assert text.count("<mark>bank</mark>") == len(look.occurrences) == 6
    assert "1, 2, 3, 4, 5, 6" in text  # static: all in one place
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
    text = contexts_html(look_at(vectors), "x")
    assert len(re.findall(r"<title>\d+ and \d+: .*?</title></rect>", text)) == 3 * n * n
    with pytest.raises(ConfigError, match=f"{MOST + 1} occurrences are too many"):
        contexts_html(look_at(np.ones((2, MOST + 1, 2))), "x")


@pytest.mark.parametrize("seed", range(4))
def test_every_dot_has_a_label_near_it(seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (12, 2)) ** 3
    text = scatter(points, "x")
    places = {
        int(i): (float(x) + 3.5, float(y) + 3.5)
        for x, y, i in re.findall(r'<rect x="(\S+)" y="(\S+)"[^>]*><title>(\d+)<', text)
    }
    assert sorted(places) == [*range(1, 13)]
    labels = re.findall(r'<text x="(\S+)" y="(\S+)"[^>]*>([^<]+)</text>', text)
    named = [(int(i), float(x) - 6, float(y)) for x, y, label in labels for i in label.split(", ")]
    assert sorted(i for i, *_ in named) == sorted(places)
    for i, x, y in named:
        assert abs(places[i][0] - x) < 12.1
        assert abs(places[i][1] - y) < 10.1
