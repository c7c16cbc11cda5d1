"""The content of a `tokenizer.json` as a plain value: definitions of our kinds, and the kind of a
definition.

The layout is that of the tokenizers library, which loads these files. Ordinary tokens
come first (byte and bpe: ids 0..255 are the bytes), special symbols after them. Without tokens, the
kinds stand in `definitions.json`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import ConfigError, DataError
from glassformer.files import read_bytes
from glassformer.tokenizers import library
from glassformer.tokenizers.bytelevel import ALPHABET

Kind = Literal["byte", "character", "word", "bpe", "library"]
"""`library`: any other tokenizer.json, left to the tokenizers library."""

ROLES = {"unk": "<unk>", "pad": "<pad>", "bos": "<bos>", "eos": "<eos>", "mask": "<mask>"}
"""The role of each standard special symbol, in the order of their ids."""

FOREIGN_ROLES = {
    "unk": ("<unk>", "[UNK]"),
    "pad": ("<pad>", "[PAD]"),
    "bos": ("<bos>", "<s>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos": ("<eos>", "</s>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}
"""The symbols of the same roles in published tokenizers."""

LARGEST_ID = 1 << 24
LARGEST_GAP = 1 << 16
"""Ids without a token, among others, that are named."""
LARGEST_FILE = 128 << 20
"""A tokenizer.json beyond this many bytes is refused; the largest published ones have about 35
MB."""
LOWERCASE = {"type": "Lowercase"}
_EMPTY = files("glassformer.tokenizers").joinpath("definitions.json").read_text(encoding="utf-8")
_KINDS: dict[str, dict[str, Any]] = json.loads(_EMPTY)
_FOREIGN = ("dropout", "byte_fallback", "end_of_word_suffix", "continuing_subword_prefix")
"""Options of a model that none of our kinds has."""
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


def byte_definition(extra: Sequence[str] = ()) -> dict[str, Any]:
    """Every byte a token: ids 0..255, then the specials."""
    return _definition("byte", ALPHABET, extra)


def character_definition(characters: Sequence[str], extra: Sequence[str] = ()) -> dict[str, Any]:
    """Every known character a token, in the given order, then <unk> and the other specials."""
    return _definition("character", [*characters, ROLES["unk"]], extra)


def word_definition(
    words: Sequence[str], lowercase: bool, extra: Sequence[str] = ()
) -> dict[str, Any]:
    """Every known word or punctuation mark a token, then <unk> and the other specials."""
    definition = _definition("word", [*words, ROLES["unk"]], extra)
    return definition | {"normalizer": LOWERCASE if lowercase else None}


def bpe_definition(merges: Sequence[tuple[str, str]], extra: Sequence[str] = ()) -> dict[str, Any]:
    """The 256 bytes, then one token per distinct merge (in byte-level spelling, in order), then the
    specials."""
    tokens = dict.fromkeys([*ALPHABET, *(left + right for left, right in merges)])
    definition = _definition("bpe", tokens, extra)
    definition["model"]["merges"] = [list(pair) for pair in merges]
    return definition


def _definition(kind: str, tokens: Iterable[str], extra: Sequence[str]) -> dict[str, Any]:
    definition = json.loads(_EMPTY)[kind]
    vocab = {token: index for index, token in enumerate(tokens)}
    definition["model"]["vocab"] = vocab
    unknown = definition["model"]["unk_token"]
    specials = [*(symbol for symbol in ROLES.values() if unknown or symbol != ROLES["unk"]), *extra]
    if len(set(specials)) != len(specials) or "" in specials:
        raise ConfigError(
            "processor.tokenizer.specials has an empty, repeated or built-in symbol; give others "
            f"than {specials}"
        )
    following = len(vocab)
    for symbol in specials:
        if symbol in vocab and symbol != unknown:
            raise ConfigError(
                f"the special symbol {symbol!r} is also an ordinary token; write it like "
                f"'<{symbol}>'"
            )
        definition["added_tokens"].append(symbol_entry(vocab.get(symbol, following), symbol))
        following += symbol not in vocab
    return definition


def symbol_entry(index: int, symbol: str) -> dict[str, Any]:
    """A special symbol as it stands among the added tokens."""
    return {"id": index, "content": symbol, **_PLAIN, "special": True}


def kind_of(definition: dict[str, Any]) -> Kind:
    """The kind of a definition, by its structure alone; `library` if it is none of ours
    exactly."""
    model = definition["model"]
    regular = _regular(model.get("vocab"), definition.get("added_tokens") or [])
    if not regular or any(model.get(name) for name in _FOREIGN):
        return "library"
    match model.get("type"), definition.get("normalizer"):
        case "WordLevel", normalizer if normalizer in (None, LOWERCASE):
            return _word_kind(definition, model)
        case "BPE", None:
            return _pieces_kind(definition, model)
    return "library"


def _word_kind(definition: dict[str, Any], model: dict[str, Any]) -> Kind:
    split = definition.get("pre_tokenizer") == _KINDS["word"]["pre_tokenizer"]
    known = split and definition.get("decoder") is None
    return "word" if known and model.get("unk_token") in model["vocab"] else "library"


def _pieces_kind(definition: dict[str, Any], model: dict[str, Any]) -> Kind:
    before, decoder = definition.get("pre_tokenizer"), definition.get("decoder")
    vocab, unknown, merges = model["vocab"], model.get("unk_token"), bool(model.get("merges"))
    if before is None and decoder == _KINDS["character"]["decoder"]:
        single = unknown in vocab and all(map(_is_character, vocab.keys() - {unknown}))
        return "character" if single and not merges else "library"
    if not isinstance(before, dict) or not isinstance(decoder, dict):
        return "library"
    if decoder.get("type") != "ByteLevel":
        return "library"
    return _byte_level_kind(before, vocab, merges)


def _is_character(token: str) -> bool:
    return len(token) == 1 and not "\ud800" <= token <= "\udfff"


def _byte_level_kind(before: dict[str, Any], vocab: dict[str, int], merges: bool) -> Kind:
    split, before = _KINDS["bpe"]["pre_tokenizer"], before | {"trim_offsets": True}
    if split | before == split and vocab.keys() >= set(ALPHABET):
        return "bpe"
    bytes_only = vocab == {character: byte for byte, character in enumerate(ALPHABET)}
    whole = before == _KINDS["byte"]["pre_tokenizer"] and bytes_only and not merges
    return "byte" if whole else "library"


def checked(definition: object, name: str) -> dict[str, Any]:
    """The definition, if it has the outline of a tokenizer.json; DataError naming the file if
    not."""
    if not isinstance(definition, dict) or not isinstance(definition.get("model"), dict):
        raise DataError(
            f"{name} is not a tokenizer.json: it has no 'model'; give a file saved by a tokenizer"
        )
    added = definition.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise DataError(
            f"{name} is damaged: its 'added_tokens' is not a list of tokens; restore the file"
        )
    return definition


def read_definition(file: Path) -> dict[str, Any]:
    """The content of a `tokenizer.json`; DataError: missing or damaged."""
    raw = read_bytes(file, LARGEST_FILE, "a tokenizer.json")
    with library.guarded(f"read {file} as JSON"):
        definition = json.loads(raw)
        if b"\\ud" in raw.lower():  # an escaped surrogate without its pair cannot be saved
            json.dumps(definition, ensure_ascii=False).encode("utf-8")
    return checked(definition, str(file))


def _regular(vocab: object, added: list[dict[str, Any]]) -> bool:
    """Whether ids are distinct small integers and specials follow the ordinary tokens, as the
    library numbers them."""
    if not isinstance(vocab, dict) or any(type(i) is not int for i in vocab.values()):
        return False
    if len(vocab) > LARGEST_ID or set(vocab.values()) != set(range(len(vocab))):
        return False
    following = len(vocab)
    for token in added:
        content = token.get("content")
        index = vocab.get(content, following) if isinstance(content, str) and content else None
        if type(token.get("id")) is not int or token["id"] != index:
            return False
        if token.get("special") is not True:
            return False
        following += content not in vocab
    return True


def names_of_gaps(spelling: Mapping[int, str]) -> dict[int, str]:
    """Return a name for each id between others that no token has: a model may choose it."""
    size = max(spelling, default=-1) + 1
    if size - len(spelling) not in range(1, LARGEST_GAP):
        return {}
    return {index: f"<unused id {index}>" for index in set(range(size)) - spelling.keys()}
