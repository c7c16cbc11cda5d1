"""The tokenizer: round trips, exact bytes, specials, saving so that the tokenizers library
agrees."""

import json
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tokenizers
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.decoding import join_words
from glassformer.tokenizers.definition import ROLES
from glassformer.tokenizers.library import chunks
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

TEXT = (
    "It's a test, isn't it?  Yes!\n\n\tÜber  Straße — 你好 😀 the theatre then 12345 don't\r\n" * 20
)
KINDS = ["byte", "character", "word", "bpe"]


def make(kind: str, **settings: object) -> Tokenizer:
    size = {"vocab_size": 330} if kind == "bpe" else {}
    return train_tokenizer(
        TokenizerConfig.model_validate({"kind": kind, **size, **settings}), [TEXT]
    )


TOKENIZERS = {kind: make(kind) for kind in KINDS}
any_text = st.text(max_size=200) | st.text(alphabet="ab \n\t'st.é你😀", max_size=200)


@pytest.mark.parametrize("kind", ["byte", "bpe"])
@given(text=any_text)
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back_and_bytes_are_exact(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids.tolist())) == text.encode()


@given(text=st.text(alphabet=sorted(set(TEXT)), max_size=200))
@settings(deadline=None)
def test_known_characters_come_back(text):
    tokenizer = TOKENIZERS["character"]
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids.tolist())) == text.encode()


@given(text=any_text)
@settings(deadline=None)
def test_an_unknown_character_is_one_unknown_and_is_shown(text):
    tokenizer = TOKENIZERS["character"]
    unknown = tokenizer.specials["unk"]
    ids = tokenizer.encode(text)
    assert [i == unknown for i in ids.tolist()] == [c not in TEXT for c in text]
    assert tokenizer.decode(ids) == "".join(c if c in TEXT else "<unk>" for c in text)


@pytest.mark.parametrize("kind", KINDS)
@given(text=any_text)
@settings(max_examples=100, deadline=None)
def test_saved_file_encodes_the_same_in_the_library(kind, text, library_of):
    tokenizer, loaded, library = library_of(kind)
    # what a text says is never a special symbol here, and always one in the library
    assume(not any(symbol in text for symbol in ROLES.values()))
    expected = library.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text).tolist() == expected
    assert loaded.encode(text).tolist() == expected
    if kind in ("byte", "bpe"):
        assert library.decode(expected) == text


