"""The content of a `tokenizer.json` as a plain value: definitions of our kinds, and the kind of a
definition.

The layout is that of the tokenizers library, which loads these files. Ordinary tokens
come first (byte and bpe: ids 0..255 are the bytes), special symbols after them. Without tokens, the
kinds are in `definitions.json`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import Values, read_bytes
from glassformer.tokenizers import library
from glassformer.tokenizers.decoding import ALPHABET

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
_KINDS: dict[Kind, Values] = json.loads(_EMPTY)
_CONTENT = ("vocab", "merges", "trim_offsets")
"""Fields in which tokenizers of one kind differ."""
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


def byte_definition(extra: Sequence[str] = ()) -> Values:
    """Every byte a token: ids 0..255, then the specials."""
    return _definition("byte", ALPHABET, extra)


def character_definition(characters: Sequence[str], extra: Sequence[str] = ()) -> Values:
    """Every known character a token, in the given order, then <unk> and the other specials."""
    return _definition("character", [*characters, ROLES["unk"]], extra)


def word_definition(words: Sequence[str], lowercase: bool, extra: Sequence[str] = ()) -> Values:
    """Every known word or punctuation mark a token, then <unk> and the other specials."""
    definition = _definition("word", [*words, ROLES["unk"]], extra)
    return definition | {"normalizer": LOWERCASE if lowercase else None}


def bpe_definition(merges: Sequence[tuple[str, str]], extra: Sequence[str] = ()) -> Values:
    """The 256 bytes, then one token per distinct merge (in byte-level spelling, in order), then the
    specials."""
    tokens = dict.fromkeys([*ALPHABET, *(left + right for left, right in merges)])
    definition = _definition("bpe", tokens, extra)
    definition["model"]["merges"] = [list(pair) for pair in merges]
    return definition


def _definition(kind: str, tokens: Iterable[str], extra: Sequence[str]) -> Values:
    definition = json.loads(_EMPTY)[kind]
    vocab = definition["model"]["vocab"] = {token: index for index, token in enumerate(tokens)}
    unknown = definition["model"]["unk_token"]
    specials = [*ROLES.values(), *extra][not unknown :]
    if len(set(specials)) != len(specials) or "" in specials:
        raise ConfigError(
            "processor.tokenizer.specials has an empty, repeated or built-in symbol; give others "
            f"than {specials}"
        )
    for symbol in specials:
        if symbol in vocab and symbol != unknown:
            raise ConfigError(
                f"the special symbol {symbol!r} is also an ordinary token; write it like "
                f"'<{symbol}>'"
            )
    names = dict.fromkeys([*vocab, *specials])
    ids = {name: index for index, name in enumerate(names)}
    definition["added_tokens"] = [symbol_entry(ids[symbol], symbol) for symbol in specials]
    return definition


def symbol_entry(index: int, symbol: str) -> Values:
    """A special symbol in the form of added tokens."""
    return {"id": index, "content": symbol, **_PLAIN, "special": True}


def kind_of(definition: Values) -> Kind:
    """The kind of a definition, by its structure only; `library` if it is none of ours exactly."""
    model, added = definition["model"], definition.get("added_tokens") or []
    vocab, merges, unknown = model.get("vocab"), model.get("merges"), ROLES["unk"]
    if not isinstance(vocab, dict) or sorted(vocab.values()) != [*range(len(vocab))]:
        return "library"
    if not _are_special(added, vocab):
        return "library"
    ordinary = vocab.keys() - {unknown}
    fits: dict[Kind, bool] = {
        "byte": vocab == {token: byte for byte, token in enumerate(ALPHABET)} and not merges,
        "bpe": vocab.keys() >= set(ALPHABET),
        "character": unknown in vocab and not merges and max(map(len, ordinary), default=1) == 1,
        "word": unknown in vocab,
    }
    for kind, own in _KINDS.items():
        plain = definition.get("normalizer") in ((None, LOWERCASE) if kind == "word" else (None,))
        if fits[kind] and plain and _shape(definition) == _shape(own):
            return kind
    return "library"


def _are_special(added: Iterable[Values], vocab: Mapping[str, int]) -> bool:
    """Whether all added tokens are special symbols, numbered as the library does."""
    ids = dict(vocab)
    return all(
        token.get("special") and token["id"] == ids.setdefault(token["content"], len(ids))
        for token in added
    )


def _shape(definition: Values) -> list[Any]:
    """Return cutting, model and decoder without options that are off: kinds differ in these."""
    steps = [definition.get("pre_tokenizer") or {}, definition["model"]]
    on = [{k: v for k, v in ({"use_regex": True} | one).items() if v} for one in steps]
    plain = [{k: v for k, v in one.items() if k not in _CONTENT} for one in on]
    return [*plain, (definition.get("decoder") or {}).get("type")]


def check_definition(definition: object, name: str) -> Values:
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


def read_definition(file: Path) -> Values:
    """The content of a `tokenizer.json`; DataError: missing or damaged."""
    raw = read_bytes(file, LARGEST_FILE, "a tokenizer.json")
    with library.guard(f"read {file} as JSON"):
        definition = json.loads(raw)
        if b"\\ud" in raw.lower():  # an escaped surrogate without its pair cannot be saved
            json.dumps(definition, ensure_ascii=False).encode("utf-8")
    return check_definition(definition, str(file))


def names_of_gaps(spelling: Mapping[int, str]) -> dict[int, str]:
    """Return a name for each id between others that no token has: a model may choose it."""
    size = max(spelling, default=-1) + 1
    if size - len(spelling) not in range(1, LARGEST_GAP):
        return {}
    return {index: f"<unused id {index}>" for index in set(range(size)) - spelling.keys()}
