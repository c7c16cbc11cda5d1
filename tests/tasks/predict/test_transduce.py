"""Text to text: batches and order change nothing, long texts come in pieces, and nothing is lost or
made up."""

import copy
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from every import slow_but
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.models import Transformer
from glassformer.native import Program, compiler
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode
from glassformer.tasks.predictors.likelihood import score
from glassformer.tasks.predictors.text import Text
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_writers import score_pairs, transduce

SOURCE, TARGET = (
    ["the dog sleeps, a cat sings the song\n" * 3],
    ["der hund schläft, eine katze singt das lied\n" * 3],
)
CONTEXT = 24


@cache
def tokenizer(kind: str = "character", prefix: str = "") -> PairTokenizer:
    config = TokenizerConfig.parse({"kind": kind})
    return PairTokenizer(train_tokenizer(config, SOURCE), train_tokenizer(config, TARGET), prefix)


@cache
def model(kind: str = "character") -> Transformer:
    sizes = {
        "vocab_size": tokenizer(kind).target.vocab_size,
        "source_vocab_size": tokenizer(kind).source.vocab_size,
    }
    config = tiny.config(
        architecture="encoder_decoder", max_length=CONTEXT, position="rotary", **sizes
    )
    return tiny.stir(Transformer(config).double(), 0.3).eval()


def how(**changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 10} | changes)


HOWS = [
    how(beams=3, n_best=2),
    how(beams=1),
    how(seed=3),
    how(temperature=0),
    how(beams=2, stop=["e", "t"]),
]
TEXTS = ["the dog", "a cat sings", "", "sleeps", "the song", "a", " \t", "the dog sleeps a", "dog"]


def assert_same(found, expected):
    assert [[(one.text, one.ids, one.finish) for one in ones] for ones in found] == [
        [(one.text, one.ids, one.finish) for one in ones] for ones in expected
    ]
    for ones, others in zip(found, expected, strict=True):
        for one, other in zip(ones, others, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-10)
            assert one.score == pytest.approx(other.score, abs=1e-10)


@pytest.mark.parametrize(
    "config", slow_but(HOWS, HOWS[2], HOWS[4]), ids=["beams", "one", "sampled", "greedy", "stop"]
)
@given(st.lists(st.sampled_from(TEXTS), max_size=7), st.integers(1, 4))
@settings(max_examples=4)
def test_each_text_comes_out_as_alone_in_its_place_whatever_the_batches(config, texts, batch_size):
    together = transduce(model(), tokenizer(), texts, config, batch_size)
    alone = [transduce(model(), tokenizer(), [text], config)[0] for text in texts]
    assert_same(together, alone)


@pytest.mark.parametrize("kind", ["character", "word", "byte"])
def test_the_hypotheses_are_those_of_the_search(kind):
    texts, pair, config = (
        ["the dog", "a cat sings"],
        tokenizer(kind),
        how(beams=4, n_best=3, length_penalty=0.5),
    )
    for text, ones in zip(texts, transduce(model(kind), pair, texts, config), strict=True):
        sources = [pair.source_ids(text)]
        expected = beam_search(model(kind), [[pair.bos]], config, (pair.eos,), sources)[0]
        assert len(ones) == 3
        for one, other in zip(ones, expected, strict=True):
            assert (one.ids, one.text) == (other.ids, pair.target.decode(other.ids))
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-10)
            assert one.score == pytest.approx(other.score, abs=1e-10)
            assert one.finish == ("end" if other.finished else "length")


@pytest.mark.parametrize(
    "changes", [{"seed": 5}, {"temperature": 0}, {"temperature": 2, "top_k": 3}]
)
def test_without_beams_the_tokens_are_those_of_decoding(changes):
    pair, config = tokenizer(), how(**changes)
    sources = [pair.source_ids("the dog")]
    steps = list(decode(model(), [[pair.bos]], config, (pair.eos,), sources))
    (one,) = transduce(model(), pair, ["the dog"], config)[0]
    assert one.ids == [step.ids[0] for step in steps]
    assert one.log_probs == pytest.approx([step.log_probs[0] for step in steps], abs=1e-10)
    assert one.score == pytest.approx(sum(one.log_probs) / len(one.ids))
    assert one.finish == ("end" if one.ids[-1] == pair.eos else "length")


