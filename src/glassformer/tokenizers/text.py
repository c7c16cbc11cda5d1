"""The text tokenizer: text to ids and back.

A tokenizer is its definition, the content of a `tokenizer.json`; everything else is derived from
it.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import file_in, read_bytes, write_text
from glassformer.tokenizers import library, lookup
from glassformer.tokenizers.bytelevel import unspell
from glassformer.tokenizers.definition import (
    FOREIGN_ROLES,
    LARGEST_ID,
    ROLES,
    Kind,
    checked,
    kind_of,
    symbol_entry,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

LARGEST_FILE = 128 << 20
"""A tokenizer.json beyond this many bytes is refused; the largest published ones have about 35
MB."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
"""SentencePiece's spelling of a byte."""
CLOSING, OPENING = frozenset(",.;:!?…%)]}»”’"), frozenset("([{«“‘")
"""Marks without a space before them, and without one after them."""


@final
class Tokenizer:
    """Text to ids and back, defined by the content of a `tokenizer.json`.

    For byte, character and bpe: the joined `token_bytes` of `encode(text)` are the text's UTF-8
    bytes (character: if nothing was unknown). Special symbols that occur in a text are encoded as
    ordinary characters.
    """

    def __init__(self, definition: dict[str, Any], name: str = "the tokenizer") -> None:
        self._definition = checked(definition, name)
        self._name = name
        with library.guarded(f"read the tokenizer {name}"):
            self.kind: Kind = kind_of(self._definition)
            """byte, character, word, bpe; `library` for any other tokenizer.json."""
            self._spelling = self._read_spelling()
            symbols = self._read_symbols()
        self.vocab_size = max(self._spelling, default=-1) + 1
        """One more than the largest id: the size that an embedding needs."""
        self.specials = _roles(symbols)
        """Ids by role: unk, pad, bos, eos, mask where there is one; an extra symbol is its own
        role."""
        self._special_ids = frozenset(symbols.values())
        decoder = self._definition.get("decoder")
        self._spelled_bytes = isinstance(decoder, dict) and decoder.get("type") == "ByteLevel"
        self.bytewise = self._spelled_bytes or self.kind == "character"
        """Whether decoding joins `token_bytes`, token by token."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The tokenizer of a `tokenizer.json` (or of the folder that holds it); DataError:
        damaged."""
        file = file_in(path, "tokenizer.json")
        raw = read_bytes(file, LARGEST_FILE, "a tokenizer.json")
        with library.guarded(f"read {file} as JSON"):
            definition = json.loads(raw)
            if b"\\ud" in raw.lower():  # an escaped surrogate without its pair cannot be saved
                json.dumps(definition, ensure_ascii=False).encode("utf-8")
        tokenizer = cls(checked(definition, str(file)), str(file))
        if tokenizer.kind not in ("byte", "character"):  # which work without importing the library
            _ = tokenizer._library  # a damaged file must fail here, not at the first text
        return tokenizer

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `tokenizer.json` that `tokenizers.Tokenizer.from_file` loads too, replaced as
        one step."""
        write_text(Path(path), json.dumps(self._definition, ensure_ascii=False, indent=1))

    def with_symbols(self, symbols: Sequence[str]) -> Self:
        """This tokenizer with further special symbols, their ids after all others; ConfigError: an
        empty one, or one that it has already."""
        if not symbols:
            return self
        known = {*self._spelling.values()}
        added = [*self._added]
        for index, symbol in enumerate(symbols, self.vocab_size):
            if not symbol or symbol in known:
                what = f"{symbol!r}, a token that it has" if symbol else "an empty symbol"
                raise ConfigError(
                    f"processor.tokenizer.new_tokens adds {what}; give each new symbol once."
                )
            known.add(symbol)
            added.append(symbol_entry(index, symbol))
        made = type(self)(self._definition | {"added_tokens": added}, self._name)
        if [made.specials.get(symbol) for symbol in symbols] != [
            *range(self.vocab_size, made.vocab_size)
        ]:
            raise ConfigError(
                f"{self._name} numbers its tokens in a way to which processor.tokenizer.new_tokens "
                "cannot be added; leave them out."
            )
        return made

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the definition: equal exactly if two tokenizers are."""
        canonical = json.dumps(self._definition, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def reversible(self) -> bool:
        """Whether decode(encode(text)) == text for every text (character: for every text of known
        characters)."""
        plain = self._definition.get("normalizer") is None
        prefixed = '"add_prefix_space": true' in json.dumps(self._definition.get("pre_tokenizer"))
        return self.bytewise and plain and not prefixed

    @property
    def in_pieces(self) -> bool:
        """Whether a text may be encoded in the pieces of `cuts`; not by a tokenizer.json of another
        kind, whose cutting points are unknown."""
        return self.kind != "library"

    def at_least(self, text: str) -> int:
        """Fewest tokens that this text may have, without encoding it: characters / bytes of the
        longest token; 0 where tokens do not spell the text."""
        return -(-len(text) // self._longest) if self.reversible else 0

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest token, and so characters at most."""
        return max(len(self.token_bytes(index)) for index in self._spelling) or 1

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text as int32 [n]; DataError at an unpaired surrogate or if the tokenizer
        fails."""
        match self.kind:
            case "byte":
                return lookup.byte_ids(text)
            case "character":
                return lookup.character_ids(text, self._table)
            case "bpe" | "word":
                encode = library.encode_chunks
            case "library":
                encode = library.encode_whole
        lookup.utf8(text)
        return encode(self._library, text)

    def merges(self) -> tuple[list[tuple[str, str]], dict[str, int]]:
        """Of kind bpe: the pairs that are merged, best first, and the id of each spelling."""
        model = self._definition["model"]
        return [tuple(pair) for pair in model["merges"]], model["vocab"]

    def decode(self, ids: Sequence[int] | np.ndarray, skip_specials: bool = True) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD; words are joined as `spaced`
        (not reversible).

        `skip_specials` leaves out every special symbol but <unk>, which is shown. DataError: an id
        out of range.
        """
        kept = [i for i in map(int, ids) if not (skip_specials and self.skipped(i))]
        if self.bytewise:
            return b"".join(self.shown_bytes(i, False) for i in kept).decode(errors="replace")
        words = [self._known(i) for i in kept]
        if self.kind == "word":
            return spaced(words)
        with library.guarded("decode the tokens"):
            return self._library.decode(kept, skip_special_tokens=False)

    def skipped(self, index: int) -> bool:
        """Whether `decode` leaves this id out by default: a special symbol other than <unk>."""
        return index in self._special_ids and index != self.specials.get("unk")

    def shown_bytes(self, index: int, skip_specials: bool = True) -> bytes:
        """The decoded bytes of this id: of a special symbol its name, or nothing if skipped."""
        if index in self._special_ids:
            return b"" if skip_specials and self.skipped(index) else self._known(index).encode()
        return self.token_bytes(index)

    def token_bytes(self, index: int) -> bytes:
        """The exact bytes that a token stands for: none for a special symbol; a word without its
        space.

        Best effort for kind library where its decoder is not byte-level. DataError: an id out of
        the vocabulary.
        """
        spelling = self._known(index)
        if index in self._special_ids:
            return b""
        if self._spelled_bytes:
            raw = unspell(spelling)
            return spelling.encode() if raw is None else raw
        if self.kind == "library":
            if _BYTE.fullmatch(spelling):
                return bytes.fromhex(spelling[3:5])
            return spelling.removeprefix("##").replace("▁", " ").encode("utf-8", errors="replace")
        return spelling.encode("utf-8", errors="replace")

    def piece(self, index: int) -> str:
        r"""A printable form of a token: its text, with `\n` and so on for control characters and
        `\xe2` for bytes."""
        spelling = self._known(index)
        if index not in self._special_ids:
            spelling = self.token_bytes(index).decode("utf-8", "backslashreplace")
        return "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in spelling
        )

    def _known(self, index: int) -> str:
        spelling = self._spelling.get(index)
        if spelling is None:
            raise DataError(
                f"token id {index} is not in the vocabulary of {self.vocab_size}; use this model's "
                f"tokenizer"
            )
        return spelling

    @cached_property
    def _library(self) -> "Library":
        return library.built(self._definition, self._name)

    @cached_property
    def _table(self) -> np.ndarray:
        ordinary = {token: i for i, token in self._spelling.items() if i not in self._special_ids}
        return lookup.character_table(ordinary, self.specials["unk"])

    def _read_spelling(self) -> dict[int, str]:
        if self.kind != "library":
            vocab = self._definition["model"]["vocab"]
            added = {token["id"]: token["content"] for token in self._added}
            return {i: t for t, i in vocab.items()} | added
        vocab = self._library.get_vocab(with_added_tokens=True)
        if max(vocab.values(), default=0) >= LARGEST_ID:
            raise DataError(f"{self._name} has a token id beyond {LARGEST_ID}; restore the file")
        return {i: t for t, i in vocab.items()}

    def _read_symbols(self) -> dict[str, int]:
        if self.kind == "library":
            added = self._library.get_added_tokens_decoder()
            return {token.content: index for index, token in added.items() if token.special}
        symbols = {token["content"]: token["id"] for token in self._added}
        if self.kind in ("character", "word"):  # where a text can have unknown tokens
            model = self._definition["model"]
            unknown = model["unk_token"]
            symbols[ROLES["unk"]] = symbols.pop(unknown, model["vocab"][unknown])
        return symbols

    @property
    def _added(self) -> list[dict[str, Any]]:
        return self._definition.get("added_tokens") or []


def spaced(words: Sequence[str]) -> str:
    """Words joined by spaces, but none before `CLOSING` and after `OPENING` marks."""
    return "".join(gap(before, word) + word for before, word in pairwise(["", *words]))


def gap(before: str, word: str) -> str:
    """The space between two words, empty at the beginning of a text (`before` is "")."""
    return "" if not before or before[-1] in OPENING or word[:1] in CLOSING else " "


def _roles(symbols: dict[str, int]) -> dict[str, int]:
    """Ids by role, our own symbol for a role before other people's; symbols without a role under
    their own name."""
    roles = {
        role: next(symbols[name] for name in names if name in symbols)
        for role, names in FOREIGN_ROLES.items()
        if symbols.keys() & set(names)
    }
    return roles | {name: index for name, index in symbols.items() if index not in roles.values()}
