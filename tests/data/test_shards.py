"""Running text in shards: the bytes of the whole, kept when a start is killed, made again where one
is damaged or missing."""

import errno
import gzip
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import files, headway, manifest
from glassformer.data import shards, tokens
from glassformer.data.store import Column, Store
from glassformer.data.tokens import store_tokens, tokens_of
from glassformer.errors import ConfigError, DataError
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
        patch.setattr(shards, "PORTION", 20)
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
def made(tmp_path, tokenizers):
    """A text of nine shards of two files: its settings, what its store holds, a function that
    makes it and gives the shards that are encoded."""
    (tmp_path / "a.txt").write_text("ab é你 dog's day\n" * 60)
    rows = (json.dumps({"text": f"row {number} of a table"}) for number in range(30))
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    names = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")]
    config = data_config({"train.path": names, "validation.fraction": 0.2})
    whole = store_tokens(tmp_path / "whole", tokenizers[0], config)

    def make() -> list[int]:
        encoded: list[int] = []
        real = shards.write

        def counting(writer, job, *arguments, **options):
            encoded.append(int(Path(job.place).name))
            return real(writer, job, *arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shards, "write", counting)
            store = store_tokens(tmp_path / "store", tokenizers[0], config, size=250)
        assert (store.counts, content(store)) == (whole.counts, content(whole))
        assert not (tmp_path / ".store.shards").exists()
        return encoded

    return tmp_path / ".store.shards", make


def test_finished_shards_are_kept_and_damaged_ones_made_again(made, monkeypatch):
    work, make = made

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "join", killed)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert [place.name for place in sorted(work.iterdir())] == [f"{n:06}" for n in range(9)]
    values = bytearray((work / "000001" / "train.tokens.values").read_bytes())
    values[7] ^= 1
    (work / "000001" / "train.tokens.values").write_bytes(values)
    (work / "000004" / "manifest.json").unlink()
    (work / "000007" / "validation.tokens.ends").write_bytes(b"")
    (work / "000099").mkdir()  # of another plan
    told: list[str] = []
    with headway.following(told.append):
        assert make() == [1, 4, 7]
    assert told[-1].startswith("encoding text: 0 of 0 MB, ")
    assert told[-1].endswith(" MB/s, 0:00:00 left")


def test_a_full_disk_is_one_sentence_and_keeps_what_is_done(made, monkeypatch):
    _, make = made
    real, left = Column.extend, [12]

    def full(self, values):
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, values)

    with monkeypatch.context() as patch:
        patch.setattr(Column, "extend", full)
        with pytest.raises(DataError, match=r"No space left on device; free space or set data\."):
            make()
    kept = len(list(made[0].glob("0*")))
    assert kept > 0
    assert make() == list(range(kept, 9))


def test_a_changed_file_is_encoded_again(made, tmp_path, monkeypatch):
    _, make = made
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "join", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make()
    text = (tmp_path / "b.jsonl").read_text()
    (tmp_path / "b.jsonl").write_text(text)  # the same text, but who knows
    assert make() == [5, 6, 7, 8]


def test_damage_of_a_joined_store_is_found(made, tmp_path):
    _, make = made
    make()
    raw = bytearray((tmp_path / "store" / "train.tokens.values").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "store" / "train.tokens.values").write_bytes(raw)
    with pytest.raises(DataError, match="no whole store"):
        Store.open(tmp_path / "store", tokens.KIND)
    assert make() == list(range(9))


def test_errors_of_a_shard_name_its_file_and_byte(tmp_path, tokenizers):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' * 9 + "no JSON\n")
    config = data_config({"train.path": str(tmp_path / "a.jsonl"), "validation.fraction": 0.0})
    with pytest.raises(DataError, match=r"a\.jsonl, line 2 after byte 128 is not JSON"):
        store_tokens(tmp_path / "store", tokenizers[0], config, size=60)
    (tmp_path / "b.txt").write_bytes(b"a text " * 9 + b"\xff")
    config = data_config({"train.path": str(tmp_path / "b.txt"), "validation.fraction": 0.0})
    with pytest.raises(DataError, match=r"b\.txt is not utf-8: byte 0xff at offset 63"):
        store_tokens(tmp_path / "store", tokenizers[0], config, size=20)
    (tmp_path / "b.txt").write_bytes(b"a text " * 9)
    encode = tokenizers[0].encode_all
    fields = {"fingerprint": "", "vocab_size": 9, "specials": {}, "in_pieces": True}
    with pytest.raises(ConfigError, match="beyond its vocabulary"):
        store_tokens(
            tmp_path / "store", SimpleNamespace(encode_all=encode, **fields), config, size=20
        )


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


@pytest.mark.parametrize(
    ("text", "encoding", "in_pieces", "n"),
    [
        ("a text, cut where it may be " * 6, "utf-8", True, 4),
        ("a text, cut where it may be " * 6, "latin-1", True, 4),
        ("a text, cut where it may be " * 6, "utf-16", True, 1),
        ("a text that its tokenizer reads whole " * 6, "utf-8", False, 1),
        ("你" * 60, "utf-8", True, 1),
        ("a" + " \n\xa0\u3000" * 30, "utf-8", True, 1),
    ],
)
def test_a_file_is_cut_only_where_the_tokens_stay(tmp_path, text, encoding, in_pieces, n):
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    config = data_config({"train.path": str(tmp_path / "a.txt"), "encoding": encoding})
    sources = {"train": tokens.resolve(config.train.path)}
    tokenizer = SimpleNamespace(fingerprint="", vocab_size=9, specials={}, in_pieces=in_pieces)
    jobs = shards.planned(tmp_path, config, sources, tokenizer, 50)
    assert len(jobs) == n
    assert sum(job.size for job in jobs) == len(text.encode(encoding))
    begins = [job.sources[0]["begin"] for job in jobs[1:]]
    assert all(text[at] == " " and text[at - 1].isalpha() for at in begins)
