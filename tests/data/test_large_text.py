"""A text of any size is read in pieces, with the tokens that it has as a whole."""

import io
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core import cuts, progress
from glassformer.core.errors import DataError
from glassformer.data.collate import evaluation_windows, windows
from glassformer.data.formats import documents, lines
from glassformer.data.formats.documents import read
from glassformer.data.sources import resolve
from glassformer.data.splits import parts, whole
from glassformer.data.tokens import TokenSplit, store_tokens, tokens_of, training_order
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_runs import data_config

TEXT = st.text(st.sampled_from("ab é你🙂.,'\"!3 \n\t\r\x85"), max_size=80)


@given(st.lists(TEXT, max_size=6), st.integers(1, 30), st.integers(0, 30))
def test_pieces_join_to_the_text(texts, size, more):
    found = list(cuts.pieces(texts, size, size + more))
    assert "".join(found) == "".join(texts)
    assert all(found)
    assert all(len(piece) <= max(size + more, max(map(len, texts))) + size for piece in found)


@pytest.fixture(scope="module")
def tokenizers() -> list[Tokenizer]:
    text = "a dog's day, in 1999! " * 20 + "ab ba é你 " * 9
    return [
        train_tokenizer(TokenizerConfig.parse({"kind": kind} | size), [text])
        for kind, size in (
            ("bpe", {"vocab_size": 300}),
            ("word", {}),
            ("byte", {}),
            ("character", {}),
        )
    ]


@given(TEXT, st.integers(1, 12))
def test_pieces_have_the_tokens_of_the_whole(tokenizers, text, size):
    found = list(cuts.pieces([text], size, 10**6))
    for tokenizer in tokenizers:
        ids = [tokenizer.encode(piece) for piece in found] or [np.zeros(0, np.int32)]
        assert np.concatenate(ids).tolist() == tokenizer.encode(text).tolist()


@pytest.fixture
def small_parts(monkeypatch):
    """Files are read 7 bytes at a time, in pieces of 20 characters."""
    monkeypatch.setattr(lines, "PART", 7)
    monkeypatch.setattr(documents, "pieces", lambda texts: cuts.pieces(texts, 20, 60))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-8-sig", "cp1252", "utf-32", "shift_jis"]
)
def test_the_store_of_pieces_is_that_of_the_whole(tmp_path, monkeypatch, encoding):
    letters = {"cp1252": "ab é ", "shift_jis": "ab 日本 "}.get(encoding, "ab é你🙂 \n")
    draw = random.Random(0)
    for name in ("a.txt", "b.txt"):
        text = "".join(draw.choices(letters, k=300))
        (tmp_path / name).write_bytes(text.encode(encoding))
    fields = {"train.path": ["a.txt", "b.txt"], "root": str(tmp_path), "encoding": encoding}
    config = data_config(fields | {"validation.fraction": 0.2, "test.fraction": 0.1})
    tokenizer = train_tokenizer(
        TokenizerConfig.parse({"kind": "bpe", "vocab_size": 290}), [letters * 9]
    )
    stores = []
    for name in ("whole", "pieces"):
        stores.append(store_tokens(tmp_path / name, tokenizer, config))
        monkeypatch.setattr(lines, "PART", 7)
        monkeypatch.setattr(documents, "pieces", lambda texts: cuts.pieces(texts, 20, 60))
    assert stores[0].counts == stores[1].counts
    for name in ("train", "validation", "test"):
        one, two = (tokens_of(store, name) for store in stores)
        assert one.tokens.tolist() == two.tokens.tolist()
        assert one.document_ends.tolist() == two.document_ends.tolist()


def test_chunks_are_bounded_and_end_at_lines_of_any_script():
    assert max(map(len, cuts.chunks("a" * 10**6))) == cuts.LONGEST_CHUNK
    lines = "日月火水木。\n" * 40_000
    found = list(cuts.chunks(lines))
    assert len(found) > 3
    assert max(map(len, found)) <= cuts.CHUNK + 7
    assert all(one.startswith("\n") for one in found[1:])