@pytest.fixture
def compiled_model(monkeypatch):
    """In float32 with a compiled step, searched in two threads."""
    if compiler() is None:
        pytest.skip("no C compiler")
    quick = copy.deepcopy(model()).float()
    quick.compiled_step = Program(quick)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield quick
    torch.set_num_threads(before)


def test_fewer_texts_than_threads(compiled_model):
    for texts in ([], TEXTS[:1]):
        assert len(transduce(compiled_model, tokenizer(), texts, how(beams=3))) == len(texts)


@pytest.mark.parametrize(
    "batch_size", [3, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 32))]
)
def test_threads_change_nothing(compiled_model, batch_size):
    texts = [text + word for word in ("", " dog", " cat") for text in TEXTS]
    config = how(beams=3, n_best=2)
    found = transduce(compiled_model.train(), tokenizer(), texts, config, batch_size)
    assert compiled_model.training
    assert torch.get_num_threads() == 2
    expected = transduce(model(), tokenizer(), texts, config)
    for ones, others in zip(found, expected, strict=True):
        assert [(one.text, one.ids, one.finish) for one in ones] == [
            (one.text, one.ids, one.finish) for one in others
        ]
        scores = [one.score for one in others]  # float32 beside float64
        assert [one.score for one in ones] == pytest.approx(scores, abs=1e-4)


def test_what_fails_in_a_thread_is_said(compiled_model):
    with torch.no_grad():
        compiled_model.head.weight.fill_(torch.nan)
    compiled_model.compiled_step = Program(compiled_model)
    with pytest.raises(GlassformerError, match="not a number"):
        transduce(compiled_model, tokenizer(), TEXTS, how(beams=3))
    assert torch.get_num_threads() == 2


def test_texts_of_nothing_but_spaces_are_empty_and_no_model_runs(monkeypatch):
    monkeypatch.setattr(Transformer, "forward", None)
    monkeypatch.setattr(Transformer, "features", None)
    assert (
        transduce(model(), tokenizer(), ["", " \t\n", "\u3000"], how(beams=2))
        == [[Text(finish="end", score=0.0)]] * 3
    )
    assert transduce(model(), tokenizer(), [], how()) == []


def inclined(biases: dict[str, float], **changes) -> Transformer:
    """A model with a bias for each special symbol named."""
    pair = tokenizer()
    sizes = {"vocab_size": pair.target.vocab_size, "source_vocab_size": pair.source.vocab_size}
    config = tiny.config(
        architecture="encoder_decoder",
        position="none",
        head_bias=True,
        tied=False,
        **sizes,
        **changes,
    )
    built = tiny.stir(Transformer(config).double(), 0.3).eval()
    with torch.no_grad():
        for role, bias in biases.items():
            built.head.bias[pair.target.specials[role]] = bias
    return built


@pytest.mark.parametrize("choice", [{"beams": 2}, {"temperature": 0}])
def test_a_target_is_as_long_as_its_source_its_model_and_the_caller_allow(choice):
    """Twice the source's ids (<eos> among them) and 20 more: one runaway row does not hold the
    others."""
    lengths = lambda model, texts, most: [
        len(one.ids)
        for (one,) in transduce(model, tokenizer(), texts, how(max_new_tokens=most, **choice))
    ]
    roomy = inclined({"eos": -100.0}, max_length=40)
    assert lengths(roomy, ["a", "cat", "the dog"], 100) == [24, 28, 36]
    assert lengths(roomy, ["the dog sleeps", "cat"], 100) == [40, 28]
    assert lengths(roomy, ["cat", "a"], 9) == [9, 9]


def long(words: int) -> str:
    return " ".join(["the", "dog", "sings", "a", "song"][i % 5] for i in range(words))


def test_a_text_longer_than_the_context_is_refused_by_its_number():
    with pytest.raises(
        ConfigError, match=r"Line 12 has 35 tokens and the context 24.*--overflow window"
    ):
        transduce(model(), tokenizer(), ["a", "", long(8)], how(beams=2), first=10)


