"""The token store: what it holds, when it is reused and rebuilt, and what it never touches."""

import errno
import json
import os

import numpy as np
import pytest

from glassformer.data import folder as folder_module
from glassformer.data import token_store as store_module
from glassformer.data.config import DataConfig
from glassformer.data.token_store import TokenStore
from glassformer.errors import ConfigError, DataError

EOS = 256


class Encoder:
    """Bytes as ids, counting its calls: a store that is reused encodes nothing."""

    calls = 0

    def __call__(self, text: str) -> np.ndarray:
        self.calls += 1
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefgh é" * 10)
    return tmp_path


def build(place, encode=None, fingerprint="f", vocab_size=257, eos=EOS, progress=None, **settings):
    config = DataConfig.model_validate({"path": "t.txt", "root": str(place)} | settings)
    return TokenStore.open_or_build(
        place / "run" / "store", encode or Encoder(), fingerprint, vocab_size, eos, config, progress
    )


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_one_document_is_split_without_a_separator(place):
    store = build(place)
    train, validation = store.split("train"), store.split("validation")
    assert bytes(train.tokens.astype(np.uint8)).decode() == "abcdefgh é" * 9
    assert bytes(validation.tokens.astype(np.uint8)).decode() == "abcdefgh é"
    assert isinstance(train.tokens, np.memmap)
    assert train.tokens.dtype == np.uint16
    assert (train.n_characters, train.n_bytes, len(train.tokens)) == (90, 99, 99)
    assert train.document_ends.tolist() == [99]
    assert store.counts["validation"] == {
        "tokens": 11,
        "bytes": 11,
        "characters": 10,
        "documents": 1,
    }
    assert sorted(p.name for p in (place / "run").iterdir()) == ["store"]


def test_a_separator_stands_behind_each_document_that_ends(place):
    (place / "l.jsonl").write_text("\n".join(json.dumps({"text": c * 4}) for c in "abcde"))
    store = build(place, path="l.jsonl", validation_fraction=0.3, test_fraction=0.0)
    spelled = {
        n: "".join("|" if i == EOS else chr(i) for i in store.split(n).tokens) for n in store.counts
    }
    assert spelled == {"train": "aaaa|bbbb|cccc|dd", "validation": "dd|eeee|"}
    assert store.split("train").document_ends.tolist() == [5, 10, 15, 17]
    assert store.split("validation").document_ends.tolist() == [3, 8]
    assert store.split("train").n_bytes == 14  # separators are not text
    bare = build(place, path="l.jsonl", validation_fraction=0.0, eos=None)
    assert len(bare.split("train").tokens) == 20
    assert bare.split("train").document_ends.tolist() == [4, 8, 12, 16, 20]


def test_large_vocabularies_take_four_bytes(place):
    assert build(place, vocab_size=65_536).split("train").tokens.dtype == np.uint16
    assert build(place, vocab_size=65_537).split("train").tokens.dtype == np.uint32


def test_a_store_is_reused_while_nothing_changed(place):
    encode = Encoder()
    build(place, encode)
    made = content(place / "run" / "store")
    calls = encode.calls
    again = build(
        place, encode, documents="separate"
    )  # which changes how tokens are read, not the tokens
    assert encode.calls == calls
    assert content(place / "run" / "store") == made
    assert again.split("train").documents == "separate"
    assert len(TokenStore.open(place / "run" / "store").split("train").tokens) == 99


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "g"},
        {"vocab_size": 300},
        {"eos": None},
        {"validation_fraction": 0.2},
        {"encoding": "latin-1"},
        {"path": ["t.txt", "t.txt", "u.txt"]},
        {"validation_path": "u.txt"},
    ],
)
def test_a_changed_setting_or_tokenizer_rebuilds(place, change):
    (place / "u.txt").write_text("other")
    build(place)
    encode = Encoder()
    build(place, encode, **change)
    assert encode.calls
    encode = Encoder()
    build(place, encode, **change)
    assert not encode.calls


def test_a_changed_source_rebuilds_and_old_maps_stay_valid(place):
    old = build(place).split("train").tokens
    before = old.copy()
    (place / "t.txt").write_text("ABCDEFGH é" * 10)  # the same size
    os.utime(place / "t.txt", ns=(1, 1))
    new = build(place).split("train").tokens
    assert chr(new[0]) == "A"
    assert np.array_equal(old, before)