def test_what_cannot_be_encoded_in_pieces_is_joined(tmp_path, small_parts):
    (tmp_path / "a.txt").write_text("one two three four " * 9)
    config = data_config({"train.path": str(tmp_path / "a.txt"), "validation.fraction": 0.25})
    found = list(parts(config))
    assert len(found) > 4
    joined = list(whole(found))
    assert [(part.split, len(part.text), part.ends) for part in joined] == [
        ("train", 128, False),
        ("validation", 43, True),
    ]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"abcdefghij\xff", "byte 0xff at offset 10 does not fit"),
        ("abcdef€".encode()[:-1], "byte 0xe2 at offset 6 does not fit"),
        ("abcdefé".encode() + b"\xe2x", "byte 0xe2 at offset 8 does not fit"),
        (b"abcdefghijk\0x", "a NUL byte at offset 11"),
    ],
)
def test_errors_name_the_byte_of_the_file(tmp_path, small_parts, raw, sentence):
    (tmp_path / "a.txt").write_bytes(raw)
    config = data_config({"train.path": str(tmp_path / "a.txt")})
    with pytest.raises(DataError, match=sentence):
        list(read(resolve(config.train.path, config)))


def test_a_line_beyond_the_limit_is_one_sentence(tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 50)
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{"text": "' + "y" * 60 + '"}\n')
    config = data_config({"train.path": str(tmp_path / "a.jsonl")})
    with pytest.raises(DataError, match="line 2 has more than 50 bytes, the most of one line"):
        list(read(resolve(config.train.path, config)))


def test_reading_is_told_to_whoever_listens(tmp_path, small_parts):
    (tmp_path / "a.txt").write_text("x" * 30)
    config = data_config({"train.path": str(tmp_path / "a.txt")})
    told: list[str] = []
    with progress.following(told.append):
        list(read(resolve(config.train.path, config)))
    assert told[0] == "reading a.txt: 0 MB (23%)"
    assert told[-1] == "reading a.txt: 0 MB (100%)"
    assert len(told) == 5
    list(read(resolve(config.train.path, config)))
    assert len(told) == 5, "nobody listens"


def test_training_reads_a_text_larger_than_memory(tmp_path):
    """A sparse file of 17 billion tokens; the order and the windows of 100 steps take no more
    memory than those of a small one."""
    with (tmp_path / "values").open("wb") as file:
        file.truncate(1 << 35)
    ids = np.memmap(tmp_path / "values", "uint16", "r")
    split = TokenSplit("train", ids, 1 << 35, np.array([1 << 34]), "separate")
    order = training_order(split, 128, 8, seed=0)
    tracemalloc.start()
    for step in (*range(100), order.count // 8):  # to the second epoch
        assert windows(split, order.rows(step), 128).elements.shape == (8, 128)
    batches = evaluation_windows(split, 8, 128)
    assert all(next(batches).elements.shape == (8, 128) for _ in range(10))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_progress_before_training_is_of_what_takes_long(monkeypatch):
    from glassformer.core.progress import Progress

    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    progress = Progress(out)
    for now in (100.2, 101.1, 105.0, 111.2):
        progress.before(f"reading at {now}")
    assert out.getvalue() == "reading at 101.1\nreading at 111.2\n"


@pytest.mark.parametrize("kind", ["letters", "one letter", "spaces", "han"])
def test_byte_pairs_of_text_without_spaces_take_linear_time(kind):
    """200,000 characters took 10 to 100 seconds when runs were not cut."""
    import time

    draw = random.Random(0)
    letters = {
        "letters": "abcdefgh",
        "one letter": "a",
        "spaces": " ",
        "han": "".join(map(chr, range(0x4E00, 0x4F00))),
    }
    text = "".join(draw.choices(letters[kind], k=200_000))
    begin = time.process_time()
    made = train_tokenizer(TokenizerConfig.parse({"kind": "bpe", "vocab_size": 1000}), [text])
    assert time.process_time() - begin < 8
    assert made.decode(made.encode(text).tolist()) == text


@pytest.mark.parametrize(("kind", "limit"), [("bpe", "MOST_PAIRED"), ("word", "MOST_COUNTED")])
def test_different_words_are_bounded_and_the_same_words_are_not(monkeypatch, kind, limit):
    """100 MB of letters without a space took 9 GB: each run is a word of its own."""
    from glassformer.tokenizers import train as training

    monkeypatch.setattr(training, limit, 10_000)
    draw, read = random.Random(0), []

    def given(texts):
        for text in texts:
            read.append(len(text))
            yield text

    letters = ("".join(draw.choices("abcdefgh", k=4000)) for _ in range(100))
    train_tokenizer(TokenizerConfig.parse({"kind": kind, "vocab_size": 300}), given(letters))
    assert sum(read) <= 10_000 + 2 * 4000
    read.clear()
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(1000)]
    again = (" ".join(draw.choices(words, k=800)) for _ in range(100))
    train_tokenizer(TokenizerConfig.parse({"kind": kind, "vocab_size": 300}), given(again))
    assert sum(read) > 400_000
