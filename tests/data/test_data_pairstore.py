"""The pair store: what it holds, when it is reused and rebuilt, and what damage does to it."""

import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import pair_store as store_module
from glassformer.data.config import DataConfig
from glassformer.data.pair_store import PairStore, PairText
from glassformer.data.pairs import pairs
from glassformer.errors import DataError

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


def build(place, encoders=None, fingerprints=("f", "g"), **fields) -> PairStore:
    config = DataConfig.parse({"path": "p.tsv", "root": str(place), "test_fraction": 0.2} | fields)
    return PairStore.open_or_build(
        place / "run" / "tokens", encoders or (Encoder(), Encoder()), fingerprints, config
    )


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
    fields = {"path": "p.jsonl", "validation_fraction": 0.4, "test_fraction": 0.2}
    fields |= {"group_field": "lang"} if grouped else {}
    store = build(place, (Encoder("to de: "), Encoder()), **fields)
    found = list(pairs(DataConfig.parse({"root": str(place), **fields})))
    for name in ("train", "validation", "test"):
        expected = [pair for pair in found if pair.split == name]
        assert (name in store.counts) == bool(expected)
        if not expected:
            continue
        split = store.split(name)
        assert (split.name, len(split), store.counts[name]["pairs"]) == (
            name,
            len(expected),
            len(expected),
        )
        for i, pair in enumerate(expected):
            assert decoded(split.source.row(i)) == f"to de: {pair.source}"
            assert decoded(split.target.row(i)) == pair.target
        for side in (split.source, split.target):
            assert side.lengths.tolist() == [len(side.row(i)) for i in range(len(side))]
            assert (isinstance(side.tokens, np.memmap), side.tokens.dtype) == (True, np.int32)
        if name != "train":
            assert split.texts() == [
                PairText(p.source, p.target, p.group if grouped else None) for p in expected
            ]
    assert not (store.folder / "train.jsonl").exists()
    assert sorted(path.name for path in (place / "run").iterdir()) == ["tokens"]


def test_a_store_is_reused_while_nothing_changed(place):
    encoders = Encoder(), Encoder()
    made = content(build(place, encoders).folder)
    assert (encoders[0].calls, encoders[1].calls) == (20, 20)
    again = build(place, encoders)
    assert (encoders[0].calls, encoders[1].calls) == (20, 20)
    assert content(again.folder) == made
    opened = PairStore.open(place / "run" / "tokens")
    assert opened.counts == again.counts
    assert (
        decoded(opened.split("validation").target.row(0))
        == again.split("validation").texts()[0].target
    )


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprints": ("other", "g")},
        {"fingerprints": ("f", "other")},
        {"prefix": "to de: "},
        {"validation_fraction": 0.2},
        {"test_fraction": 0.1},
        {"validation_path": "other.tsv"},
        {"path": "other.tsv", "validation_fraction": 0.0, "test_fraction": 0.0},
        {"path": ["p.tsv", "other.tsv"]},
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


def test_a_changed_source_rebuilds_and_old_maps_stay_valid(place):
    old = build(place).split("train").source
    before = old.tokens.copy()
    text = (place / "p.tsv").read_text(encoding="utf-8")
    (place / "p.tsv").write_text(text.replace("q", "Q"), encoding="utf-8")  # the same size
    os.utime(place / "p.tsv", ns=(1, 1))
    assert decoded(build(place).split("train").source.row(0)).startswith("Q")
    assert np.array_equal(old.tokens, before)


def test_a_changed_target_file_rebuilds(place):
    for name in ("s", "t"):
        (place / name).write_text("a\nb\nc\n")
    build(place, path="s", target_path="t", test_fraction=0.0)
    (place / "t").write_text("a\nb\nd\n")
    os.utime(place / "t", ns=(1, 1))
    encoders = Encoder(), Encoder()
    build(place, encoders, path="s", target_path="t", test_fraction=0.0)
    assert encoders[1].calls


def changed(**changes):
    return lambda data: json.dumps(data | changes)


def counted(data):
    data["splits"]["train"]["pairs"] = "many"
    return json.dumps(data)


