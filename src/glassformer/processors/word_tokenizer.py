"""Words to tokens: every word is encoded by itself, so that no token crosses two words.

words    The      cats    sleep
ids      <bos>  The  c ats  sleep  <eos>
at              1      3    4               the last piece of each word, where its tag is read
                1    2      4               the first one, with tag_piece: first
"""

import string
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.processors.config import TagPiece
from glassformer.processors.processor import Window
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.windows import windows

MOST_KNOWN = 1 << 17
"""Most words whose pieces are kept."""
WHOLE = 1 << 40
"""A window that everything fits into."""


class WordTokenizer:
    """A text tokenizer that is given words; each is encoded as behind another one.

    `longest`: elements in a window; `overlap`: elements that windows share (None: half of them);
    `tag_piece`: the piece of a word where its tag is read.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        longest: int,
        overlap: int | None = None,
        tag_piece: TagPiece = "last",
    ):
        self.text = tokenizer
        self.tag_piece: TagPiece = tag_piece
        self.frame = tokenizer.frame_or("bos", "eos")
        self.room = longest - self.frame.size
        self.overlap = self.room // 2 if overlap is None else overlap
        self.longest_word = self.room // 2
        if self.longest_word < 1 or self.overlap >= self.room:
            raise ConfigError(
                f"data.overlap={self.overlap} leaves no room in a model of {longest} elements; "
                "make it smaller, or model.max_length larger."
            )
        self._known: dict[str, np.ndarray] = {}

    def pieces(self, word: str) -> np.ndarray:
        """Return the ids of a word, at least one; beyond half a window, its beginning and end."""
        if (found := self._known.get(word)) is not None:
            return found
        found = self.text.encode_word(word)
        if not len(found):
            found = placeholder(self.text)
        if len(found) > (most := self.longest_word):
            found = np.concatenate([found[: most // 2], found[len(found) - (most - most // 2) :]])
        if len(self._known) < MOST_KNOWN:
            self._known[word] = found
        return found

    def windows(self, words: Sequence[str]) -> Iterator[Window]:
        """All words in one window, or in several that overlap; each is a unit of one window."""
        if not words:
            return
        sizes = np.fromiter((len(self.pieces(word)) for word in words), np.int64, len(words))
        for window in windows(sizes, self.room, self.overlap):
            parts = [self.pieces(word) for word in words[window.begin : window.end]]
            at = tag_places(sizes[window.begin : window.end], len(self.frame.begin), self.tag_piece)
            own = at[window.own_begin - window.begin : window.own_end - window.begin]
            example = Example(self.frame.one(*parts), at=own)
            yield Window(example, slice(window.own_begin, window.own_end))


def tag_places(sizes: np.ndarray, begin: int, piece: TagPiece) -> np.ndarray:
    """The place of the last or the first piece of each word, int64, given the number of pieces of
    each and the place where the first word begins."""
    ends = np.cumsum(sizes, dtype=np.int64) + begin
    return ends - 1 if piece == "last" else ends - sizes


def placeholder(tokenizer: Tokenizer) -> np.ndarray:
    """The symbol for a text without tokens, int32 [1]; ConfigError: the tokenizer has none."""
    for role in ("unk", "mask", "pad"):
        if role in tokenizer.specials:
            return np.array([tokenizer.specials[role]], np.int32)
    raise ConfigError(
        "The tokenizer has neither a piece for every word nor <unk>; train one of kind bpe or byte."
    )


def split_punctuation(text: str) -> list[str]:
    """The words of a text as kind `word` splits it: at white space, punctuation marks apart."""
    found: list[str] = []
    for word in text.split():
        for alone, characters in groupby(word, _is_punctuation):
            part = list(characters)
            found += part if alone else ["".join(part)]
    return found


@cache
def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")
