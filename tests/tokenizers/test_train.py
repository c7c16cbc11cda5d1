"""Making tokenizers: vocabularies, limits, refusals, determinism; and the report."""

import json
import time

import pytest
from pydantic import ValidationError

from glassformer.core.errors import ConfigError, DataError
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.report import report
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer


def pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]


def test_characters_are_ordered_by_code_point():
    tokenizer = train_tokenizer(TokenizerConfig(kind="character"), ["cab", "aé"])
    assert pieces(tokenizer) == ["a", "b", "c", "é", "<unk>", "<pad>", "<bos>", "<eos>", "<mask>"]


def test_a_limited_character_vocabulary_keeps_the_most_frequent():
    config = TokenizerConfig(kind="character", vocab_size=7)
    assert pieces(train_tokenizer(config, ["abbccc"]))[:2] == ["b", "c"]
    config = TokenizerConfig(kind="character", min_frequency=2)
    assert pieces(train_tokenizer(config, ["abbccc"]))[:3] == ["b", "c", "<unk>"]


def test_words_are_ordered_by_frequency_and_limited():
    config = TokenizerConfig(kind="word", vocab_size=7)
    tokenizer = train_tokenizer(config, ["b a, b a b, zebra"])
    assert pieces(tokenizer)[:3] == ["b", ",", "<unk>"]
    assert tokenizer.vocab_size == 7
    rare = train_tokenizer(TokenizerConfig(kind="word", min_frequency=3), ["b a, b a b"])
    assert pieces(rare)[:2] == ["b", "<unk>"]


def test_bpe_merges_what_is_frequent_within_its_size():
    tokenizer = train_tokenizer(TokenizerConfig(kind="bpe", vocab_size=262), ["aab\naab\naab aab"])
    assert tokenizer.vocab_size == 262
    assert [tokenizer.token_bytes(i) for i in (256, 257)] == [b"aa", b"aab"]
    assert (
        train_tokenizer(TokenizerConfig(kind="bpe"), ["xy"]).vocab_size == 260
    )  # a pair seen once is not merged


def test_bpe_reads_no_more_than_its_sample():
    def texts():
        yield "abab " * 10
        yield "cdcd " * 10
        pytest.fail("read beyond the sample")

    tokenizer = train_tokenizer(TokenizerConfig(kind="bpe", sample_bytes=60), texts())
    assert b"ab" in map(tokenizer.token_bytes, range(tokenizer.vocab_size))
    assert b"cd" in map(tokenizer.token_bytes, range(tokenizer.vocab_size))


def test_training_twice_gives_the_same():
    config = TokenizerConfig(kind="bpe", vocab_size=400)
    texts = ["the theatre then and there " * 50, "other words of another kind " * 50]
    first = train_tokenizer(config, texts)
    assert first.fingerprint == train_tokenizer(config, texts).fingerprint


def test_a_path_is_loaded_instead_of_training(tmp_path):
    made = train_tokenizer(TokenizerConfig(kind="character"), ["abc"])
    made.save(tmp_path / "tokenizer.json")
    again = train_tokenizer(TokenizerConfig(kind="bpe", path=str(tmp_path)), ["never read"])
    assert again.fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"kind": "bpe", "vocab_size": 100},
            "tokenizer.vocab_size is 100, but kind bpe needs at least 260",
        ),
        ({"kind": "word", "vocab_size": 5}, "kind word needs at least 6"),
        ({"kind": "byte", "vocab_size": 100}, "kind byte always has 260"),
        ({"kind": "bpe", "specials": ["<eos>"]}, "empty, repeated or built-in"),
        (
            {"kind": "character", "specials": ["a"]},
            "'a' is also an ordinary token; write it like '<a>'",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        train_tokenizer(TokenizerConfig.model_validate(settings), ["abc abc"])


@pytest.mark.parametrize("kind", ["character", "word"])
def test_no_text_is_refused(kind):
    with pytest.raises(DataError, match="no text to make a tokenizer from"):
        train_tokenizer(TokenizerConfig(kind=kind), [""])


def test_unknown_and_out_of_range_fields_are_refused():
    for bad in ({"kind": "bytes"}, {"vocab_size": 0}, {"vocabsize": 3}, {"min_frequency": 0}):
        with pytest.raises(ValidationError):
            TokenizerConfig.model_validate(bad)
    assert all(field.description for field in TokenizerConfig.model_fields.values())


@pytest.mark.parametrize("kind", ["byte", "character"])
def test_a_megabyte_is_encoded_in_an_instant(kind):
    text = "the theatre then — Straße 你好\n" * 32_000
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind), [text[:100]])
    tokenizer.encode("a")
    start = time.process_time()
    tokenizer.encode(text)
    assert time.process_time() - start < 0.1


def test_report():
    tokenizer = train_tokenizer(TokenizerConfig(kind="character"), ["abc "])
    result = report(tokenizer, "aab é")
    assert result["tokens"] == result["characters"] == 5
    assert result["bytes"] == 6
    assert result["tokens_per_byte"] == 5 / 6
    assert result["bytes_per_token"] == 6 / 5
    assert result["unknowns"] == 1
    assert result["round_trip"] is False
    assert result["vocabulary_used"] == 4 / 9
    assert result["most_frequent"][0] == {"piece": "a", "id": 1, "count": 2}
    assert result["longest"][0]["bytes"] == 1
    assert json.loads(json.dumps(result)) == result
    assert report(tokenizer, "abc")["round_trip"] is True
    assert report(tokenizer, "")["tokens_per_byte"] == 0
