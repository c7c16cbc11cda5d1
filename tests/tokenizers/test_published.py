"""Tokenizers of published folders: ids, frames, pairs and texts as transformers and sentencepiece
have them, roles that survive saving, and one sentence for what is missing or damaged."""

import json
import random
import shutil
import socket
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenizers
from glassformer.core.errors import ConfigError, DataError, GlassformerError
from glassformer.processors.tokens.chat_template import SYMBOLS, ChatTemplate
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.decoding import Beginning, Spelling
from glassformer.tokenizers.definition import bpe_definition, word_definition
from glassformer.tokenizers.piece_dropout import PieceDropout
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.roles import ROLES
from glassformer.tokenizers.stream import StreamDecoder
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from published_folders import (
    FAMILIES,
    FIXTURE,
    marian_folder,
    published_folder,
    sentencepiece,
    write,
)

ORACLES = {
    "bert": transformers.BertTokenizer,
    "gpt2": transformers.GPT2Tokenizer,
    "roberta": transformers.RobertaTokenizer,
    "bart": transformers.BartTokenizer,
    "qwen2": transformers.Qwen2Tokenizer,
}
TEXTS = st.text(alphabet="abtheTC the,.'!\n\t é ß你😀▁[]<0x>#", max_size=30) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("published")
    return {family: published_folder(place, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def ours(folders) -> dict[str, Tokenizer]:
    return {family: published_tokenizer(folders[family], family) for family in FAMILIES}


@pytest.fixture(scope="module")
def theirs(folders) -> dict[str, transformers.PreTrainedTokenizerBase]:
    return {name: kind.from_pretrained(folders[name]) for name, kind in ORACLES.items()}


def plain(text: str, tokenizer: Tokenizer) -> bool:
    """Whether no special symbol is in a text: here such are characters, there they are symbols."""
    return not any(symbol in text for symbol in map(tokenizer.symbol, tokenizer._special_ids))


def framed(tokenizer: Tokenizer, text: str) -> list[int]:
    ids = tokenizer.encode(text)
    return (tokenizer.frame.one(ids) if tokenizer.frame else ids).tolist()


@pytest.mark.parametrize("family", ORACLES)
@given(text=TEXTS, other=TEXTS)
@settings(max_examples=40, deadline=None)
def test_ids_pairs_types_and_texts_are_those_of_transformers(family, text, other, ours, theirs):
    tokenizer, oracle = ours[family], theirs[family]
    if not (plain(text, tokenizer) and plain(other, tokenizer)):
        return
    ids = framed(tokenizer, text)
    assert ids == oracle(text)["input_ids"]
    if tokenizer.specials.get("unk") not in ids:  # which they leave out, and we show
        assert tokenizer.decode(ids) == oracle.decode(ids, skip_special_tokens=True)
    if tokenizer.frame and other:  # a second text of nothing is none there
        expected = oracle(text, other, return_token_type_ids=True)
        found, types = tokenizer.frame.pair(tokenizer.encode(text), tokenizer.encode(other))
        assert found.tolist() == expected["input_ids"]
        assert types.tolist() == expected["token_type_ids"]


@pytest.mark.parametrize("family", FAMILIES)
@given(text=TEXTS, other=TEXTS)
@settings(max_examples=25, deadline=None)
def test_the_frame_is_what_the_library_makes_of_the_saved_file(family, text, other, ours, files):
    tokenizer, library = ours[family], files[family]
    ids, others = tokenizer.encode(text), tokenizer.encode(other)
    if not (plain(text, tokenizer) and plain(other, tokenizer)):
        return
    assert library.encode(text).ids == framed(tokenizer, text)
    if tokenizer.frame:
        pair, types = tokenizer.frame.pair(ids, others)
        expected = library.encode(text, other)
        assert (expected.ids, expected.type_ids) == (pair.tolist(), types.tolist())


@pytest.fixture(scope="module")
def files(ours, tmp_path_factory) -> dict[str, tokenizers.Tokenizer]:
    place = tmp_path_factory.mktemp("saved")
    found = {}
    for family, tokenizer in ours.items():
        tokenizer.save(place / f"{family}.json")
        found[family] = tokenizers.Tokenizer.from_file(str(place / f"{family}.json"))
    return found


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), skip=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_ids_stream_to_their_decode(family, data, skip, ours):
    tokenizer = ours[family]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=50))
    decoder = StreamDecoder(tokenizer, skip)
    assert "".join([*map(decoder.push, ids), decoder.flush()]) == tokenizer.decode(ids, skip)


