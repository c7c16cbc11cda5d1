"""Streaming: pieces join to the whole decode and never end inside a character."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenizers
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.stream import StreamDecoder
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from tokenizers import decoders

TEXT = "the theatre then — Straße 你好 😀 isn't " * 10
TOKENIZERS = [
    train_tokenizer(TokenizerConfig(kind="byte"), [TEXT]),
    train_tokenizer(TokenizerConfig(kind="character"), [TEXT]),
    train_tokenizer(TokenizerConfig(kind="word"), [TEXT]),
    train_tokenizer(TokenizerConfig(kind="bpe", vocab_size=300), [TEXT]),
]


def streamed(tokenizer, ids, skip):
    decoder = StreamDecoder(tokenizer, skip)
    return [*(decoder.push(index) for index in ids), decoder.flush()]


@given(data=st.data(), skip=st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_ids_stream_to_their_decode(data, skip):
    tokenizer = data.draw(st.sampled_from(TOKENIZERS))
    high = st.integers(0x80, 0xFF) if tokenizer.kind in ("byte", "bpe") else st.nothing()
    ids = data.draw(st.lists(high | st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    assert "".join(streamed(tokenizer, ids, skip)) == tokenizer.decode(ids, skip)


@given(text=st.text(alphabet="aé你😀\ufffd", max_size=30))
def test_bytes_of_real_text_are_given_as_whole_characters(text):
    tokenizer = TOKENIZERS[0]
    pieces = streamed(tokenizer, tokenizer.encode(text).tolist(), True)
    assert "".join(pieces) == text
    assert [p for p in pieces if p] == list(text)
    assert pieces[-1] == ""


def test_an_incomplete_character_is_held_back_until_flush():
    decoder = StreamDecoder(TOKENIZERS[0])
    assert [decoder.push(b) for b in "😀".encode()[:3]] == ["", "", ""]
    assert decoder.flush() == "\ufffd"


SPACES = decoders.Replace("▁", " ")
BYTES, FUSE = decoders.ByteFallback(), decoders.Fuse()
DECODERS = {
    "metaspace": decoders.Metaspace(),
    "metaspace-first": decoders.Metaspace(prepend_scheme="first"),
    "metaspace-never": decoders.Metaspace(prepend_scheme="never"),
    "bytes-metaspace": decoders.Sequence([BYTES, decoders.Metaspace()]),
    "llama": decoders.Sequence([SPACES, BYTES, FUSE, decoders.Strip(" ", 1, 0)]),
    "gemma": decoders.Sequence([SPACES, BYTES, FUSE]),
    "no-bytes": decoders.Sequence([SPACES, FUSE, decoders.Strip(" ", 2, 0)]),
    "other-mark": decoders.Metaspace(replacement="_"),
    "wordpiece": decoders.WordPiece(prefix="b"),
    "bpe": decoders.BPEDecoder(),
    "none": None,
}
PIECES = ["▁", "▁a", "b▁c", "▁▁", "x", "<0x41>", "<s>", "n't", "."]


@pytest.mark.parametrize("name", DECODERS)
@given(ids=st.lists(st.integers(0, len(PIECES) - 1), max_size=40), skip=st.booleans())
def test_the_decoders_of_others_decode_as_in_their_library_and_stream(name, ids, skip):
    vocab = {piece: index for index, piece in enumerate(PIECES)}
    other = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    other.add_special_tokens(["<s>"])
    if DECODERS[name] is not None:
        other.decoder = DECODERS[name]
    tokenizer = Tokenizer(json.loads(other.to_str()))
    assert tokenizer.decode(ids, skip) == other.decode(ids, skip_special_tokens=skip)
    assert "".join(streamed(tokenizer, ids, skip)) == tokenizer.decode(ids, skip)


@given(st.integers(0, 70), st.sampled_from(["", "x"]))
def test_a_long_run_of_named_bytes_streams_as_it_is_decoded(n, after):
    vocab = {f"<0x{b:02X}>": b for b in range(256)} | {"x": 256}
    other = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [], byte_fallback=True))
    other.decoder = DECODERS["gemma"]
    tokenizer = Tokenizer(json.loads(other.to_str()))
    ids = [*("你" * n).encode(), *([256] if after else [])]
    pieces = streamed(tokenizer, ids, True)
    assert "".join(pieces) == other.decode(ids) == "你" * n + after
    assert max(map(len, pieces)) <= 1  # nothing is held back for long


def test_a_tokenizer_of_others_streams_too(tmp_path):
    vocab = {f"<0x{b:02X}>": b for b in range(256)} | {
        "▁the": 256,
        "▁": 257,
        "a": 258,
        "<unk>": 259,
    }
    other = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    other.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    other.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.kind == "library"
    ids = [256, 257, *"😀é".encode(), 258, *"你".encode(), 256] * 20
    pieces = streamed(tokenizer, ids, True)
    assert "".join(pieces).startswith("the 😀éa你 the the 😀éa你 the")
    assert "".join(pieces) == tokenizer.decode(ids)
    assert "\ufffd" not in "".join(pieces)
    assert tokenizer.token_bytes(0xE4) == b"\xe4"
    assert tokenizer.token_bytes(256) == b" the"
