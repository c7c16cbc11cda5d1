"""Places to cut a text into pieces that can be encoded apart without changing a token.

A cut lies before a space or newline that follows no white space: there every match of GPT-2's
pattern (and of words and punctuation) ends, and the pattern does not look back. Pieces join to the
text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

CHUNK, LONGEST_CHUNK = 1 << 14, 1 << 17
"""Characters that are encoded together, and the most without a good place: then a text is cut
anywhere, because the tokenizers library needs about a hundred bytes for each."""
PIECE = 1 << 22
"""Characters of a long text that are in memory at the same time."""
LONGEST = 2 * PIECE
"""Characters without a good place, after which a text is cut anywhere."""
_BREAK = re.compile(r"(?<=\S)[ \n]")


def chunks(text: str, size: int = CHUNK) -> Iterator[str]:
    """The text in pieces of about `size` characters; of more than LONGEST_CHUNK without a good
    place, cut anywhere."""
    start = 0
    while start < len(text):
        end = start + LONGEST_CHUNK
        if found := _BREAK.search(text, start + size, end):
            end = found.start()
        yield text[start:end]
        start = end


def pieces(texts: Iterable[str], size: int = PIECE, longest: int = LONGEST) -> Iterator[str]:
    """A text that comes in parts, in pieces of about `size` characters that can be encoded apart;
    of more than `longest` without a good place, cut anywhere."""
    rest, searched = "", 0
    for text in portions(texts, len, size):
        rest += "".join(text)
        found = _BREAK.search(rest, max(size, searched))
        while found or len(rest) > longest:
            end = found.start() if found else longest
            yield rest[:end]
            rest = rest[end:]
            found = _BREAK.search(rest, size)
        searched = max(0, len(rest) - 1)
    if rest:
        yield rest


def portions(items: Iterable[T], length: Callable[[T], int], size: int) -> Iterator[list[T]]:
    """Lists of items whose lengths are together about `size`."""
    own, total = list[T](), 0
    for item in items:
        own.append(item)
        total += length(item)
        if total >= size:
            yield own
            own, total = [], 0
    if own:
        yield own