@pytest.mark.parametrize("family", FAMILIES)
@given(text=TEXTS)
@settings(max_examples=25, deadline=None)
def test_decoding_is_that_of_the_library(family, text, ours, files):
    ids = ours[family].encode(text).tolist()
    expected = files[family].decode(ids, skip_special_tokens=False)
    assert ours[family].decode(ids, skip_specials=False) == expected


@pytest.mark.parametrize("family", FAMILIES)
@given(text=st.lists(st.sampled_from(["</s>", "<s>", "<pad>", "[SEP]", "<|endoftext|>", "a", " "])))
@settings(max_examples=25, deadline=None)
def test_no_text_has_a_special_symbol(family, text, ours):
    tokenizer = ours[family]
    ids = {*tokenizer.encode("".join(text)).tolist()}
    assert not {index for index in ids if tokenizer.skips(index)}


# What an unknown name of a symbol in a text becomes differs: "<unk>" is unknown as a whole.
SKIPPED = {"<s><pad><unk>", "<0x41>"}


@pytest.mark.parametrize("name", ["t5", "llama", "gemma", "xlm-roberta", "bpe", "user"])
def test_sentencepiece_models_give_the_ids_of_their_library(name, tmp_path):
    of = FIXTURE["models"][name]
    folder = sentencepiece(tmp_path, name, "tokenizer.model")
    family = name if name in FAMILIES else "llama"
    tokenizer = published_tokenizer(folder, family)
    for text, ids in zip(FIXTURE["texts"], of["ids"], strict=True):
        if name == "xlm-roberta":  # <s> <pad> </s> <unk> stand in place of <unk> <s> </s>
            ids = [index + 1 if index else 3 for index in ids]
        if text not in SKIPPED:
            assert tokenizer.encode(text).tolist() == ids, text


def test_a_vocabulary_of_characters_is_that_of_nanogpt(tmp_path):
    vocab = {character: i for i, character in enumerate("\n !abc")}
    write(tmp_path, "vocab.json", vocab)
    found = published_tokenizer(tmp_path, "nanogpt")
    ids = [3, 1, 4, 0, 5, 2]
    assert (found.encode("a b\nc!").tolist(), found.decode(ids)) == (ids, "a b\nc!")
    with pytest.raises(DataError, match=r"no tokenizer that a 'bert' may have"):
        published_tokenizer(tmp_path, "bert")


@pytest.mark.parametrize("name", ["t5", "llama", "gemma"])
def test_sentencepiece_texts_are_those_of_their_library(name, ours):
    of = FIXTURE["models"][name]
    for ids, text in zip(of["ids"], of["texts"], strict=True):
        # it shows an unknown piece as two question marks, and drops more than one space before
        expected = text.replace(" \u2047 ", "<unk>")
        assert ours[name].decode(ids).lstrip() == expected.lstrip()


def test_symbols_of_the_user_among_byte_pairs_that_change_spaces_are_refused(tmp_path):
    folder = sentencepiece(tmp_path, "bpe-user", "tokenizer.model")
    with pytest.raises(DataError, match="merges byte pairs around the symbol '<x>' of its own"):
        published_tokenizer(folder, "llama")


