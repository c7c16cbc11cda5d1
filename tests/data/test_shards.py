"""Running text in shards: the bytes of the whole, kept when a start is killed, made again where one
is damaged or missing."""

import errno
import gzip
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core import cuts, files, manifest
from glassformer.core.errors import DataError
from glassformer.data import tokens
from glassformer.data.formats import documents
from glassformer.data.store import Column, Store, Writer
from glassformer.data.tokens import store_tokens, tokens_of
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_runs import data_config

TEXT = st.text(st.sampled_from("ab é你🙂.,'3 \n\t\r\x85\x1c\u2028\u3000\xa0"), max_size=60)


@pytest.fixture(scope="module")
def tokenizers() -> list[Tokenizer]:
    kinds = {"bpe": {"vocab_size": 300}, "word": {}, "byte": {}, "character": {}}
    made = [TokenizerConfig.parse({"kind": kind} | size) for kind, size in kinds.items()]
    text = "a dog's day,   in 1999!\n\n ab \xa0\xa0 é你\u3000\u3000\u3000 " * 9
    return [train_tokenizer(one, [text]) for one in made]


@pytest.fixture(scope="module")
def _no_sync():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "sync", lambda path: None)
        patch.setattr(files, "sync", lambda path: None)
        patch.setattr(tokens, "PORTION", 20)
        yield


def write(folder: Path, texts: list[tuple[str, str]]) -> list[str]:
    """Files of these kinds."""
    for number, (kind, text) in enumerate(texts):
        place = folder / f"{number}.{kind}"
        match kind:
            case "txt":
                place.write_bytes(text.encode())
            case "txt.gz":
                place.write_bytes(gzip.compress(text.encode()))
            case "jsonl":
                rows = [json.dumps({"text": row}) for row in text.split("3")]
                place.write_text("\n".join(rows) + "\n")
            case "zip":
                with zipfile.ZipFile(place, "w") as archive:
                    archive.writestr("a.txt", text)
                    archive.writestr("b.txt", text[::-1])
    return [str(folder / f"{number}.{kind}") for number, (kind, _) in enumerate(texts)]


def content(store: Store) -> dict[str, bytes]:
    files = {*store.folder.iterdir()} - {*store.folder.glob("*.json")}
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.usefixtures("_no_sync")
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(["txt", "txt", "jsonl", "txt.gz", "zip"]), TEXT), min_size=1
    ).filter(lambda texts: any(text.replace("3", "").strip() for _, text in texts)),
    st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.3, 0.2)]),
    st.integers(4, 40),
    st.integers(0, 3),
)
def test_any_shards_are_the_whole(tokenizers, tmp_path_factory, texts, held_out, size, which):
    folder = tmp_path_factory.mktemp("shards")
    fields = {"train.path": write(folder, texts), "test.fraction": held_out[1]}
    config = data_config(fields | {"validation.fraction": held_out[0]})
    whole = store_tokens(folder / "whole", tokenizers[which], config, size=1 << 40)
    cut = store_tokens(folder / "cut", tokenizers[which], config, size)
    assert (cut.counts, content(cut)) == (whole.counts, content(whole))
    again = Store.open(folder / "cut", tokens.KIND)
    assert again.counts == whole.counts
    assert not list(folder.glob(".*"))


@pytest.fixture
def made(tmp_path, tokenizers, monkeypatch):
    """A text of eight shards of two files: its settings, what its store holds, a function that
    makes it and gives the number of shards that are encoded."""
    monkeypatch.setattr(documents, "pieces", lambda texts: cuts.pieces(texts, 50))
    (tmp_path / "a.txt").write_text("ab é你 dog's day\n" * 60)
    rows = (json.dumps({"text": f"row {number} of a table"}) for number in range(30))
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    names = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")]
    config = data_config({"train.path": names, "validation.fraction": 0.2})
    whole = store_tokens(tmp_path / "whole", tokenizers[0], config)

    def make() -> int:
        encoded: list[int] = []
        real = tokens._encode

        def counting(*arguments, **options):
            encoded.append(1)
            return real(*arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "_encode", counting)
            store = store_tokens(tmp_path / "store", tokenizers[0], config, size=250)
        assert (store.counts, content(store)) == (whole.counts, content(whole))
        assert not (tmp_path / ".store.shards").exists()
        return len(encoded)

    return tmp_path / ".store.shards", make


def killed_at_the_end(make) -> None:
    finish = Writer.finish

    def killed(self):
        if self._folder.name.startswith(".store."):  # not a shard's
            raise KeyboardInterrupt
        return finish(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            make()


def test_finished_shards_are_kept_and_damaged_ones_made_again(made):
    work, make = made
    killed_at_the_end(make)
    shards = sorted(work.iterdir())
    assert [place.name for place in shards] == [f"{n:06}" for n in range(len(shards))]
    assert len(shards) > 5
    values = bytearray((work / "000001" / "train.tokens.values").read_bytes())
    values[7] ^= 1
    (work / "000001" / "train.tokens.values").write_bytes(values)
    (work / "000004" / "manifest.json").unlink()
    (work / "000099").mkdir()  # of another plan
    assert make() == 2


def test_a_full_disk_is_one_sentence_and_keeps_what_is_done(made, monkeypatch):
    work, make = made
    real, left = Column.extend, [40]

    def full(self, values):
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, values)

    with monkeypatch.context() as patch:
        patch.setattr(Column, "extend", full)
        with pytest.raises(DataError, match=r"No space left on device; free space or set data\."):
            make()
    kept = len(list(work.glob("0*")))
    killed_at_the_end(make)
    assert 0 < kept < len(list(work.glob("0*")))


def test_a_changed_text_is_encoded_again(made, tmp_path):
    work, make = made
    killed_at_the_end(make)
    n = len(list(work.glob("0*")))
    text = (tmp_path / "b.jsonl").read_text()
    (tmp_path / "b.jsonl").write_text(text)  # the same text, but who knows
    assert make() == n


def test_damage_of_a_joined_store_is_found(made, tmp_path):
    _, make = made
    make()
    raw = bytearray((tmp_path / "store" / "train.tokens.values").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "store" / "train.tokens.values").write_bytes(raw)
    with pytest.raises(DataError, match="no whole store"):
        Store.open(tmp_path / "store", tokens.KIND)
    assert make() > 5


def test_files_of_which_each_is_empty_are_refused(tmp_path, tokenizers):
    names = [str(tmp_path / f"{name}.txt") for name in "abc"]
    for name in names:
        Path(name).write_text("\ufeff")
    config = data_config({"train.path": names, "validation.fraction": 0.0})
    with pytest.raises(DataError, match="all 3 files are empty"):
        store_tokens(tmp_path / "store", tokenizers[0], config, size=2)


def test_many_documents_end_where_their_shard_says(tmp_path, tokenizers):
    rows = "\n".join(json.dumps({"text": "x" * (number % 7)}) for number in range(500))
    (tmp_path / "a.jsonl").write_text(rows)
    config = data_config({"train.path": str(tmp_path / "a.jsonl"), "validation.fraction": 0.0})
    one = tokens_of(store_tokens(tmp_path / "one", tokenizers[2], config), "train")
    cut = tokens_of(store_tokens(tmp_path / "cut", tokenizers[2], config, size=3000), "train")
    assert len(one.document_ends) == 500 - 72  # those without text are left out
    assert cut.document_ends.tolist() == one.document_ends.tolist()
