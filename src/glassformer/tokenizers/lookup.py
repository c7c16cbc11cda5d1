"""Encoding by tables: one NumPy gather over bytes or code points, about a millisecond per
megabyte."""

import numpy as np

from glassformer.errors import DataError


def utf8(text: str) -> bytes:
    """The text in UTF-8; DataError at an unpaired surrogate, which no UTF-8 text can hold."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise DataError(
            f"the text has an unpaired surrogate (U+{ord(text[problem.start]):04X}) at character "
            f"{problem.start}, which UTF-8 cannot hold; remove it, or decode its source with the "
            f"right encoding"
        ) from None


def byte_ids(text: str) -> np.ndarray:
    """The bytes of the text as int32 ids 0..255."""
    return np.frombuffer(utf8(text), dtype=np.uint8).astype(np.int32)


def code_points(text: str) -> np.ndarray:
    """The code points of the text, one per character."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeEncodeError:
        utf8(text)  # says where
        raise


def character_table(ids: dict[str, int], unknown: int) -> np.ndarray:
    """table[c] is the id of code point c, `unknown` elsewhere; the last entry stands for all higher
    code points."""
    table = np.full(max(map(ord, ids), default=0) + 2, unknown, dtype=np.int32)
    table[[ord(character) for character in ids]] = list(ids.values())
    return table


def character_ids(text: str, table: np.ndarray) -> np.ndarray:
    """One int32 id per character."""
    return table.take(code_points(text), mode="clip")
