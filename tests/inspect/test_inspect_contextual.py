"""One word in several sentences: found whole, static alike, its vectors those of the stream; the
map."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.inspect.contextual import Contexts, Occurrence, contexts, find
from glassformer.inspect.vectors import unit
from glassformer.inspect.wordvectors import model_words
from glassformer.layers.tap import Tape, recording
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tasks.predict.embed import embed
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_tasks import reader_of

SENTENCES = [
    "I put money in the bank.",
    "we sat by the bank of the river",
    "the bank, a bank! banking",
]
KINDS = ("byte", "character", "bpe", "word")


@cache
def tokenizer(kind="character", **changes):
    sizes = {"vocab_size": 300, "min_frequency": 1} if kind == "bpe" else {}
    return train_tokenizer(
        TokenizerConfig.parse({"kind": kind, **sizes, **changes}), [*SENTENCES, "Bank"] * 5
    )


def built(kind="character", architecture="encoder", head="none", **changes):
    tokens = tokenizer(kind)
    model = tiny.model(
        **{
            "architecture": architecture,
            "head": head,
            "max_length": 64,
            "vocab_size": tokens.vocab_size,
        }
        | changes
    )
    return model, reader_of(model.config, tokens, "x: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "trunk",
    [("encoder", "none"), ("encoder", "tag"), ("decoder", "lm"), ("encoder_decoder", "lm")],
    ids=["encoder", "tagger", "decoder", "encoder-decoder"],
)
def test_static_is_the_same_everywhere_and_contexts_are_not(kind, trunk):
    model, reader = built(kind, *trunk, **({"n_classes": 2} if trunk[1] == "tag" else {}))
    look = contexts(model, reader, "bank", SENTENCES)
    assert [(one.line, one.begin, one.end) for one in look.occurrences] == [
        (1, 19, 23),
        (2, 14, 18),
        (3, 4, 8),
        (3, 12, 16),
    ]
    assert {"".join(one.pieces).strip() for one in look.occurrences} == {"bank"}
    np.testing.assert_allclose(look.similarities[0], 1, atol=1e-9)
    assert look.similarities[-1].min() < 0.999
    assert look.causal == (trunk[0] == "decoder")
    for table in look.similarities:
        np.testing.assert_allclose(table, table.T, atol=1e-12)
        np.testing.assert_allclose(np.diag(table), 1, atol=1e-12)


def test_vectors_are_means_of_the_stream_at_the_words_characters():
    model, reader = built()
    look = contexts(model, reader, "bank", SENTENCES)
    for one, vectors in zip(look.occurrences, look.vectors.swapaxes(0, 1), strict=True):
        tape = Tape(model, keep=("embed.elements", "encoder.blocks.*.resid_post"))
        ids = torch.from_numpy(reader.framed(reader.ids(one.text)).astype(np.int64))
        with torch.no_grad(), recording(tape):
            model(Batch(ids[None]))
        points = ["embed.elements", "encoder.blocks.0.resid_post", "encoder.blocks.1.resid_post"]
        wanted = np.stack(
            [tape.kept[point][0, 1 + one.begin : 1 + one.end].mean(0) for point in points]
        )  # behind <bos>
        np.testing.assert_allclose(vectors, wanted, rtol=1e-5, atol=1e-6)


def test_in_a_decoder_only_what_stands_before_changes_a_word():
    model, reader = built(architecture="decoder", head="lm")
    alike = contexts(
        model, reader, "bank", ["the bank of the river", "the bank, in town", "a bank"]
    )
    np.testing.assert_allclose(alike.similarities[:, 0, 1], 1, atol=1e-9)
    assert alike.similarities[-1, 0, 2] < 0.999
    both = contexts(*built(), "bank", ["the bank of the river", "the bank, in town"])
    assert both.similarities[-1, 0, 1] < 0.999


def test_a_word_alone_is_the_embedding_of_that_text():
    model, reader = built(architecture="decoder", head="lm")
    look = contexts(model, reader, "bank", ["bank", "bank\n", "the bank"])
    for layer in range(3):
        (wanted,) = embed(model, reader, ["bank"], layer=layer, normalize=False)
        np.testing.assert_allclose(look.vectors[layer, 0], wanted, rtol=1e-5, atol=1e-6)


def test_a_sentence_longer_than_the_model_is_read_around_the_word():
    model, _ = built(position="none")
    begin, end = np.int32([1]), np.int32([2])
    narrow = TextReader(tokenizer(), 14, frame=Frame.of((1,), (2,)))
    text = "we sat by the bank of the river, the bank of it"
    look = contexts(model, narrow, "bank", [text])
    ids = narrow.ids(text)
    for place, at in enumerate((14, 37)):
        first = min(at + 2 - 6, len(ids) - 12)
        part = np.concatenate([begin, ids[first : first + 12], end]).astype(np.int64)
        tape = Tape(model, keep=("encoder.blocks.1.resid_post",))
        with torch.no_grad(), recording(tape):
            model(Batch(torch.from_numpy(part)[None]))
        word = slice(1 + at - first, 5 + at - first)
        assert part[word].tolist() == tokenizer().encode("bank").tolist()
        wanted = tape.kept["encoder.blocks.1.resid_post"][0, word].mean(0)
        np.testing.assert_allclose(look.vectors[-1, place], wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(
        DataError, match=r"Line 1: 'the bank of it' has 14 tokens and the model room for 12"
    ):
        contexts(model, narrow, "the bank of it", [text])


def test_what_is_missing_is_named():
    model, reader = built()
    with pytest.raises(DataError, match="Line 3 does not have the word 'bank', spelled"):
        contexts(model, reader, "bank", ["a bank", "", "Bank it"])
    with pytest.raises(
        DataError, match="Line 2 does not have the word 'bank', spelled like this; leave"
    ):
        contexts(model, reader, "bank", ["a bank", "zzz"])
    with pytest.raises(DataError, match="'bank' is in these lines 1 time, and it takes two"):
        contexts(model, reader, "bank", ["a bank", " "])
    with pytest.raises(DataError, match="in these lines 0 times"):
        contexts(model, reader, "bank", [])
    with pytest.raises(ConfigError, match="empty"):
        contexts(model, reader, " ", ["a"])


@pytest.mark.parametrize(
    ("text", "word", "places"),
    [
        ("bank banks embank bank", "bank", [0, 18]),
        ("bank's bank-note (bank)", "bank", [0, 7, 18]),
        ("bank_1 1bank bank2", "bank", []),
        ("die Bänke, Bänke", "Bänke", [4, 11]),
        ("河岸银行银行家", "银行", [2, 4]),
        ("हिन्दी ह हि", "ह", [7]),
        ("e\u0301t e", "e", [4]),
        ("C++ or C", "C++", [0]),
        ("aa aaa aa", "aa", [0, 7]),
        ("a b a b a", "a b", [0, 4]),
        ("", "a", []),
    ],
)
def test_words_are_found_whole(text, word, places):
    assert [begin for begin, _ in find(text, word)] == places
    assert all(text[begin:end] == word for begin, end in find(text, word))


@given(
    st.lists(st.sampled_from(["bank", "banks", "river", "a"]), max_size=12),
    st.sampled_from([" ", ", ", "\n", "—"]),
)
def test_as_often_as_it_was_written(words, gap):
    assert len(list(find(gap.join(words), "bank"))) == words.count("bank")


def look_at(vectors, causal=False, word="bank", text="the bank"):
    vectors = np.asarray(vectors, np.float32)
    at = text.index(word)
    one = [Occurrence(i + 1, text, at, at + len(word), (word,)) for i in range(vectors.shape[1])]
    return Contexts(word, tuple(one), vectors, causal)


@given(arrays(np.float32, (3, 5, 2), elements=st.floats(-10, 10, width=16)))
def test_where_there_are_two_dimensions_the_map_keeps_every_distance(vectors):
    vectors[0] = [1, 2]
    points, shares = look_at(vectors).maps()
    units = unit(vectors.astype(np.float64))
    for layer in range(3):
        for i, j in itertools.combinations(range(5), 2):
            wanted = np.linalg.norm(units[layer, i] - units[layer, j])
            assert np.linalg.norm(points[layer, i] - points[layer, j]) == pytest.approx(
                wanted, abs=1e-5
            )
    assert not points[0].any()
    np.testing.assert_allclose(shares, 1)


def test_the_map_is_the_two_principal_components_turned_as_the_next_layer_is():
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(1, 7, 9)).repeat(3, 0)
    vectors[1] = (
        vectors[0] @ np.linalg.qr(np.random.default_rng(1).normal(size=(9, 9)))[0]
    )  # turned, otherwise alike
    points, shares = look_at(vectors).maps()
    oracle = PCA(2).fit(unit(vectors[2]))
    np.testing.assert_allclose(
        np.abs(points[2]), np.abs(oracle.transform(unit(vectors[2]))), atol=1e-5
    )
    np.testing.assert_allclose(shares, oracle.explained_variance_ratio_.sum(), rtol=1e-5)
    np.testing.assert_allclose(points[0], points[2], atol=1e-5)
    np.testing.assert_allclose(points[1], points[2], atol=1e-5)


def test_layers_are_turned_so_that_dots_move_as_little_as_can_be():
    points, _ = look_at(np.random.default_rng(4).normal(size=(4, 6, 3))).maps()
    for layer in range(3):
        least = np.square(points[layer] - points[layer + 1]).sum()
        for angle in np.linspace(0, 2 * np.pi, 90):
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            for mirror in (1, -1):
                other = points[layer] @ turn * [1, mirror]
                assert least <= np.square(other - points[layer + 1]).sum() + 1e-9


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_the_words_of_a_model_are_its_rows(kind):
    model, reader = built(kind)
    rows = model.embed.element.weight.detach().numpy()
    words = model_words(model, reader.tokenizer, "run")
    assert len(set(words.words)) == len(words.words)
    for word, vector in zip(words.words, words.vectors, strict=True):
        (index,) = reader.tokenizer.encode(f" {word}")
        np.testing.assert_array_equal(vector, rows[index].astype(np.float32))
    assert "bank" in words.words
    assert "ank" not in words.words
    assert not any("<" in word for word in words.words)


def test_a_word_of_several_tokens_is_their_mean_and_an_unknown_one_is_none():
    model, reader = built("bpe")
    words = model_words(model, reader.tokenizer, "run")
    ids = reader.tokenizer.encode(" riverbank")
    assert len(ids) > 1
    rows = model.embed.element.weight.detach().numpy()
    np.testing.assert_allclose(words.find("riverbank")[1], rows[ids].mean(0), rtol=1e-6)
    model, reader = built("word")
    with pytest.raises(
        DataError, match=r"'banc' is not among the \d+ words of run; did you mean 'bank'"
    ):
        model_words(model, reader.tokenizer, "run").find("banc")


def test_lower_case_words_are_left_out_however_they_are_written():
    tokens = tokenizer("word", lowercase=True)
    model = tiny.model(architecture="encoder", head="none", vocab_size=tokens.vocab_size)
    words = model_words(model, tokens, "run")
    assert "bank" in words.words
    assert "bank" not in dict(words.analogy("BANK", len(words.words)))


def test_a_symbol_is_no_word_even_if_it_is_spelled_like_one():
    symbol = {
        "id": 1,
        "content": "unk",
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
    }
    model = {"type": "WordLevel", "vocab": {"king": 0, "unk": 1}, "unk_token": "unk"}
    before = {"type": "WhitespaceSplit"}
    tokens = Tokenizer(
        {"added_tokens": [symbol | {"normalized": False}], "pre_tokenizer": before, "model": model}
    )
    assert tokens.encode(" unk").tolist() == [1]
    assert model_words(tiny.model(vocab_size=2), tokens, "run").words == ["king"]


@pytest.mark.parametrize("kind", ["byte", "character"])
def test_letters_are_no_words(kind):
    model, reader = built(kind)
    with pytest.raises(
        ConfigError, match=rf"No token of run is a whole word .* kind {kind}\); give .* --vectors"
    ):
        model_words(model, reader.tokenizer, "run")


def test_an_encoder_decoder_has_the_words_of_its_source():
    model, reader = built(
        "word",
        "encoder_decoder",
        "lm",
        source_vocab_size=tokenizer("word").vocab_size,
        vocab_size=9,
    )
    words = model_words(model, reader.tokenizer, "run")
    rows = model.source_embed.element.weight.detach().numpy().astype(np.float32)
    assert all((rows == vector).all(1).any() for vector in words.vectors)