def test_marian_has_the_pieces_of_a_side_and_the_ids_of_both(tmp_path):
    folder = marian_folder(tmp_path / "marian")
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    for side, name in (("source", "t5"), ("target", "xlm-roberta")):
        tokenizer = published_tokenizer(folder, "marian", side)
        assert tokenizer.vocab_size == len(vocab)
        assert tokenizer.specials["decoder_start"] == tokenizer.specials["pad"] == vocab["<pad>"]
        own = published_tokenizer(sentencepiece(tmp_path / name, name, "spiece.model"), name)
        unknown = own.specials["unk"]
        for text in (text for text in FIXTURE["texts"] if "<" not in text):
            ids = own.encode(text).tolist()
            pieces = ["<unk>" if i == unknown else own.symbol(i) for i in ids]
            assert tokenizer.encode(text).tolist() == [vocab[piece] for piece in pieces]
    text = tokenizer.encode(">>de<< the cat").tolist()
    assert text[0] == vocab[">>de<<"]
    assert text[1:] == tokenizer.encode("the cat").tolist()
    assert framed(tokenizer, "a")[-1] == vocab["</s>"]


def test_a_whole_file_comes_first_and_says_the_same(folders, tmp_path, ours, theirs):
    for family in ("bert", "roberta", "qwen2"):
        folder = tmp_path / family
        theirs[family].save_pretrained(folder)
        assert (folder / "tokenizer.json").is_file()
        shutil.copy(folders["gpt2"] / "vocab.json", folder)  # of another model, and not read
        shutil.copy(folders["gpt2"] / "merges.txt", folder)
        found = published_tokenizer(folder, family)
        for text in ("The cat doesn't sleep!", "naïve 你好 😀", ""):
            assert framed(found, text) == framed(ours[family], text)
        assert found.frame == ours[family].frame
        roles = ("bos", "eos", "pad", "mask", "cls", "sep")
        for role in roles:
            assert found.specials.get(role) == ours[family].specials.get(role), (family, role)


def test_roles_that_names_do_not_tell_survive_saving(ours, tmp_path):
    for family, tokenizer in ours.items():
        place = tmp_path / family
        place.mkdir()
        tokenizer.save(place / "tokenizer.json")
        again = Tokenizer.load(place)
        assert again.specials == tokenizer.specials
        assert again.frame == tokenizer.frame
        assert again.fingerprint == tokenizer.fingerprint
        again.save(place / "source_tokenizer.json")
        assert Tokenizer.load(place / "source_tokenizer.json").specials == tokenizer.specials
    assert ours["bart"].specials["decoder_start"] == ours["bart"].specials["eos"]
    named = json.loads((tmp_path / "bart" / "special_tokens_map.json").read_text(encoding="utf-8"))
    assert named["decoder_start_token"] == "</s>"
    kept = {path.name for path in (tmp_path / "gpt2").iterdir()}
    assert kept == {"tokenizer.json", "source_tokenizer.json"}  # the names tell its roles
    bare = Tokenizer(ours["bart"].definition)
    assert bare.fingerprint != ours["bart"].fingerprint
    bare.save(tmp_path / "bart" / "tokenizer.json")  # the roles of another one do not stay
    assert Tokenizer.load(tmp_path / "bart").specials == bare.specials


NEW = (
    "<eos>",
    "<bos>",
    "<unk>",
    "</s>",
    "<|endoftext|>",
    "[CLS]",
    "[SEP]",
    "<pad>",
    "<mask>",
    "<x>",
)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
def test_no_operation_changes_a_role(family, data, ours, tmp_path_factory):
    """New symbols, some with the name of a role, another frame, files: roles keep their symbols."""
    old = made = ours[family]
    known = {old.symbol(index) for index in old._spelling}
    roles = {role: old.symbol(i) for role, i in old.specials.items() if role in ROLES}
    for _ in range(3):
        match data.draw(st.sampled_from(["symbols", "frame", "files"])):
            case "symbols":
                new = data.draw(st.sets(st.sampled_from(NEW)).map(sorted))
                made = made.with_symbols(own := [one for one in new if one not in known])
                known.update(own)
            case "frame":
                made = made.with_frame(made.frame_or("bos", "eos"))
            case "files":
                place = tmp_path_factory.mktemp("saved") / "tokenizer.json"
                made.save(place)
                made, before = Tokenizer.load(place), made
                assert made.fingerprint == before.fingerprint
        found = {role: made.symbol(made.specials[role]) for role in roles}
        assert found == roles


