"""Similarities, neighbours and analogies: by hand, against scikit-learn, in blocks of any size;
files of vectors."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from glassformer.core.errors import DataError
from glassformer.inspect import vectors as inspected
from glassformer.inspect.vectors import (
    WordVectors,
    cosine,
    nearest,
    parse,
    read_array,
    read_named,
    read_words,
    unit,
)

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 3))
tables = st.integers(1, 6).flatmap(
    lambda d: st.tuples(
        *(arrays(np.float64, st.tuples(st.integers(1, 9), st.just(d)), elements=NUMBERS),) * 2
    )
)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@given(tables)
def test_cosine_is_the_normalized_dot_product_and_zero_is_like_nothing(pair):
    one, other = pair
    got = cosine(one, other)
    np.testing.assert_allclose(got, cosine_similarity(one, other), atol=1e-12)
    assert got.shape == (len(one), len(other))
    assert np.abs(got).max() <= 1
    assert not got[~one.any(1)].any()


def test_by_hand():
    np.testing.assert_allclose(
        cosine(np.array([[3.0, 4.0]]), np.array([[4.0, 3.0], [-3, -4], [0, 0]])), [[0.96, -1, 0]]
    )
    assert unit(np.array([3, 4])).tolist() == [0.6, 0.8]


def test_nearest_is_scikit_learns_whatever_the_blocks(monkeypatch):
    queries, vectors = random(23, 5), random(101, 5, seed=1)
    distances, indices = (
        NearestNeighbors(n_neighbors=7, metric="cosine").fit(vectors).kneighbors(queries)
    )
    for numbers in (1, 500, 1 << 23):
        monkeypatch.setattr(inspected, "NUMBERS", numbers)
        got, similarities = nearest(queries, vectors, 7)
        assert (got == indices).all()
        np.testing.assert_allclose(similarities, 1 - distances, atol=1e-12)


def test_there_may_be_fewer_than_are_asked_for_or_none():
    indices, similarities = nearest(random(2, 3), random(4, 3), 9)
    assert indices.shape == similarities.shape == (2, 4)
    assert sorted(indices[0]) == [0, 1, 2, 3]
    assert nearest(random(0, 3), random(4, 3), 2)[0].shape == (0, 2)
    assert nearest(random(2, 3), np.zeros((0, 3)), 2)[0].shape == (2, 0)


def words(vectors) -> WordVectors:
    return WordVectors("w", [f"w{i}" for i in range(len(vectors))], vectors)


def test_analogy_by_hand():
    royal, male, female = np.eye(3)
    vectors = np.stack(
        [royal + male, male, female, royal + female, royal, -royal]
    )  # king man woman queen crown
    (best, how), *_ = words(vectors).analogy("w0 - w1 + w2")
    goal = (royal + male) / 2**0.5 - male + female
    assert best == "w3"
    assert how == pytest.approx(cosine_similarity(goal[None], vectors[[3]])[0, 0])
    assert len(words(vectors).analogy("w0 + w1 + w2 + w3", k=6)) == 2


def test_a_long_vector_does_not_decide_alone():
    vectors = random(30, 4)
    scaled = vectors * np.random.default_rng(2).uniform(0.01, 100, (30, 1))
    one, other = (words(some).analogy("w0 + w1 - w2", 5) for some in (vectors, scaled))
    assert [word for word, _ in one] == [word for word, _ in other]
    np.testing.assert_allclose([how for _, how in one], [how for _, how in other])


def test_expressions():
    assert parse(" king - man + woman ") == [(1, "king"), (-1, "man"), (1, "woman")]
    assert parse("- x-ray − b – c + +1") == [(-1, "x-ray"), (-1, "b"), (-1, "c"), (1, "+1")]
    assert parse("king") == [(1, "king")]
    for wrong in ("", "king -", "king man", "king - - man", "+ - a", "+"):
        with pytest.raises(DataError, match="write it as"):
            parse(wrong)


WORDS = WordVectors("w.txt", ["king", "man", "woman", "queen", "King"], np.eye(5, dtype=np.float32))


def test_a_word_that_is_not_there_is_named_with_what_is_like_it():
    with pytest.raises(
        DataError, match=r"'kind' is not among the 5 words of w.txt; did you mean 'king'\?"
    ):
        WORDS.find("kind")
    with pytest.raises(DataError, match=r"did you mean 'king'"):
        WORDS.analogy("KING - man")
    with pytest.raises(DataError, match="choose another word"):
        WORDS.find("zebra")
    with pytest.raises(DataError, match="cancel"):
        WORDS.analogy("king - king")
    assert WORDS.find("man")[1].tolist() == [0, 1, 0, 0, 0]


def test_the_querys_own_words_are_left_out():
    found = dict(WORDS.analogy("king + man - woman", 9))
    assert set(found) == {"queen", "King"}


GLOVE = "king 1 0.5 -2e-1\n. . 3 4 5\n\xa0 7 8 9\nking 0 0 0\n"


@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("gap", [" ", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_word2vec_and_glove_files(tmp_path, header, gap, end):
    file = tmp_path / "v.txt"
    file.write_bytes((header + GLOVE).replace(" ", gap).replace("\n", end).encode())
    texts, vectors = read_named(file)
    assert texts == ["king", ". .", "\xa0", "king"]
    np.testing.assert_array_equal(
        vectors, np.float32([[1, 0.5, -0.2], [3, 4, 5], [7, 8, 9], [0, 0, 0]])
    )
    assert read_words(file).words == ["king", ". .", "\xa0"]
    assert read_words(file).find("king")[1][0] == 1  # of a word that is there twice, the first


def test_json_lines(tmp_path):
    file = tmp_path / "v.jsonl"
    rows = [
        {"text": "a b", "vector": [1, 2.5]},
        {"text": "", "vector": None},
        {"text": "c", "vector": [0, -1e-8]},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    texts, vectors = read_named(file)
    assert texts == ["a b", "c"]
    np.testing.assert_array_equal(vectors, np.float32([[1, 2.5], [0, -1e-8]]))
    assert read_words(file).words == ["a b", "c"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a 1 2\nb 1\n", "line 2: 'b' has 1 number; give 2 that are finite"),
        ("a 1 2\nb 1 2 3\n", "line 2: 'b' has 3 numbers; give 2 that"),
        ("a 1 2\nb 1 x\n", "line 2: 'b 1 x' is not such as king"),
        ("a 1 2\n\nb 1 nan\n", "line 3: 'b' has 2 numbers; give 2 that are finite in float32"),
        ("a 1 2\nb 1 inf\n", "line 2: 'b' has 2 numbers; give 2 that are finite"),
        ("a 1 2\nb 1 1e39\n", "line 2: .* finite in float32"),
        ("a\n", "line 1: 'a' has 0 numbers; give some"),
        ("", "has no word with a vector"),
        ("2 3\n", "has no word with a vector"),
        (b"a 1\nb\xff 2\n", r"line 2: it is not UTF-8 \(byte 0xff at offset 1\)"),
    ],
)
def test_a_bad_file_of_words_is_refused_with_its_line(tmp_path, content, sentence):
    file = tmp_path / "v.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=sentence) as caught:
        read_words(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    "line",
    [
        *(
            "[1]",
            "7",
            "{",
            "[" * 9999,
            '{"text": "a"}',
            '{"vector": [1]}',
            '{"text": 1, "vector": [1]}',
        ),
        *(
            '{"text": "a", "vector": []}',
            '{"text": "a", "vector": ["1"]}',
            '{"text": "a", "vector": [true]}',
        ),
        *('{"text": "a", "vector": 3}', f'{{"text": "a", "vector": [1{"0" * 400}]}}'),
    ],
)
def test_a_bad_json_line_is_refused_with_its_number(tmp_path, line):
    file = tmp_path / "v.jsonl"
    file.write_text('{"text": "a", "vector": [1]}\n' + line)
    with pytest.raises(
        DataError, match=r"line 2: (.* is not such as|'a' has .* finite in float32)"
    ):
        read_named(file)


def test_arrays(tmp_path):
    file = tmp_path / "v.npy"
    np.save(file, np.array([[1, 2], [3, 4]], np.float64))
    assert read_array(file).dtype == np.float32
    assert read_array(file).tolist() == [[1, 2], [3, 4]]
    np.save(file, np.array([[1, 2], [3, np.nan]]))
    with pytest.raises(DataError, match="table of finite numbers"):
        read_array(file)
    np.save(file, np.zeros(3))
    with pytest.raises(DataError, match="table of finite numbers"):
        read_array(file)
    for wrong in (np.array([["a"]]), np.zeros((1, 1), complex)):
        np.save(file, wrong)
        with pytest.raises(DataError, match="table of finite numbers"):
            read_array(file)
    np.save(file, np.array([[object()]]), allow_pickle=True)
    with pytest.raises(DataError, match=r"is not a whole \.npy file"):
        read_array(file)
    file.write_bytes(b"no array")
    with pytest.raises(DataError, match=r"is not a whole \.npy file"):
        read_array(file)
    with pytest.raises(DataError, match="cannot read"):
        read_array(tmp_path / "none.npy")
    with pytest.raises(DataError, match="cannot read"):
        read_words(tmp_path / "none.txt")
