"""Spelling of text by the pieces of a tokenizer, read from the `decoder` of its definition.

byte-level     Ġcat          " cat"
marked         ▁cat <0xC3>   " cat", one byte
WordPiece      cat  ##s      " cat", "s"
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from glassformer.core.files import Values

MARK = "▁"
"""SentencePiece's mark of a space."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
"""SentencePiece's spelling of a byte."""
CLOSING, OPENING = frozenset(",.;:!?…%)]}»”’"), frozenset("([{«“‘")
"""Marks without a space before them, and without one after them."""


_SHOWN = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("ÿ") + 1)} - {ord("\xad")}
_HIDDEN = count(256)
ALPHABET = tuple(chr(byte if byte in _SHOWN else next(_HIDDEN)) for byte in range(256))
"""ALPHABET[b] is the character of byte b: the same one if it is printable, else one from U+0100
on.

Source: openai/gpt-2, encoder.py, `bytes_to_unicode`; the `ByteLevel` parts of the tokenizers
library use the same.
"""

_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


@dataclass(frozen=True)
class Spelling:
    """Meaning of each piece, and what is dropped at the beginning of a text."""

    byte_level: bool = False
    joined: bool = False
    """Whether a text is the joined bytes of its pieces, but for its beginning."""
    continuing: str = ""
    """WordPiece: what a piece begins with that continues a word; the others begin one."""
    named_bytes: bool = True
    """Whether <0xC3> is a byte."""
    first_marks: bool = False
    """Whether the first piece loses its spaces."""
    spaces: int = 0
    """Most spaces that are dropped at the beginning of a text."""

    def bytes_of(self, piece: str) -> bytes:
        """The bytes of a piece, with the space before a word."""
        if self.byte_level and _BYTE_OF.keys() >= {*piece}:
            return bytes(map(_BYTE_OF.__getitem__, piece))
        if not self.byte_level and self.named_bytes and _BYTE.fullmatch(piece):
            return bytes.fromhex(piece[3:5])
        text = piece if self.byte_level else piece.replace(MARK, " ")
        if self.continuing:
            rest = piece.removeprefix(self.continuing)
            text = f" {piece}" if rest == piece else rest
        return text.encode("utf-8", "replace")


class Beginning:
    """Drops what a spelling drops at the beginning of a text, piece by piece."""

    def __init__(self, spelling: Spelling):
        self._first, self._left = spelling.first_marks, spelling.spaces

    def __call__(self, raw: bytes) -> bytes:
        """Return what is shown of the next piece."""
        if self._first:
            self._first = False
            raw = raw.replace(b" ", b"")
        if self._left and raw:
            kept = raw.lstrip(b" ")
            dropped = min(self._left, len(raw) - len(kept))
            self._left = 0 if kept else self._left - dropped
            raw = raw[dropped:]
        return raw


def spelling_of(definition: Values) -> Spelling:
    """The spelling of a definition, checked by the library before; what is none of the known
    kinds is not `joined`."""
    steps = _steps(definition.get("decoder"))
    kinds = [step.get("type") for step in steps]
    match kinds:
        case ["ByteLevel"]:
            return Spelling(byte_level=True, joined=True)
        case ["WordPiece"]:
            return Spelling(continuing=steps[0].get("prefix") or "##")
        case ["Metaspace"] | ["ByteFallback", "Metaspace"]:
            step = steps[-1]
            never = step.get("prepend_scheme") == "never" or step.get("add_prefix_space") is False
            joined = step.get("replacement") == MARK
            return Spelling(joined=joined, named_bytes=len(kinds) > 1, first_marks=not never)
        case ["Replace", *rest] if steps[0] == _SPACES:
            # marks to spaces, named bytes to bytes, then perhaps spaces dropped at the beginning
            named = rest[:1] == ["ByteFallback"]
            match rest[named:]:
                case [] | ["Fuse"]:
                    return Spelling(joined=True, named_bytes=named)
                case ["Fuse", "Strip"]:
                    last = steps[-1]
                    plain = last.get("content") == " " and not last.get("stop")
                    start = last.get("start")
                    spaces = start if isinstance(start, int) else 0
                    return Spelling(joined=plain, named_bytes=named, spaces=spaces)
        case [] if definition["model"].get("type") == "WordPiece":
            return Spelling(continuing=definition["model"].get("continuing_subword_prefix") or "##")
    return Spelling()


_SPACES = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}


def _steps(decoder: Any) -> list[Values]:
    if not isinstance(decoder, dict):
        return []
    if decoder.get("type") != "Sequence":
        return [decoder]
    return [step for one in decoder.get("decoders") or [] for step in _steps(one)]


def join_words(words: Sequence[str]) -> str:
    """Words joined by spaces, but none before `CLOSING` and after `OPENING` marks."""
    return "".join(gap(before, word) + word for before, word in pairwise(["", *words]))


def gap(before: str, word: str) -> str:
    """The space between two words, empty at the beginning of a text (`before` is "")."""
    return "" if not before or before[-1] in OPENING or word[:1] in CLOSING else " "
