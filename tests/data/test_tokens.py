"""Running text as token ids: where documents end, when the store is rebuilt, what is refused."""

import json
import os

import numpy as np
import pytest

from glassformer.core.errors import DataError
from glassformer.data.store import Store
from glassformer.data.tokens import KIND, store_tokens, tokens_of
from small_runs import data_config

EOS = 256


class Bytes:
    """Bytes as ids, counting its calls: a store that is reused encodes nothing."""

    def __init__(self, fingerprint="f", vocab_size=257, eos: int | None = EOS):
        self.fingerprint, self.vocab_size, self.calls = fingerprint, vocab_size, 0
        self.specials = {} if eos is None else {"eos": eos}
        self.in_pieces = True

    def encode_all(self, texts: list[str]) -> list[np.ndarray]:
        self.calls += len(texts)
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) for text in texts]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefgh é" * 10)
    return tmp_path


def build(place, tokenizer=None, **settings) -> Store:
    config = data_config({"train.path": "t.txt", "root": str(place)} | settings)
    return store_tokens(place / "run" / "tokens", tokenizer or Bytes(), config)


def test_one_document_is_split_without_a_separator(place):
    store = build(place)
    train, validation = (tokens_of(store, name) for name in ("train", "validation"))
    assert bytes(train.tokens.astype(np.uint8)).decode() == "abcdefgh é" * 9
    assert bytes(validation.tokens.astype(np.uint8)).decode() == "abcdefgh é"
    assert isinstance(train.tokens, np.memmap)
    assert (store.counts["train"]["characters"], train.n_bytes, len(train.tokens)) == (90, 99, 99)
    assert train.document_ends.tolist() == [99]
    assert store.counts["validation"] == {
        "tokens": 11,
        "bytes": 11,
        "characters": 10,
        "documents": 1,
    }


def test_a_separator_stands_behind_each_document_that_ends(place):
    (place / "l.jsonl").write_text("\n".join(json.dumps({"text": c * 4}) for c in "abcde"))
    store = build(place, train_path="l.jsonl", validation_fraction=0.3, test_fraction=0.0)
    spelled = {
        n: "".join("|" if i == EOS else chr(i) for i in tokens_of(store, n).tokens)
        for n in store.counts
    }
    assert spelled == {"train": "aaaa|bbbb|cccc|dd", "validation": "dd|eeee|"}
    train = tokens_of(store, "train")
    assert train.document_ends.tolist() == [5, 10, 15, 17]
    assert tokens_of(store, "validation").document_ends.tolist() == [3, 8]
    assert train.n_bytes == 14  # separators are not text
    assert store.counts["train"]["tokens"] == 17
    bare = tokens_of(
        build(place, Bytes(eos=None), train_path="l.jsonl", validation_fraction=0.0), "train"
    )
    assert bare.document_ends.tolist() == [4, 8, 12, 16, 20]


def test_large_vocabularies_take_four_bytes(place):
    for size, dtype in ((65_536, np.uint16), (65_537, np.uint32)):
        assert tokens_of(build(place, Bytes(vocab_size=size)), "train").tokens.dtype == dtype


def test_how_tokens_are_read_does_not_rebuild(place):
    tokenizer = Bytes()
    build(place, tokenizer)
    calls = tokenizer.calls
    store = build(place, tokenizer, documents="separate")
    assert tokenizer.calls == calls
    assert tokens_of(store, "train", "separate").documents == "separate"
    assert len(tokens_of(Store.open(place / "run" / "tokens", KIND), "train").tokens) == 99


@pytest.mark.parametrize(
    ("tokenizer", "change"),
    [
        ({"fingerprint": "g"}, {}),
        ({"vocab_size": 300}, {}),
        ({"eos": None}, {}),
        ({}, {"validation.fraction": 0.2}),
        ({}, {"encoding": "latin-1"}),
        ({}, {"train.path": ["t.txt", "t.txt", "u.txt"]}),
        ({}, {"validation.path": "u.txt"}),
    ],
)
def test_a_changed_setting_or_tokenizer_rebuilds(place, tokenizer, change):
    (place / "u.txt").write_text("other")
    build(place)
    for built in (True, False):
        own = Bytes(**tokenizer)
        build(place, own, **change)
        assert bool(own.calls) == built


def test_a_changed_source_rebuilds(place):
    build(place)
    (place / "t.txt").write_text("ABCDEFGH é" * 10)  # the same size
    os.utime(place / "t.txt", ns=(1, 1))
    assert chr(tokens_of(build(place), "train").tokens[0]) == "A"


def test_a_store_of_ones_own(place):
    assert build(place, store="elsewhere").folder == place / "elsewhere"
    assert not (place / "run").exists()


def test_bad_text_is_found_before_anything_changes(place):
    folder = build(place).folder
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    (place / "t.txt").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(DataError, match=r"is not utf-8"):
        build(place)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made


def test_a_split_without_text_is_one_sentence(place):
    with pytest.raises(
        DataError, match=r"there is no test text; set data.test.path or data.test.fraction"
    ):
        tokens_of(build(place), "test")


def test_text_without_tokens_is_an_empty_split(place):
    tokenizer = Bytes()
    tokenizer.encode_all = lambda texts: [np.zeros(0, dtype=np.int32)] * len(texts)
    assert len(tokens_of(build(place, tokenizer), "train").tokens) == 0