FILES = {
    "cut": ("train.target.tokens", lambda raw: raw[:-4]),
    "longer": ("train.target.tokens", lambda raw: raw + b"\0\0\0\0"),
    "ends": ("validation.source.ends", lambda raw: b""),
    "half manifest": ("manifest.json", lambda raw: raw[:100]),
    "deep manifest": ("manifest.json", lambda raw: b"[" * 100_000),
    "binary manifest": ("manifest.json", lambda raw: b"\xff\xfe\0"),
    "list": ("manifest.json", lambda raw: b"[]"),
    "no tokens": ("train.source.tokens", None),
    "no texts": ("validation.jsonl", None),
    "no manifest": ("manifest.json", None),
}
MANIFESTS = {
    "foreign": changed(format="glassformer token store"),
    "no splits": changed(splits={}),
    "another split": changed(splits={"../x": {"pairs": 0, "source_tokens": 0, "target_tokens": 0}}),
    "version": changed(request={"version": 99}),
    "counts": counted,
}


def damage(folder, how):
    name, change = FILES.get(
        how, ("manifest.json", lambda raw: MANIFESTS[how](json.loads(raw)).encode())
    )
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change((folder / name).read_bytes()))


@pytest.mark.parametrize("how", [*FILES, *MANIFESTS])
def test_a_damaged_or_foreign_store_is_rebuilt(place, how):
    folder = build(place).folder
    made = content(folder)
    damage(folder, how)
    with pytest.raises(
        DataError, match=r"there is no whole pair store in .*; build it from its text again"
    ):
        PairStore.open(folder)
    encoders = Encoder(), Encoder()
    build(place, encoders)
    assert encoders[0].calls
    assert content(folder) == made


@pytest.mark.parametrize(
    "text", ["", "{", "[1]\n", '{"source": "a"}\n', '{"source": "a", "target": "b"}\n', "\xff"]
)
def test_damaged_texts_are_one_sentence(place, text):
    split = build(place).split("test")
    assert len(split.texts()) == 4
    (split.folder / "test.jsonl").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"cannot read the texts of .*; delete it to build it anew"):
        split.texts()


def test_files_that_vanish_between_opening_and_reading(place):
    store = build(place)
    (store.folder / "train.source.tokens").unlink()
    with pytest.raises(DataError, match=r"cannot read .*; delete it to build it anew"):
        store.split("train")


def test_other_peoples_files_are_never_touched(place):
    folder = place / "run" / "tokens"
    folder.mkdir(parents=True)
    (folder / "thesis.doc").write_text("years of work")
    with pytest.raises(
        DataError, match=r"holds other files \(thesis.doc, ...\); choose another data.store"
    ):
        build(place)
    assert content(folder) == {"thesis.doc": b"years of work"}
    with pytest.raises(DataError, match=r"is a file, not the folder"):
        build(place, store="p.tsv")


def test_a_store_of_ones_own(place):
    assert build(place, store="elsewhere").folder == place / "elsewhere"
    assert not (place / "run").exists()


def test_a_failure_while_building_leaves_what_was_there(place, monkeypatch):
    made = content(build(place).folder)

    def full(self, pair, encoders):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module._Writer, "add", full)
    with pytest.raises(
        DataError, match=r"cannot write the token store .*: No space left on device; free space"
    ):
        build(place, fingerprints=("new", "new"))

    real, calls = Encoder.__call__, []

    def interrupted(self, text):
        calls.append(text)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return real(self, text)

    monkeypatch.undo()
    monkeypatch.setattr(Encoder, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(place, fingerprints=("new", "new"))
    assert content(place / "run" / "tokens") == made
    assert [path.name for path in (place / "run").iterdir()] == ["tokens"]


def test_a_bad_pair_is_found_before_anything_changes(place):
    made = content(build(place).folder)
    with (place / "p.tsv").open("a") as file:
        file.write("alone\n")
    with pytest.raises(DataError, match=r"p.tsv, line 21 has 1 column,"):
        build(place)
    assert content(place / "run" / "tokens") == made
    assert [path.name for path in (place / "run").iterdir()] == ["tokens"]


def test_a_split_without_pairs_is_one_sentence(place):
    store = build(place, validation_fraction=0.0)
    with pytest.raises(
        DataError,
        match=r"no validation pairs; set data.validation_path or data.validation_fraction",
    ):
        store.split("validation")
    with pytest.raises(DataError, match=r"no train pairs; .*give more pairs"):
        build(place, path="other.tsv", validation_fraction=0.9, test_fraction=0.0).split("train")
