"""The `tokenizer.bin` of llama2.c: the pieces of a SentencePiece model in the order of their ids.

    uint32 (bytes of the longest), then of each piece: float32 score, uint32 size, UTF-8 bytes

Spaces stand for the mark of words; what a piece is follows from its id and its text: 0 is the
unknown piece, 1 begins a text, 2 ends one, <0x00> to <0xFF> are bytes.

Source: karpathy/llama2.c, tokenizer.py and run.c.
"""

import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import DataError
from glassformer.files import read_bytes
from glassformer.tokenizers.decoding import MARK
from glassformer.tokenizers.sentencepiece import (
    LARGEST,
    LONGEST_PIECE,
    MOST_PIECES,
    Piece,
    SentencePieceModel,
    Type,
)

FILE = "tokenizer.bin"
SYMBOLS = (("<unk>", Type.UNKNOWN), ("<s>", Type.CONTROL), ("</s>", Type.CONTROL))


def read_llama2c(file: Path) -> SentencePieceModel:
    """The model of a file; DataError: missing, or damaged."""
    raw = read_bytes(file, LARGEST, "a tokenizer.bin")
    try:
        pieces = tuple(_pieces(raw))
        if len(pieces) < len(SYMBOLS) or len({piece.text for piece in pieces}) < len(pieces):
            raise ValueError("it has too few pieces, or one twice")
    except (ValueError, struct.error) as problem:
        raise DataError(
            f"{file} is no tokenizer of llama2.c ({problem}); write it again by its tokenizer.py, "
            "or give the tokenizer as a tokenizer.json"
        ) from None
    bytewise = any(piece.type is Type.BYTE for piece in pieces)
    return SentencePieceModel(pieces, False, bytewise, b"", True, False)


def _pieces(raw: bytes) -> Iterator[Piece]:
    at, index = 4, 0
    while at < len(raw):
        score, size = struct.unpack_from("<fI", raw, at)
        text = raw[at + 8 : at + 8 + size].decode("utf-8").replace(" ", MARK)
        if not 0 < size <= 4 * LONGEST_PIECE or not math.isfinite(score) or index >= MOST_PIECES:
            raise ValueError(f"piece {index} has {size} bytes and the score {score}")
        kind = Type.BYTE if re.fullmatch("<0x[0-9A-F]{2}>", text) else Type.NORMAL
        if index < len(SYMBOLS):
            text, kind = SYMBOLS[index]
        yield Piece(text, score, kind)
        at, index = at + 8 + size, index + 1
    if at != len(raw):
        raise ValueError("it is cut short")