def test_the_settings_beside_a_file_name_its_roles(folders, tmp_path):
    """Where a folder has no special_tokens_map.json, as new ones are published."""
    qwen = published_tokenizer(folders["qwen2"], "qwen2")
    qwen.save(tmp_path / "tokenizer.json")
    (tmp_path / "special_tokens_map.json").unlink()
    write(tmp_path, "tokenizer_config.json", {"eos_token": {"content": "<|im_end|>"}})
    assert Tokenizer.load(tmp_path).specials["eos"] == qwen.specials["eos"]
    assert Tokenizer.load(tmp_path).symbol(qwen.specials["eos"]) == "<|im_end|>"


def test_a_chat_learned_with_the_tokenizer_of_a_folder_has_its_end(folders, tmp_path):
    published_tokenizer(folders["qwen2"], "qwen2").save(tmp_path / "tokenizer.json")
    config = TokenizerConfig(path=str(tmp_path), new_tokens=list(SYMBOLS))
    template = ChatTemplate.own(made := train_tokenizer(config, []))
    assert [made.symbol(i) for i in template.ends] == ["<|im_end|>"]


@pytest.mark.parametrize(
    ("definition", "symbol"),
    [
        (word_definition(["pad", "the"], False), "pad"),
        (bpe_definition([("p", "a"), ("pa", "d")]), "pad"),
        (bpe_definition([("p", "a"), ("pa", "d")]) | {"normalizer": {"type": "NFC"}}, "pad"),
    ],
)
def test_a_symbol_among_the_pieces_of_a_model_is_not_read_from_text(definition, symbol):
    made = Tokenizer(definition, roles={"eos": symbol})
    assert made.symbol(made.specials["eos"]) == symbol
    ids = made.encode(f"the {symbol} the{symbol}").tolist()
    assert ids
    assert not any(map(made.skips, ids))
    if made.kind == "bpe":
        cut = PieceDropout(made, 0.1, 0)
        for step in range(20):
            assert not any(map(made.skips, cut(np.array(ids, np.int32), step, 0).ids))


def test_an_ordinary_piece_that_a_decoder_begins_with_is_read_from_text():
    made = Tokenizer(word_definition(["the"], False), roles={"decoder_start": "the"})
    assert made.encode("the the").tolist() == [made.specials["decoder_start"]] * 2
    assert made.decode(made.encode("the")) == "the"


def test_given_roles_win_and_bos_and_eos_begin_and_end_where_a_bert_has_no_others(ours):
    assert ours["bert"].specials["bos"] == ours["bert"].specials["cls"]
    assert ours["bert"].specials["eos"] == ours["bert"].specials["sep"]
    qwen = ours["qwen2"].specials
    assert (qwen["eos"], qwen["pad"]) == (321, 320)  # by name, eos would be <|endoftext|>
    assert "unk" not in ours["gpt2"].specials  # its <|endoftext|> is left out of a text
    assert ours["gpt2"].decode([0]) == ""
    own = Tokenizer(ours["gpt2"].definition, roles={"eos": "!", "mask": "no such piece"})
    assert own.specials["eos"] == ours["gpt2"].encode("!")[0]
    assert own.encode("!").tolist() == []
    assert "mask" not in own.specials


def test_what_begins_and_ends_a_text_may_stand_in_the_settings(folders, tmp_path):
    shutil.copytree(folders["llama"], tmp_path / "llama")
    for begin, end in ((True, True), (False, True), (False, False)):
        settings = {"add_bos_token": begin, "add_eos_token": end}
        write(tmp_path / "llama", "tokenizer_config.json", settings)
        found = framed(published_tokenizer(tmp_path / "llama", "llama"), "a")
        assert (found[0] == 1, found[-1] == 2) == (begin, end)
    shutil.copytree(folders["bert"], tmp_path / "bert")
    write(tmp_path / "bert", "tokenizer_config.json", {"add_bos_token": False})
    assert published_tokenizer(tmp_path / "bert", "bert").frame is not None