@pytest.fixture(scope="session")
def library_of(tmp_path_factory):
    made = {}

    def get(kind):
        if kind not in made:
            file = tmp_path_factory.mktemp(kind) / "tokenizer.json"
            TOKENIZERS[kind].save(file)
            made[kind] = (
                TOKENIZERS[kind],
                Tokenizer.load(file),
                tokenizers.Tokenizer.from_file(str(file)),
            )
        return made[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
def test_load_gives_the_same_tokenizer_from_file_and_folder(kind, library_of, tmp_path):
    tokenizer, loaded, library = library_of(kind)
    assert loaded.kind == tokenizer.kind == kind
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.specials == tokenizer.specials
    assert loaded.vocab_size == tokenizer.vocab_size == library.get_vocab_size()
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path).fingerprint == tokenizer.fingerprint
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_specials_stand_behind_the_ordinary_tokens_and_are_never_read_from_text(kind):
    tokenizer = make(kind, specials=["<|user|>"])
    roles = ["unk"] * (kind in ("character", "word")) + ["pad", "bos", "eos", "mask", "<|user|>"]
    n = tokenizer.vocab_size
    assert tokenizer.specials == {role: n - len(roles) + i for i, role in enumerate(roles)}
    text = "<eos><|user|> <pad>the</s>"
    found = set(tokenizer.encode(text).tolist()) & (
        set(tokenizer.specials.values()) - {tokenizer.specials.get("unk")}
    )
    assert not found
    if kind in ("byte", "bpe"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_leaves_specials_out_unless_asked(kind):
    tokenizer = TOKENIZERS[kind]
    ids = [tokenizer.specials["bos"], *tokenizer.encode("the").tolist(), tokenizer.specials["eos"]]
    space = " " if kind == "word" else ""
    assert tokenizer.decode(ids) == "the"
    assert tokenizer.decode(ids, skip_specials=False) == f"<bos>{space}the{space}<eos>"
    assert tokenizer.token_bytes(tokenizer.specials["eos"]) == b""
    assert tokenizer.piece(tokenizer.specials["eos"]) == "<eos>"


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_the_first_256_ids_are_the_bytes(kind):
    tokenizer = TOKENIZERS[kind]
    assert [tokenizer.token_bytes(b) for b in range(256)] == [bytes([b]) for b in range(256)]
    assert tokenizer.piece(10) == "\\n"
    assert tokenizer.piece(0xE2) == "\\xe2"
    assert tokenizer.piece(65) == "A"


def test_words_are_joined_as_people_write_them():
    tokenizer = TOKENIZERS["word"]
    assert tokenizer.decode(tokenizer.encode("Yes!  the\n\ntest zebra")) == "Yes! the test <unk>"
    texts = [
        "a cat, which (so they say) sleeps: why?",
        "«no», she said - 5 % of it...",
        "[one] {two}; “three” ‘four’!",
    ]
    for text in texts:
        tight = text.replace("5 %", "5%")
        assert join_words(re.findall(r"\w+|[^\w\s]+", text)) == tight
    assert join_words([]) == ""
    assert not tokenizer.reversible
    assert [k for k in KINDS if TOKENIZERS[k].reversible] == ["byte", "character", "bpe"]


def test_lowercase_words():
    tokenizer = make("word", lowercase=True)
    assert tokenizer.decode(tokenizer.encode("YES THE über")) == "yes the über"


@given(text=any_text, size=st.integers(1, 20))
@settings(deadline=None)
def test_chunks_change_no_token(text, size):
    text = text * 3
    for kind in ("bpe", "word"):
        whole = TOKENIZERS[kind].encode(text).tolist()
        parts = list(chunks(text, size))
        assert "".join(parts) == text
        assert [i for part in parts for i in TOKENIZERS[kind].encode(part).tolist()] == whole


@pytest.mark.parametrize("kind", KINDS)
@given(text=any_text | st.sampled_from([TEXT[:300], "the " * 50, "é" * 9]))
@settings(max_examples=100, deadline=None)
def test_no_text_has_fewer_tokens_than_are_told_beforehand(kind, text):
    tokenizer = TOKENIZERS[kind]
    least = tokenizer.at_least(text)
    assert least <= len(tokenizer.encode(text))
    if kind in ("byte", "character") and text.isascii():
        assert least == (len(text) if kind == "byte" else -(-len(text) // 4)), (
            "of a character, the longest has 4 bytes"
        )
    assert (least > 0) == (kind != "word" and text != "")


def test_a_long_text_is_cut_and_still_the_same():
    text = TEXT * 150
    assert len(list(chunks(text))) > 2
    bpe = TOKENIZERS["bpe"]
    assert bpe.encode(text).tolist() == bpe._library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("kind", KINDS)
def test_empty_text_and_no_ids(kind):
    assert TOKENIZERS[kind].encode("").shape == (0,)
    assert TOKENIZERS[kind].decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_unpaired_surrogate_and_foreign_ids_are_one_sentence(kind):
    with pytest.raises(DataError, match=r"unpaired surrogate \(U\+D800\) at character 2"):
        TOKENIZERS[kind].encode("ab\ud800")
    for index in (-1, TOKENIZERS[kind].vocab_size):
        with pytest.raises(DataError, match=f"token id {index} is not in the vocabulary"):
            TOKENIZERS[kind].decode([index])


def test_a_wordpiece_tokenizer_of_others_is_left_to_the_library(tmp_path):
    vocab = {
        t: i
        for i, t in enumerate(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##atre", "##n", "!"]
        )
    }
    other = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    other.normalizer = tokenizers.normalizers.BertNormalizer()
    other.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    other.decoder = tokenizers.decoders.WordPiece()
    other.add_special_tokens(list(vocab)[:5])
    other.enable_truncation(2)
    other.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    assert ours.kind == "library"
    assert ours.vocab_size == 9
    roles = {"unk": 1, "pad": 0, "mask": 4, "cls": 2, "sep": 3, "bos": 2, "eos": 3}
    assert ours.specials == roles
    ids = ours.encode(
        "The theatre then!"
    )  # never cut silently, whatever the file's truncation says
    assert ids.tolist() == [5, 5, 6, 5, 7, 8]
    assert ours.decode([2, *ids.tolist(), 3]) == "the theatre then!"
    assert ours.token_bytes(6) == b"atre"
    assert not ours.reversible


def test_gpt2_layout_is_recognized(tmp_path):
    other = tokenizers.Tokenizer(tokenizers.models.BPE())
    other.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    other.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    other.train_from_iterator([TEXT], trainer=trainer)
    other.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    assert (ours.kind, ours.specials, ours.reversible) == ("bpe", {"bos": 0, "eos": 0}, True)
    assert ours.encode(TEXT).tolist() == other.encode(TEXT).ids
    assert ours.decode(ours.encode(TEXT)) == TEXT
    assert ours.encode("a<|endoftext|>").tolist()[-1] != 0


def test_fingerprint_tells_tokenizers_apart():
    prints = {make(kind).fingerprint for kind in KINDS} | {
        make("byte", specials=["<x>"]).fingerprint
    }
    assert len(prints) == 5
    assert make("bpe").fingerprint == TOKENIZERS["bpe"].fingerprint


def test_bad_files_are_one_sentence(tmp_path):
    cases = {
        "empty": (b"", "cannot read .* as JSON"),
        "binary": (b"\xff\xfe\x00\x01\x02", "cannot read .* as JSON"),
        "deep": (b"[" * 100_000, "cannot read .* as JSON"),
        "list": (b"[1, 2]", "is not a tokenizer.json: it has no 'model'"),
        "other": (b'{"model_type": "gpt2"}', "it has no 'model'"),
        "added": (b'{"model": {"type": "BPE"}, "added_tokens": 3}', "'added_tokens' is not a list"),
        "kind": (b'{"model": {"type": "Magic", "vocab": {}}}', "cannot use .* as a tokenizer"),
    }
    for name, (content, sentence) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            Tokenizer.load(tmp_path / name)
    with pytest.raises(
        DataError, match=r"cannot read .*none: No such file .*give a tokenizer.json"
    ):
        Tokenizer.load(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"Cannot write .*tokenizer.json"):
        TOKENIZERS["byte"].save(tmp_path / "no" / "tokenizer.json")


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path):
    with open(tmp_path / "tokenizer.json", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(DataError, match="too many for a tokenizer"):
        Tokenizer.load(tmp_path)


def test_a_panic_in_the_library_is_one_sentence(tmp_path):
    definition = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(a+)+$"},
            "behavior": "Isolated",
            "invert": False,
        },
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    tokenizer = Tokenizer.load(tmp_path)
    with pytest.raises(DataError, match="cannot encode the text"):
        tokenizer.encode("a" * 40 + "b")


def test_interrupts_pass_the_guard():
    from glassformer.tokenizers.library import guard

    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind), guard("do something"):
            raise kind


@pytest.mark.parametrize("kind", [*KINDS, "library"])
def test_new_symbols_follow_all_others_and_change_no_text(tmp_path, kind):
    """Also in a published tokenizer of no kind of ours; the tokenizers library reads the file."""
    old = TOKENIZERS["bpe" if kind == "library" else kind]
    if kind == "library":
        old = Tokenizer(old.definition | {"normalizer": {"type": "NFC"}})
    new = old.with_symbols(["<|user|>", "<|end|>"])
    assert (old.kind, new.kind, new.vocab_size) == (kind, kind, old.vocab_size + 2)
    assert new.specials == old.specials | {
        "<|user|>": old.vocab_size,
        "<|end|>": old.vocab_size + 1,
    }
    assert old.with_symbols([]) is old
    for text in (TEXT, "a <|user|> b"):
        assert np.array_equal(new.encode(text), old.encode(text))
    new.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path).specials == new.specials
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.token_to_id("<|end|>") == old.vocab_size + 1
    for symbols in (["<eos>"], [""], ["<x>", "<x>"]):
        with pytest.raises(ConfigError, match=r"^processor\.tokenizer\.new_tokens adds "):
            old.with_symbols(symbols)
