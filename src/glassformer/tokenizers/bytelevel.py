"""The spelling of bytes as printable characters in a byte-level vocabulary, which is JSON text."""

from itertools import count

_SHOWN = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("ÿ") + 1)} - {ord("\xad")}
_HIDDEN = count(256)
ALPHABET = tuple(chr(byte if byte in _SHOWN else next(_HIDDEN)) for byte in range(256))
"""ALPHABET[b] is the character of byte b: the same one if it is printable, else one from U+0100
on.

Source: openai/gpt-2, encoder.py, `bytes_to_unicode`; the `ByteLevel` parts of the tokenizers
library use the same.
"""

_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


def spell(raw: bytes) -> str:
    """The byte-level spelling of bytes."""
    return "".join(ALPHABET[byte] for byte in raw)


def unspell(spelling: str) -> bytes | None:
    """The bytes of a byte-level spelling, or None if it is not one."""
    try:
        return bytes(_BYTE_OF[character] for character in spelling)
    except KeyError:
        return None
