"""The content of a SentencePiece model: a protobuf message, read without its library.

    1 pieces            1 piece (text)   2 score (float)   3 type
    2 trainer_spec      3 model_type   24 treat_whitespace_as_suffix   35 byte_fallback
    3 normalizer_spec   2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
                        5 escape_whitespaces

Source: google/sentencepiece, src/sentencepiece_model.proto.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from glassformer.errors import DataError
from glassformer.files import read_bytes

LARGEST = 16 << 20
"""Bytes of a model; the largest published ones have about 5 MB."""
MOST_PIECES, LONGEST_PIECE = 1 << 20, 128
"""Most pieces, and most characters of one: a damaged file must not take minutes."""
MOST_CHARACTERS = 4 << 20
"""Most characters of all pieces, which the tokenizer library needs 300 bytes of memory for each of;
the largest published models have about 2 million."""


class Type(IntEnum):
    """What a piece is; GGUF has the same numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """A piece, its score, and what it is."""

    text: str
    score: float
    type: Type


@dataclass(frozen=True)
class SentencePieceModel:
    """The pieces of a model in the order of their ids, and how text is prepared for them."""

    pieces: tuple[Piece, ...]
    unigram: bool
    """True: unigram; False: byte pairs (BPE)."""
    byte_fallback: bool
    charsmap: bytes
    """Replacements of characters, as the library has them; b"": none."""
    dummy_prefix: bool
    """A space goes before a text."""
    one_space: bool
    """Spaces at the ends of a text are dropped, and several become one."""

    @property
    def unknown(self) -> int:
        """The id of the unknown piece."""
        return next(i for i, piece in enumerate(self.pieces) if piece.type is Type.UNKNOWN)


def read_sentencepiece(file: Path) -> SentencePieceModel:
    """The model of a file; DataError: missing, damaged, or of a kind that is not read."""
    raw = read_bytes(file, LARGEST, "a SentencePiece model")
    try:
        return _model(memoryview(raw))
    except _NotRead as problem:
        raise DataError(f"{file} {problem}; give the tokenizer as a tokenizer.json") from None
    except (ValueError, struct.error, IndexError) as problem:
        raise DataError(
            f"{file} is damaged or no SentencePiece model ({problem}); restore it"
        ) from None


class _NotRead(Exception):
    """A whole model of a kind that is not read."""


def _model(raw: memoryview) -> SentencePieceModel:
    pieces, trainer, normalizer = list[Piece](), dict[int, Value](), dict[int, Value]()
    for field, value in _fields(raw):
        if field == 1:
            pieces.append(_piece(dict(_fields(_message(value)))))
        elif field == 2:
            trainer |= dict(_fields(_message(value)))
        elif field == 3:
            normalizer |= dict(_fields(_message(value)))
        if len(pieces) > MOST_PIECES:
            raise ValueError(f"over {MOST_PIECES:,} pieces")
    kind = trainer.get(3, 1)
    if kind not in (1, 2) or trainer.get(24, 0) or not normalizer.get(5, 1):
        raise _NotRead(
            "is a SentencePiece model of words or characters, or one that does not mark spaces "
            "before words"
        )
    _check(pieces)
    charsmap = _charsmap(_message(normalizer.get(2, memoryview(b""))))
    flags = [bool(value) for value in (trainer.get(35, 0), normalizer.get(3, 1))]
    return SentencePieceModel(
        tuple(pieces), kind == 1, flags[0], charsmap, flags[1], bool(normalizer.get(4, 1))
    )


def _check(pieces: list[Piece]) -> None:
    if sum(len(piece.text) for piece in pieces) > MOST_CHARACTERS:
        raise ValueError(f"pieces of over {MOST_CHARACTERS:,} characters")
    if len({piece.text for piece in pieces}) < len(pieces):
        raise ValueError("a piece occurs twice")
    if [piece.type for piece in pieces].count(Type.UNKNOWN) != 1:
        raise ValueError("not one unknown piece")


def _charsmap(raw: memoryview) -> bytes:
    """A trie after its size in bytes, and texts: checked as far as no search is needed."""
    if raw:
        size = int.from_bytes(raw[:4], "little")
        if len(raw) < 4 or size % 4 or size > len(raw) - 4:
            raise ValueError("a charsmap that is cut short")
        str(raw[4 + size :], "utf-8")
    return bytes(raw)


def _piece(fields: "dict[int, Value]") -> Piece:
    text = str(_message(fields.get(1, memoryview(b""))), "utf-8")
    if not 0 < len(text) <= LONGEST_PIECE:
        raise ValueError(f"a piece of {len(text)} characters")
    score = fields.get(2, 0.0)
    if not isinstance(score, float) or not math.isfinite(score):
        raise ValueError("a score that is no number")
    kind = fields.get(3, 1)
    return Piece(text, score, Type(kind if isinstance(kind, int) else 0))


Value = int | float | memoryview


def _message(value: Value) -> memoryview:
    if not isinstance(value, memoryview):
        raise ValueError("a number in place of a message")
    return value


def _fields(raw: memoryview) -> Iterator[tuple[int, Value]]:
    """The number and the value of each field of a message."""
    at, end = 0, len(raw)
    while at < end:
        key, at = _varint(raw, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(raw, at)
            yield field, value
        elif wire == 2:
            size, at = _varint(raw, at)
            if size > end - at:
                raise ValueError("cut short")
            yield field, raw[at : at + size]
            at += size
        elif wire == 5:
            yield field, struct.unpack_from("<f", raw, at)[0]
            at += 4
        elif wire == 1:
            yield field, struct.unpack_from("<d", raw, at)[0]
            at += 8
        else:
            raise ValueError(f"a field of type {wire}")


def _varint(raw: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and the place behind it."""
    number, shift = 0, 0
    while shift < 70:
        byte = raw[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("a number of over ten bytes")