@pytest.mark.parametrize("choice", [{"beams": 2, "n_best": 2}, {"seed": 1}])
@pytest.mark.parametrize("words", [5, 8, 13, 30])
def test_with_a_window_a_long_text_is_the_pieces_of_whole_words_that_fit(choice, words):
    config, text, pair = how(overflow="window", **choice), long(words), tokenizer()
    read = []

    def seen(text: str):
        read.append(text)
        return PairTokenizer.source_ids(pair, text)

    spy = PairTokenizer(pair.source, pair.target)
    object.__setattr__(spy, "source_ids", seen)
    whole = transduce(model(), spy, ["dog", text], config)[1]
    pieces = [piece for piece in read[1:] if len(pair.source_ids(piece)) <= CONTEXT]
    assert " ".join(pieces) == text
    parts = [transduce(model(), pair, [piece], config)[0] for piece in pieces]
    for i, one in enumerate(whole):
        assert one.text == " ".join(part[i].text for part in parts)
        assert one.ids == [token for part in parts for token in part[i].ids]
        assert one.log_probs == pytest.approx(
            [p for part in parts for p in part[i].log_probs], abs=1e-10
        )
        assert one.score == pytest.approx(sum(one.log_probs) / len(one.log_probs))
        assert one.finish == ("end" if all(part[i].finish == "end" for part in parts) else "length")


def test_a_word_that_does_not_fit_is_cut_and_a_prefix_that_does_not_is_said():
    config = how(overflow="window", beams=1)
    (one,) = transduce(model(), tokenizer(), ["d" * 50], config)[0]
    halves = [
        transduce(model(), tokenizer(), ["d" * n], config)[0][0].ids for n in (12, 13, 12, 13)
    ]
    assert one.ids == [token for ids in halves for token in ids]
    with pytest.raises(ConfigError, match="Line 1 holds 't', of which one character has 32 tokens"):
        transduce(model(), tokenizer(prefix="d" * 30), ["the"], config)


def test_a_prefix_is_part_of_what_is_read():
    prefixed = transduce(model(), tokenizer(prefix="the "), ["dog"], how(beams=2))
    assert_same(prefixed, transduce(model(), tokenizer(), ["the dog"], how(beams=2)))


@pytest.mark.parametrize("choice", [{"beams": 2}, {"seed": 1}])
def test_a_text_ends_before_its_first_stop_string(choice):
    (whole,) = transduce(model(), tokenizer(), ["the dog"], how(**choice))[0]
    assert len(whole.text) > 2
    stop = whole.text[1:3]
    (cut,) = transduce(model(), tokenizer(), ["the dog"], how(stop=["zz", stop], **choice))[0]
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert (cut.finish, cut.ids) == ("stop", whole.ids)


def test_pairs_are_scored_by_the_model_s_own_log_probabilities():
    pair, pairs = (
        tokenizer(),
        [("the dog", "der hund"), ("a", ""), ("", "eine katze singt"), ("a cat sings", "das")],
    )
    rows = score_pairs(model(), pair, pairs)
    for (source, target), row in zip(pairs, rows, strict=True):
        read = Batch.pad([pair.source_ids(source)])
        expected = score(model(), pair.target_ids(target).tolist(), read, [pair.bos])
        assert len(row) == len(target) + 1
        assert row == pytest.approx(expected, abs=1e-10)
    assert score_pairs(model(), pair, []) == []


def test_a_transduction_has_the_log_probabilities_of_the_pair():
    texts, pair = ["the dog", "a cat sings"], tokenizer()
    plain = inclined({"eos": 3.0, "unk": -100.0, "pad": -100.0, "bos": -100.0, "mask": -100.0})
    found = transduce(plain, pair, texts, how(beams=6, n_best=6))
    pairs = [
        (text, one)
        for text, ones in zip(texts, found, strict=True)
        for one in ones
        if one.finish == "end"
    ]
    assert len(pairs) > 3
    rows = score_pairs(plain, pair, [(text, one.text) for text, one in pairs])
    for (_, one), row in zip(pairs, rows, strict=True):
        assert row == pytest.approx(one.log_probs, abs=1e-10)


def test_a_pair_that_does_not_fit_is_said():
    with pytest.raises(
        ConfigError, match="Pair 2 has 2 source and 31 target tokens and the context 24"
    ):
        score_pairs(model(), tokenizer(), [("a", "das"), ("a", "d" * 30)])
    with pytest.raises(ConfigError, match="Pair 1 has 31 source and 2 target tokens"):
        score_pairs(model(), tokenizer(), [("d" * 30, "d")])
