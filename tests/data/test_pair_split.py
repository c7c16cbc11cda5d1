"""Pairs as token ids: what the store holds is what was read, and when it is rebuilt."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.data.records.pairs import KIND, PairText, pairs, pairs_of, store_pairs
from glassformer.data.store import Store
from small_runs import data_config

EOS = 0x110000


class Encoder:
    """Code points as ids behind a prefix, <eos> at the end, counting its calls: a reused store
    encodes nothing."""

    def __init__(self, prefix: str = ""):
        self.prefix, self.calls = prefix, 0

    def __call__(self, text: str) -> np.ndarray:
        self.calls += 1
        return np.array([*map(ord, self.prefix + text), EOS], dtype=np.int32)


def decoded(ids) -> str:
    assert ids[-1] == EOS
    return "".join(map(chr, ids[:-1]))


@pytest.fixture
def place(tmp_path):
    rows = "".join(f"q{i} é\ta{i} 🙂\n" for i in range(20))
    (tmp_path / "p.tsv").write_text(rows, encoding="utf-8")
    (tmp_path / "other.tsv").write_text("one\ttwo\n")
    return tmp_path


def build(place, encoders=None, fingerprints=("f", "g"), **fields) -> Store:
    config = data_config({"train.path": "p.tsv", "root": str(place), "test.fraction": 0.2} | fields)
    encoders = encoders or (Encoder(), Encoder())
    return store_pairs(place / "run" / "tokens", encoders, fingerprints, config)


word = st.text("ab é\u2028\x85🙂'\"", min_size=1, max_size=9).filter(str.strip)


@given(
    st.lists(st.tuples(word, word, st.sampled_from(["de", "fr"])), min_size=1, max_size=9),
    st.booleans(),
)
@settings(max_examples=15)
def test_what_it_holds_is_what_was_read(tmp_path_factory, rows, grouped):
    place = tmp_path_factory.mktemp("store")
    named = [{"source": s, "target": t, "lang": group} for s, t, group in rows]
    (place / "p.jsonl").write_text(
        "\n".join(json.dumps(row, ensure_ascii=False) for row in named), encoding="utf-8"
    )
    fields = {"train.path": "p.jsonl", "validation.fraction": 0.4, "test.fraction": 0.2}
    fields |= {"group_field": "lang"} if grouped else {}
    store = build(place, (Encoder("to de: "), Encoder()), **fields)
    found = list(pairs(data_config({"root": str(place), **fields})))
    for name in ("train", "validation", "test"):
        expected = [pair for pair in found if pair.split == name]
        assert (name in store.counts) == bool(expected)
        if not expected:
            continue
        split, count = pairs_of(store, name), store.counts[name]
        assert (split.name, len(split), count["pairs"]) == (name, len(expected), len(expected))
        assert count["source_tokens"] == split.source.lengths.sum()
        assert count["target_tokens"] == split.target.lengths.sum()
        for example, pair in zip(split.examples(range(len(split))), expected, strict=True):
            assert decoded(example.ids) == f"to de: {pair.source}"
            assert decoded(example.answer) == pair.target
        for side in (split.source, split.target):
            assert (isinstance(side.values, np.memmap), side.values.dtype) == (True, np.int32)
        if name != "train":
            assert split.texts() == [
                PairText(p.source, p.target, p.group if grouped else None) for p in expected
            ]
    assert not list(store.folder.glob("train.texts.*"))


def test_a_store_is_reused_while_nothing_changed(place):
    encoders = Encoder(), Encoder()
    build(place, encoders)
    again = build(place, encoders)
    assert (encoders[0].calls, encoders[1].calls) == (20, 20)
    opened = pairs_of(Store.open(place / "run" / "tokens", KIND), "validation")
    assert decoded(opened.target.row(0)) == pairs_of(again, "validation").texts()[0].target


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprints": ("other", "g")},
        {"fingerprints": ("f", "other")},
        {"prefix": "to de: "},
        {"validation.fraction": 0.2},
        {"test.fraction": 0.1},
        {"validation.path": "other.tsv"},
        {"train.path": "other.tsv", "validation.fraction": 0.0, "test.fraction": 0.0},
        {"train.path": ["p.tsv", "other.tsv"]},
        {"encoding": "utf-8-sig"},
        {"format": "tsv"},
        {"source_field": "src"},
        {"group_field": "lang"},
    ],
    ids=lambda change: " ".join(change),
)
def test_a_changed_setting_or_tokenizer_rebuilds(place, change):
    if change.keys() & {"source_field", "group_field"}:
        (place / "p.tsv").write_text("src\tsource\ttarget\tlang\n" + "a\tb\tc\td\n" * 20)
    build(place)
    for calls in (True, False):
        encoders = Encoder(), Encoder()
        build(place, encoders, **change)
        assert bool(encoders[0].calls) == bool(encoders[1].calls) == calls


def test_a_changed_target_file_rebuilds(place):
    for name in ("s", "t"):
        (place / name).write_text("a\nb\nc\n")
    build(place, train_path="s", train_targets="t", test_fraction=0.0)
    (place / "t").write_text("a\nb\nd\n")
    os.utime(place / "t", ns=(1, 1))
    encoders = Encoder(), Encoder()
    build(place, encoders, train_path="s", train_targets="t", test_fraction=0.0)
    assert encoders[1].calls


def test_a_bad_pair_is_found_before_anything_changes(place):
    folder = build(place).folder
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    with (place / "p.tsv").open("a") as file:
        file.write("alone\n")
    with pytest.raises(DataError, match=r"p.tsv, line 21 has 1 column,"):
        build(place)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made


def test_a_split_without_pairs_is_one_sentence(place):
    with pytest.raises(
        DataError,
        match=r"no validation pairs; set data.validation.path or data.validation.fraction",
    ):
        pairs_of(build(place, validation_fraction=0.0), "validation")
    store = build(place, train_path="other.tsv", validation_fraction=0.9, test_fraction=0.0)
    with pytest.raises(DataError, match=r"no train pairs; .*give more pairs"):
        pairs_of(store, "train")
