"""Cross-attention as a result: the softmax of q and k, summed over words, and the alignment that
follows from it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.inspect.alignment import CrossAttention, cross_attention, pharaoh
from glassformer.layers.tap import Tape, recording
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.processors.tokens.word_spans import (
    NUMBERS_AND_NAMES,
    WORD,
    Side,
    token_words,
    word_spans,
)
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

TEXTS = [
    "Die Größe der Häuser ist\twichtig, sagt  der Mann. 日本語 🙂👍🏽",
    "the size of the houses matters, the man says",
] * 3
KINDS = ("byte", "character", "bpe", "word")
HARD = " Die Größe\tder   Häuser, 日本語🙂 neu\n👍🏽e\u0301 "


@cache
def tokenizer(kind: str) -> Tokenizer:
    changes = {"vocab_size": 300, "min_frequency": 1} if kind == "bpe" else {}
    return train_tokenizer(TokenizerConfig.parse({"kind": kind, **changes}), TEXTS)


def owners_of(tokens, text, prefix="", word=WORD):
    return token_words(tokens, text, word_spans(text, word), prefix)


def looked(
    kind="bpe", source="Die Größe der Häuser", target="the size of the houses", prefix="", **changes
):
    pair = PairTokenizer(tokenizer(kind), tokenizer(kind), prefix)
    size = pair.source.vocab_size
    model = tiny.model(
        architecture="encoder_decoder", vocab_size=size, n_layers=3, max_length=96, **changes
    )
    return cross_attention(model, pair, source, target), model, pair


def hand_made(
    patterns, source=("a", "b"), target=("x", "y"), source_of=(0, 1, None), target_of=(0, 1, None)
):
    sides = [
        Side(
            " ".join(words), tuple(f"t{i}" for i in range(len(owners))), tuple(words), tuple(owners)
        )
        for words, owners in ((source, source_of), (target, target_of))
    ]
    return CrossAttention(*sides, torch.as_tensor(patterns, dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["", "de en: "])
def test_rows_are_distributions_over_the_source(kind, prefix):
    look, model, pair = looked(kind, prefix=prefix)
    read, written = pair.source_ids(look.source.text), pair.target_ids(look.target.text)
    assert look.patterns.shape == (3, model.config.n_heads, len(written), len(read))
    torch.testing.assert_close(
        look.patterns.sum(-1), torch.ones(look.patterns.shape[:3], dtype=torch.float64)
    )
    assert look.patterns.min() >= 0
    assert (len(look.source.pieces), len(look.target.pieces)) == (len(read), len(written))
    assert look.source.pieces[-1] == look.target.pieces[-1] == "<eos>"
    assert look.source.word_of[-1] is look.target.word_of[-1] is None
    assert not look.patterns.is_inference()


@pytest.mark.parametrize(
    "changes", [{}, {"norm_placement": "post"}, {"n_kv_heads": 2}, {"scale": "none"}]
)
def test_the_pattern_is_the_softmax_of_queries_and_keys(changes):
    look, model, pair = looked(**changes)
    read, written = pair.source_ids(look.source.text), pair.target_ids(look.target.text)
    given = np.append(pair.bos, written[:-1])  # row t predicts target token t
    tape = Tape(model, keep=("decoder.blocks.*.cross.q", "decoder.blocks.*.cross.k"))
    with torch.no_grad(), recording(tape):
        model(Batch(torch.tensor(given)[None], source=Batch(torch.tensor(read)[None])))
    for layer in range(3):
        q, k = (tape.kept[f"decoder.blocks.{layer}.cross.{name}"][0].numpy() for name in "qk")
        for head in range(len(q)):
            group = head // (len(q) // len(k))
            scores = (
                q[head]
                @ k[group].T
                * (1.0 if changes.get("scale") == "none" else q.shape[-1] ** -0.5)
            )
            expected = np.exp(scores - scores.max(1, keepdims=True))
            expected /= expected.sum(1, keepdims=True)
            np.testing.assert_allclose(
                look.patterns[layer, head].numpy(), expected, rtol=1e-10, atol=1e-12
            )


def test_each_row_belongs_to_the_prediction_of_its_token():
    whole, _, _ = looked(target="the size of the houses")
    part, _, pair = looked(target="the size of")
    rows = len(
        pair.target_ids("the size of")
    )  # the last row predicts <eos> here and the next word there
    torch.testing.assert_close(whole.patterns[:, :, :rows], part.patterns, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_sums_over_source_tokens_and_means_over_target_tokens(kind):
    look, model, _ = looked(
        kind, source=" Die Größe\tder  Häuser", target="the size, matters", prefix="x: "
    )
    for layers, heads in ((None, None), ([0, 2], [1]), ([1], [0, 3])):
        table = look.words(layers, heads)
        assert table.shape == (3, 4)
        for t, s in np.ndindex(3, 4):
            total, count = 0.0, 0
            for layer in [1] if layers is None else layers:
                for head in range(model.config.n_heads) if heads is None else heads:
                    for i in look.target.tokens(t):
                        count += 1
                        total += sum(
                            look.patterns[layer, head, i, j].item() for j in look.source.tokens(s)
                        )
            assert table[t, s].item() == pytest.approx(total / count, abs=1e-12)
        assert (table.sum(1) < 1).all()  # <eos>, spaces and the prefix got some of it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["", "de: ", "de:\t ü "])
def test_tokens_find_their_words(kind, prefix):
    pair = PairTokenizer(tokenizer(kind), tokenizer(kind), prefix)
    owners, words = owners_of(pair.source, HARD, prefix), HARD.split()
    ids = pair.source.encode(prefix + HARD).tolist()
    assert len(owners) == len(ids)
    assert [word for word in dict.fromkeys(owners) if word is not None] == list(range(len(words)))
    known = [word for word in owners if word is not None]
    assert known == sorted(known)
    for number, word in enumerate(words):
        own = [index for index, owner in zip(ids, owners, strict=True) if owner == number]
        if kind == "word":
            assert own == pair.source.encode(word).tolist()
        elif kind == "character":
            assert len(own) == len(word)
        else:
            assert (
                b"".join(pair.source.token_bytes(index) for index in own).strip() == word.encode()
            )
    if kind != "word":
        assert None in owners  # spaces, the prefix


def test_a_word_that_begins_in_the_prefix_begins_behind_it():
    for kind in KINDS:
        owners = owners_of(tokenizer(kind), "houses matters", "the,")
        assert set(owners) == {None, 0, 1}
    assert owners_of(tokenizer("word"), "houses", "the") == [0]  # <unk>, mostly of the word
    assert owners_of(tokenizer("byte"), "b c", "a") == [None, 0, None, 1]


def test_a_token_over_two_words_belongs_to_the_larger_part():
    # a byte-level vocabulary that merges across spaces, as no tokenizer made here does
    from glassformer.tokenizers.decoding import ALPHABET
    from glassformer.tokenizers.definition import bpe_definition

    space = ALPHABET[ord(" ")]
    definition = bpe_definition([("a", space), (f"a{space}", "b"), (f"a{space}b", "c")])
    definition["pre_tokenizer"] = definition["pre_tokenizer"] | {"use_regex": False}
    across = Tokenizer(definition)
    assert [across.piece(int(index)) for index in across.encode("a bc d")] == ["a bc", " ", "d"]
    assert owners_of(across, "a bc d") == [1, None, 2]
    assert owners_of(across, "a bx") == [0, 1]
    assert owners_of(across, "a b") == [0]  # undecided: the first


def test_texts_without_words():
    for kind in KINDS:
        for text in ("", "  \t\n"):
            assert not [word for word in owners_of(tokenizer(kind), text) if word is not None]
            for source, target in ((text, "the man"), ("der Mann", text), (text, text)):
                look, *_ = looked(kind, source=source, target=target)
                assert look.align() == []
                assert look.words().shape == (len(target.split()), len(source.split()))
    assert pharaoh([]) == ""


def test_the_alignment_of_a_pattern_made_by_hand():
    first = [
        [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]],
        [[0.1, 0.8, 0.1], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]],
    ]
    other = [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]] * 2
    look = hand_made([first, other])
    assert look.best_layer == 0  # the layer before the last
    assert look.align() == look.align([0], [0, 1]) == [(0, 1), (1, 0)]  # means .4 .5 and .5 .35
    assert look.align(heads=[0]) == [(0, 0), (1, 1)]
    assert look.align(layers=[1]) == [(0, 1), (1, 0)]
    assert pharaoh(look.align(heads=[0])) == "0-0 1-1"
    assert hand_made([first]).best_layer == 0
    assert hand_made([first, first, other, other]).best_layer == 2


def test_one_source_word_may_have_many_tokens_and_many_target_words():
    rows = [[0.3, 0.3, 0.4], [0.25, 0.25, 0.5], [0.0, 0.1, 0.9]]
    look = hand_made(
        [[rows]],
        source=("a", "b"),
        target=("x", "y", "z"),
        source_of=(0, 0, 1),
        target_of=(0, 1, 2),
    )
    torch.testing.assert_close(look.words()[0], torch.tensor([0.6, 0.4], dtype=torch.float64))
    assert look.align() == [(0, 0), (0, 1), (1, 2)]  # undecided: the first
    assert pharaoh(look.align()) == "0-0 0-1 1-2"
    nothing = hand_made(
        [[[[0.0, 0.0, 1.0]] * 3]], source_of=(0, 1, None), target_of=(0, None, None)
    )
    assert nothing.align() == []  # x looked at no word, y has no token


@pytest.mark.parametrize(
    ("layers", "heads", "sentence"),
    [
        ([3], None, "no layer 3 in this model; its layers are 0 to 2"),
        ([-1], None, "no layer -1 in this model; its layers are 0 to 2"),
        (None, [0, 4], "no head 4 in this model; its heads are 0 to 3"),
    ],
)
def test_a_wrong_choice_names_the_range(layers, heads, sentence):
    look, *_ = looked()
    for method in (look.words, look.align):
        with pytest.raises(ConfigError, match=sentence):
            method(layers, heads)


def test_two_vocabularies():
    source, target = tokenizer("word"), tokenizer("byte")
    model = tiny.model(
        architecture="encoder_decoder",
        vocab_size=target.vocab_size,
        source_vocab_size=source.vocab_size,
        max_length=96,
        tied=False,
    )
    look = cross_attention(model, PairTokenizer(source, target), "der Mann", "the man")
    assert look.patterns.shape[2:] == (len("the man") + 1, 3)
    assert look.words().shape == (2, 2)


def test_the_model_is_left_as_it_was():
    look, model, pair = looked(dropout=0.5)
    model.train()
    again = cross_attention(model, pair, look.source.text, look.target.text)
    assert model.training
    model.eval()
    assert torch.equal(look.patterns, again.patterns)


def test_bad_input_is_refused():
    _, model, pair = looked()
    decoder = tiny.model(vocab_size=pair.source.vocab_size)
    with pytest.raises(
        ConfigError, match=r"model\.architecture=decoder has none; give an encoder_decoder"
    ):
        cross_attention(decoder, pair, "a", "b")
    with pytest.raises(DataError, match="unpaired surrogate"):
        cross_attention(model, pair, "\ud800", "b")
    learned = tiny.model(
        architecture="encoder_decoder",
        vocab_size=pair.source.vocab_size,
        position="learned",
        max_length=4,
    )
    with pytest.raises(ConfigError, match="max_length"):
        cross_attention(learned, pair, "a b c d e f", "b")


def test_a_tokenizer_that_reads_across_spaces_without_spelling_the_text_tells_its_words():
    from glassformer.tokenizers.definition import word_definition

    definition = word_definition(["a b", "c"], lowercase=False)
    definition["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"String": ";"},
        "behavior": "Removed",
        "invert": False,
    }
    odd = Tokenizer(definition)
    assert owners_of(odd, "a b;c") == [0, 1]  # "a b" touches both, and holds as much of the first


@pytest.mark.parametrize("kind", ["byte", "character", "bpe"])
def test_words_may_be_something_else(kind):
    text = "sün 4. मार्च, 2007年3月"
    words = [text[begin:end] for begin, end in word_spans(text, NUMBERS_AND_NAMES)]
    assert words == ["sün", "4", "मार्च", "2007", "年", "3", "月"]
    assert set(owners_of(tokenizer(kind), text, "x ", NUMBERS_AND_NAMES)) == {
        None,
        0,
        1,
        2,
        3,
        4,
        5,
        6,
    }
    look, *_ = looked(kind, source=text, target="2007-03-04")
    assert look.words().shape == (1, 4)
    pair = PairTokenizer(tokenizer(kind), tokenizer(kind))
    model = tiny.model(
        architecture="encoder_decoder", vocab_size=pair.source.vocab_size, max_length=96
    )
    look = cross_attention(model, pair, text, "2007-03-04", word=NUMBERS_AND_NAMES)
    assert look.words().shape == (3, 7)
    assert look.target.words == ("2007", "03", "04")


def test_a_word_tokenizer_follows_other_words_too():
    assert owners_of(tokenizer("word"), "Häuser, (Mann).", word=r"\w+") == [
        0,
        None,
        None,
        1,
        None,
        None,
    ]
    assert word_spans("ab", "x*") == []  # nothing is no word
    with pytest.raises(
        ConfigError,
        match=r"word is '\(', which is no regular expression: .*; give one, for instance",
    ):
        word_spans("a", "(")


def test_points_are_where_they_are_looked_for():
    look, model, _ = looked()
    changed = replace(look, patterns=look.patterns.flip(0))
    assert changed.align([0]) == look.align([2])
    assert len(look.patterns) == model.config.n_layers