def test_a_config_says_what_a_decoder_begins_with(folders, tmp_path):
    shutil.copytree(folders["bart"], tmp_path / "bart")
    write(tmp_path / "bart", "config.json", {"decoder_start_token_id": 0})
    assert published_tokenizer(tmp_path / "bart", "bart").specials["decoder_start"] == 0


def test_added_tokens_follow_the_vocabulary(folders, tmp_path, ours):
    size = ours["gpt2"].vocab_size
    for name, value in {
        "added_tokens.json": {"<x>": size},
        "tokenizer_config.json": {"added_tokens_decoder": {str(size): {"content": "<x>"}}},
    }.items():
        place = tmp_path / name
        shutil.copytree(folders["gpt2"], place)
        write(place, name, value)
        assert published_tokenizer(place, "gpt2").encode("a<x>b").tolist()[1] == size
    names = {f"<extra_id_{i}>" for i in range(7)}
    assert names <= ours["t5"].specials.keys()
    last = ours["t5"].vocab_size - 1
    assert (ours["t5"].specials["<extra_id_0>"], ours["t5"].specials["<extra_id_6>"]) == (
        last,
        last - 6,
    )


def test_pieces_show_the_space_before_a_word(ours):
    bert = ours["bert"]
    ids = bert.encode("the zthen!").tolist()
    assert "".join(bert.piece(i) for i in ids) == " the zthen !"
    assert len(ids) > 3
    assert bert.decode(ids) == "the zthen!"
    llama = ours["llama"]
    assert "".join(llama.piece(int(i)) for i in llama.encode("the cat 你")) == " the cat 你"
    rare = llama.encode("Ω").tolist()
    assert b"".join(map(llama.token_bytes, rare)) == " Ω".encode()
    assert llama.piece(rare[-1]) == "\\xa9"


def test_spaces_are_dropped_at_the_beginning_alone():
    drop = Beginning(Spelling(joined=True, spaces=2))
    assert [drop(raw) for raw in (b" ", b"", b"  a", b" b")] == [b"", b"", b" a", b" b"]
    drop = Beginning(Spelling(joined=True, first_marks=True))
    assert [drop(raw) for raw in (b" a ", b" b")] == [b"a", b" b"]