def damage(folder, how):
    tokens, manifest = folder / "train.tokens", folder / "manifest.json"
    data = json.loads(manifest.read_bytes())
    match how:
        case "cut":
            tokens.write_bytes(tokens.read_bytes()[:-1])
        case "longer":
            tokens.write_bytes(tokens.read_bytes() + b"\0\0")
        case "ends":
            (folder / "train.ends").write_bytes(b"")
        case "gone":
            tokens.unlink()
        case "no manifest":
            manifest.unlink()
        case "half manifest":
            manifest.write_bytes(manifest.read_bytes()[:100])
        case "list":
            manifest.write_text("[]")
        case "foreign":
            manifest.write_text(json.dumps(data | {"format": "other"}))
        case "type":
            manifest.write_text(json.dumps(data | {"type": "float64"}))
        case "splits":
            manifest.write_text(
                json.dumps(data | {"splits": {"../x": {"tokens": 0, "documents": 0}}})
            )
        case "version":
            data["request"]["version"] = 99
            manifest.write_text(json.dumps(data))


HOWS = [
    "cut",
    "longer",
    "ends",
    "gone",
    "no manifest",
    "half manifest",
    "list",
    "foreign",
    "type",
    "splits",
    "version",
]


@pytest.mark.parametrize("how", HOWS)
def test_a_damaged_or_foreign_store_is_rebuilt(place, how):
    build(place)
    folder = place / "run" / "store"
    made = content(folder)
    damage(folder, how)
    with pytest.raises(DataError, match=r"no whole token store"):
        TokenStore.open(folder)
    encode = Encoder()
    build(place, encode)
    assert encode.calls
    assert content(folder) == made


def test_other_peoples_files_are_never_touched(place):
    folder = place / "run" / "store"
    folder.mkdir(parents=True)
    (folder / "thesis.doc").write_text("years of work")
    with pytest.raises(
        DataError, match=r"holds other files \(thesis.doc, ...\); choose another data.store"
    ):
        build(place)
    assert content(folder) == {"thesis.doc": b"years of work"}
    with pytest.raises(DataError, match=r"is a file, not the folder"):
        build(place, store="t.txt")


def test_a_store_of_ones_own(place):
    store = build(place, store="elsewhere")
    assert store.folder == place / "elsewhere"
    assert not (place / "run").exists()


def test_a_failure_while_building_leaves_what_was_there(place, monkeypatch):
    build(place)
    made = content(place / "run" / "store")

    def full(self, ids, part):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module._Writer, "add", full)
    with pytest.raises(
        DataError, match=r"cannot write the token store .*: No space left on device; free space"
    ):
        build(place, fingerprint="new")

    def interrupt(self, ids, part):
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module._Writer, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build(place, fingerprint="new")
    assert content(place / "run" / "store") == made
    assert [path.name for path in (place / "run").iterdir()] == ["store"]


def test_bad_text_is_found_before_anything_changes(place):
    build(place)
    made = content(place / "run" / "store")
    (place / "t.txt").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(DataError, match=r"is not utf-8"):
        build(place)
    assert content(place / "run" / "store") == made


def test_a_store_that_another_process_finished_first_is_taken(place, monkeypatch):
    def late(work, folder):
        monkeypatch.undo()
        build(place)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(folder_module, "_replace", late)
    assert len(build(place).split("train").tokens) == 99


def test_ids_beyond_the_vocabulary_are_refused(place):
    with pytest.raises(ConfigError, match=r"gave id 195 for .*t.txt, beyond its vocabulary of 128"):
        build(place, vocab_size=128)
    assert not (place / "run" / "store").exists()


def test_a_split_without_text_is_one_sentence(place):
    store = build(place)
    with pytest.raises(
        DataError, match=r"there is no test text; set data.test_path or data.test_fraction"
    ):
        store.split("test")


def test_text_without_tokens_is_an_empty_split(place):
    store = build(place, encode=lambda text: np.zeros(0, dtype=np.int32))
    assert len(store.split("train").tokens) == 0


def test_progress_counts_characters(place):
    seen = []
    build(place, progress=lambda *state: seen.append(state))
    assert seen == [("tokenize", 90, None), ("tokenize", 100, None)]
