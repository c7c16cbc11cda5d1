"""Where a text may be cut so that its pieces can be encoded apart without changing a token.

A cut lies before a space or newline that follows no white space: there every match of GPT-2's
pattern (and of words and punctuation) ends whatever comes next, and the pattern does not look
behind. Pieces join to the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

CHUNK, LONGEST_CHUNK = 1 << 14, 1 << 17
"""Characters that are encoded at once, and the most without a good place: then a text is cut
anywhere, because the tokenizers library needs about a hundred bytes for each."""
PIECE = 1 << 22
"""Characters of a long text that are in memory at once."""
LONGEST = 2 * PIECE
"""Characters without a good place, after which a text is cut anywhere."""
_BREAK = re.compile(r"(?<=\S)[ \n]")


def chunks(text: str, size: int = CHUNK, longest: int = LONGEST_CHUNK) -> Iterator[str]:
    """The text in pieces of about `size` characters; of more than `longest` without a good place,
    cut anywhere."""
    start = 0
    while start < len(text):
        found = _BREAK.search(text, start + size, start + longest)
        end = found.start() if found else start + longest
        yield text[start:end]
        start = end


def pieces(texts: Iterable[str], size: int = PIECE, longest: int = LONGEST) -> Iterator[str]:
    """A text that comes in parts, in pieces of about `size` characters that can be encoded apart;
    of more than `longest` without a good place, cut anywhere."""
    held: list[str] = []
    length = searched = 0
    for text in texts:
        held.append(text)
        length += len(text)
        if length < size:
            continue
        whole = "".join(held)
        found = _BREAK.search(whole, max(size, searched))
        while found or len(whole) > longest:
            end = found.start() if found else longest
            yield whole[:end]
            whole = whole[end:]
            found = _BREAK.search(whole, size) if len(whole) > size else None
        held, length, searched = [whole], len(whole), max(0, len(whole) - 1)
    if length:
        yield "".join(held)


def portions(items: Iterable[T], length: Callable[[T], int], size: int) -> Iterator[list[T]]:
    """Lists of items whose lengths are together about `size`."""
    held, total = list[T](), 0
    for item in items:
        held.append(item)
        total += length(item)
        if total >= size:
            yield held
            held, total = [], 0
    if held:
        yield held