def test_what_is_missing_or_not_read_is_one_sentence(folders, tmp_path):
    with pytest.raises(DataError, match=r"has no tokenizer .*; give a folder with tokenizer.json"):
        published_tokenizer(tmp_path, "bert")
    with pytest.raises(DataError, match=r"cannot read the tokenizer of .*: Unrecognized model"):
        published_tokenizer(folders["bert"], "no such type")
    place = tmp_path / "bert"
    shutil.copytree(folders["bert"], place)
    (place / "vocab.txt").write_text("[UNK]\na\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"puts the id . around a text, which .* does not have"):
        published_tokenizer(place, "bert")
    shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    (tmp_path / "gpt2" / "merges.txt").write_text("a b c\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"[Mm]erges text file invalid at line 1"):
        published_tokenizer(tmp_path / "gpt2", "gpt2")


def test_a_package_that_is_missing_is_named_with_its_extra(folders, monkeypatch):
    for family, package in (("bert", "transformers"), ("t5", "sentencepiece")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ConfigError, match=rf"{package}.*pip install 'glassformer\[hub\]'"):
            published_tokenizer(folders[family], family)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_conversion_opens_no_socket(family, folders, monkeypatch):
    def refuse(*arguments, **named):
        pytest.fail("a connection")

    for name in ("socket", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    published_tokenizer(folders[family], family)


def test_the_class_that_a_folder_names_is_that_of_its_tokenizer(folders, tmp_path, ours):
    """As of a BERT with the tokenizer of XLM-R; one that transformers has not as a tokenizer.json
    is refused."""
    shutil.copytree(folders["xlm-roberta"], tmp_path / "e5")
    write(tmp_path / "e5", "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
    found = published_tokenizer(tmp_path / "e5", "bert")
    assert found.fingerprint == ours["xlm-roberta"].fingerprint
    shutil.copytree(folders["bert"], tmp_path / "japanese")
    write(tmp_path / "japanese", "config.json", {"tokenizer_class": "BertJapaneseTokenizer"})
    with pytest.raises(DataError, match="a BertJapaneseTokenizer, which transformers cannot write"):
        published_tokenizer(tmp_path / "japanese", "bert")


def message(number: int, raw: bytes) -> bytes:
    """A field of a protobuf message."""
    size, length = len(raw), b""
    while size > 127:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + raw


def piece(text: str, kind: int = 1, score: float = -1.0) -> bytes:
    return message(
        1, message(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind])
    )


UNKNOWN = piece("<unk>", 2)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "cannot read the tokenizer"),
        (UNKNOWN + b"\x0a\xff\xff\xff\xff\x0f", "as a SentencePiece model"),
        (UNKNOWN + message(3, message(2, b"\x08\x00\x00\x00")), "precompiled_charsmap"),
        (UNKNOWN + message(2, b"\x18\x03"), "a SentencePiece model of words or characters"),
        (UNKNOWN + message(3, b"\x28\x00"), "does not mark spaces"),
    ],
)
def test_a_damaged_sentencepiece_model_is_one_sentence(raw, sentence, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(raw)
    with pytest.raises(DataError, match=sentence):
        published_tokenizer(tmp_path, "llama")


def test_a_small_sentencepiece_model_is_read(tmp_path):
    pieces = (piece("▁"), piece("a"), piece("▁a", score=-0.5), piece("b", score=-2.0))
    (tmp_path / "tokenizer.model").write_bytes(UNKNOWN + b"".join(pieces))
    found = published_tokenizer(tmp_path, "llama")
    assert [found.piece(int(i)) for i in found.encode(" a  ba ")] == [" a", " ", "b", "a"]


def test_byte_pairs_are_merged_by_their_scores(tmp_path):
    """Not by their ids, as of several spaces in the models of Llama and Mistral."""
    pieces = (piece("▁"), piece("▁▁", score=-1e9), piece("a"), piece("▁a"))
    kind = message(2, b"\x18\x02") + message(3, b"\x20\x00")  # BPE that keeps spaces
    (tmp_path / "tokenizer.model").write_bytes(UNKNOWN + b"".join(pieces) + kind)
    found = published_tokenizer(tmp_path, "mistral")
    assert [found.piece(int(i)) for i in found.encode(" a")] == [" ", " a"]
    assert [found.piece(int(i)) for i in found.encode(" ")] == ["  "]


DEEP = b"[" * 100_000
HUGE = b'{"added_tokens_decoder": {"99999999999999999999": {"content": "a"}}}'
VALUES = (b"null", b"[]", b'{"bos_token": 3}', b'{"eos_token": {"content": "\\ud800"}}', b"{")


def damaged(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    match chance.randrange(5):
        case 0:
            return bytes(data[: chance.randrange(len(data))])
        case 1:
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 2:
            at = chance.randrange(len(data))
            data[at:at] = data[at // 2 : at]
        case 3:
            at = chance.randrange(len(data))
            del data[at : at + chance.randint(1, 30)]
        case _:
            return chance.choice((DEEP, HUGE, *VALUES, b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f"))
    return bytes(data)


@pytest.mark.parametrize("family", [*FAMILIES, "marian"])
def test_mutated_folders_raise_only_our_errors(family, folders, tmp_path):
    place = tmp_path / "damaged"
    if family == "marian":
        marian_folder(place)
    else:
        shutil.copytree(folders[family], place)
    for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        if not (place / name).exists():
            write(place, name, {})
    chance, refused = random.Random(family), list[str]()
    good = {path: path.read_bytes() for path in sorted(place.iterdir())}
    for _ in range(60):
        path = chance.choice(list(good))
        path.write_bytes(damaged(good[path] or b"{}", chance))
        try:
            tokenizer = published_tokenizer(place, family)
            tokenizer.decode(tokenizer.encode("the cat 你 </s> sat\n"))
        except GlassformerError as problem:
            refused.append(str(problem))
        path.write_bytes(good[path])
    assert not [sentence for sentence in refused if "\n" in sentence]
    assert 5 <= len(refused) < 60  # both outcomes are exercised
