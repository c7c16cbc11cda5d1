"""What a `tokenizer.json` says, as a plain value: the definitions of our kinds, and which kind a
definition is.

The layout is that of the tokenizers library, so that it loads what is written here. Ordinary tokens
come first (byte and bpe: ids 0..255 are the bytes), special symbols after them.
"""

from collections.abc import Sequence
from typing import Any, Literal

from glassformer.errors import ConfigError, DataError
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
"""What other people's tokenizers call the same roles."""

LARGEST_ID = 1 << 24

_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
_WORDS = {
    "type": "Sequence",
    "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}],
}


def byte_definition(extra: Sequence[str] = ()) -> dict[str, Any]:
    """Every byte a token: ids 0..255, then the specials."""
    vocab = {character: byte for byte, character in enumerate(ALPHABET)}
    pieces = {"pre_tokenizer": _BYTE_LEVEL | {"use_regex": False}, "decoder": _BYTE_LEVEL}
    return _definition(_bpe(vocab, []), [*list(ROLES.values())[1:], *extra], pieces)


def character_definition(characters: Sequence[str], extra: Sequence[str] = ()) -> dict[str, Any]:
    """Every known character a token, in the given order, then <unk> and the other specials."""
    vocab = {character: index for index, character in enumerate(characters)} | {
        ROLES["unk"]: len(characters)
    }
    return _definition(
        _bpe(vocab, []) | {"unk_token": ROLES["unk"]}, [*ROLES.values(), *extra], {"decoder": _FUSE}
    )


def word_definition(
    words: Sequence[str], lowercase: bool, extra: Sequence[str] = ()
) -> dict[str, Any]:
    """Every known word or punctuation mark a token, then <unk> and the other specials."""
    vocab = {word: index for index, word in enumerate(words)} | {ROLES["unk"]: len(words)}
    pieces = {"pre_tokenizer": _WORDS, "normalizer": {"type": "Lowercase"} if lowercase else None}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": ROLES["unk"]}
    return _definition(model, [*ROLES.values(), *extra], pieces)


def bpe_definition(merges: Sequence[tuple[str, str]], extra: Sequence[str] = ()) -> dict[str, Any]:
    """The 256 bytes, then one token per distinct merge (in byte-level spelling, in order), then the
    specials."""
    vocab = {character: byte for byte, character in enumerate(ALPHABET)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    pieces = {"pre_tokenizer": _BYTE_LEVEL, "decoder": _BYTE_LEVEL}
    return _definition(
        _bpe(vocab, [list(pair) for pair in merges]), [*list(ROLES.values())[1:], *extra], pieces
    )


def kind_of(definition: dict[str, Any]) -> Kind:
    """Which of our kinds a definition is, by its structure alone; `library` if it is none of them
    exactly."""
    model = definition["model"]
    regular = _regular(model.get("vocab"), definition.get("added_tokens") or [])
    if not regular or any(model.get(name) for name in _FOREIGN):
        return "library"
    if model.get("type") == "WordLevel":
        return _word_kind(definition)
    if model.get("type") != "BPE" or definition.get("normalizer") is not None:
        return "library"
    before, decoder = definition.get("pre_tokenizer"), definition.get("decoder")
    if before is None and decoder == _FUSE:
        return _character_kind(model)
    if not isinstance(before, dict) or not isinstance(decoder, dict):
        return "library"
    if decoder.get("type") != "ByteLevel":
        return "library"
    return _byte_level_kind(before, model["vocab"], bool(model.get("merges")))


_FOREIGN = ("dropout", "byte_fallback", "end_of_word_suffix", "continuing_subword_prefix")
"""Options of a model that none of our kinds has."""


def _word_kind(definition: dict[str, Any]) -> Kind:
    model = definition["model"]
    lowered = definition.get("normalizer") in (None, {"type": "Lowercase"})
    known = definition.get("pre_tokenizer") == _WORDS and definition.get("decoder") is None
    return "word" if known and lowered and model.get("unk_token") in model["vocab"] else "library"


def _character_kind(model: dict[str, Any]) -> Kind:
    unknown = model.get("unk_token")
    ordinary = [token for token in model["vocab"] if token != unknown]
    single = all(len(token) == 1 and not "\ud800" <= token <= "\udfff" for token in ordinary)
    known = single and unknown in model["vocab"] and not model.get("merges")
    return "character" if known else "library"


def _byte_level_kind(before: dict[str, Any], vocab: dict[str, int], merges: bool) -> Kind:
    if {**_BYTE_LEVEL, **before, "trim_offsets": True} == _BYTE_LEVEL and all(
        c in vocab for c in ALPHABET
    ):
        return "bpe"
    whole = {**before, "trim_offsets": True} == _BYTE_LEVEL | {"use_regex": False}
    same = len(vocab) == len(ALPHABET) and all(
        vocab.get(character) == b for b, character in enumerate(ALPHABET)
    )
    return "byte" if whole and same and not merges else "library"


def checked(definition: object, name: str) -> dict[str, Any]:
    """The definition, if it has the outline of a tokenizer.json; DataError naming the file if
    not."""
    if not isinstance(definition, dict) or not isinstance(definition.get("model"), dict):
        raise DataError(
            f"{name} is not a tokenizer.json: it has no 'model'; give a file saved by a tokenizer"
        )
    added = definition.get("added_tokens")
    if added is not None and not (
        isinstance(added, list) and all(isinstance(token, dict) for token in added)
    ):
        raise DataError(
            f"{name} is damaged: its 'added_tokens' is not a list of tokens; restore the file"
        )
    return definition


def _regular(vocab: object, added: list[dict[str, Any]]) -> bool:
    """Whether ids are distinct small integers and specials follow the ordinary tokens, as the
    library numbers them."""
    if not isinstance(vocab, dict) or not all(
        type(i) is int and 0 <= i < LARGEST_ID for i in vocab.values()
    ):
        return False
    if len(set(vocab.values())) != len(vocab) or max(vocab.values(), default=-1) != len(vocab) - 1:
        return False
    following = len(vocab)
    for token in added:
        content, index = token.get("content"), token.get("id")
        if (
            not isinstance(content, str)
            or not content
            or type(index) is not int
            or token.get("special") is not True
        ):
            return False
        if index != vocab.get(content, following):
            return False
        following += content not in vocab
    return True


_FUSE = {"type": "Fuse"}


def _bpe(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    nothing = {
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
    }
    flags = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE"} | nothing | flags | {"vocab": vocab, "merges": merges}


def _definition(
    model: dict[str, Any], specials: list[str], pieces: dict[str, Any]
) -> dict[str, Any]:
    if len(set(specials)) != len(specials) or "" in specials:
        raise ConfigError(
            f"tokenizer.specials has an empty, repeated or built-in symbol; give others than "
            f"{specials}"
        )
    plain = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    added, following = [], len(model["vocab"])
    for symbol in specials:
        if symbol in model["vocab"] and symbol != model.get("unk_token"):
            raise ConfigError(
                f"the special symbol {symbol!r} is also an ordinary token; write it like "
                f"'<{symbol}>'"
            )
        added.append({"id": model["vocab"].get(symbol, following), "content": symbol, **plain})
        following += symbol not in model["vocab"]
    empty = dict.fromkeys(
        ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    )
    return {"version": "1.0"} | empty | {"added_tokens": added} | pieces | {"model": model}
