"""Texts, words, images and audio as the sequences of a model, in the frame of a tokenizer.

A decoder reads parts and writes an answer and <eos> after them.
An encoder-decoder reads them as its source, and its answer begins with <bos>.

    text   ->  <bos> text <eos>
    pair   ->  <bos> text <eos> other <eos>     token_type_ids  0 0 0 1 1
    words  ->  <bos> The  c ats  sleep  <eos>
               at  1      3    4                with word_at: last
    parts  ->  <bos> [patches]  what  is  this  <eos>
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example, Patches
from glassformer.processors.config import WordPiece
from glassformer.processors.processor import Window
from glassformer.processors.tokens.elements import Content
from glassformer.processors.tokens.text_reader import parts_of
from glassformer.processors.tokens.windows import windows
from glassformer.tokenizers.roles import START
from glassformer.tokenizers.text import Tokenizer

TEXT = "text"
"""The kind of part that is read as tokens; the others are patches."""
MOST_KNOWN = 1 << 17
"""Most words whose pieces are kept."""
WHOLE = 1 << 40
"""A length that everything fits into."""
Part = str | list[np.ndarray] | np.ndarray
"""A text; the ids of each of several words, which have places; or patches [N, P]."""


class SequenceBuilder:
    """A tokenizer and the longest sequence of a model.

    `overlap`: elements that windows share (None: half of them); `word_at`: the piece whose place is
    that of a word.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        longest: int = WHOLE,
        overlap: int | None = None,
        word_at: WordPiece = "last",
        token_types: bool = True,
    ):
        self.text, self.longest, self.overlap = tokenizer, longest, overlap
        self.word_at: WordPiece = word_at
        self.token_types = token_types
        self.frame = frame = tokenizer.frame_or("bos", "eos")
        self.bos, self.eos = np.array(frame.begin, np.int32), np.array(frame.end, np.int32)
        self.longest_word = (longest - frame.size) // 2
        self._known: dict[str, np.ndarray] = {}

    def example(self, parts: Iterable[tuple[str, Part]]) -> Example:
        """Return one sequence of parts in order, each a kind with its content."""
        pieces, length = [self.bos], len(self.bos)
        patches, at = list[Patches](), list[np.ndarray]()
        for kind, part in parts:
            if isinstance(part, str):
                own = [self.text.encode(part)]
            elif isinstance(part, np.ndarray):
                patches.append(Patches(kind, length, part))
                own = [np.zeros(len(part), np.int32)]
            else:
                own = part
                at.append(self._places(own, length))
            pieces += own
            length += sum(map(len, own))
        ids = np.concatenate([*pieces, self.eos])
        if not len(ids):  # a sequence has at least one element
            ids = placeholder(self.text)
        return Example(ids, at=np.concatenate(at) if at else None, patches=tuple(patches))

    def whole(self) -> "SequenceBuilder":
        """Return a builder of sequences that are never cut."""
        return SequenceBuilder(self.text, word_at=self.word_at, token_types=self.token_types)

    def windows(self, side: str | Sequence[str], other: str | None = None) -> list[Window]:
        """Return the windows of a text, at least one; of words; or of a pair: windows of the longer
        side, each with the whole other side.

        If both are longer than half the model, their windows are paired in order.
        """
        if not isinstance(side, str):
            return list(self._words(side))
        frame, ids = self.frame, self._ids(side)
        room = self._room(max(frame.size, frame.pair_size), 2)
        if other is None:
            parts = parts_of(ids, self.longest - frame.size, self.overlap)
            return [Window(Example(frame.one(part))) for part in parts]
        others = self._ids(other)
        room = self.longest - frame.pair_size
        first = min(len(ids), max(room // 2, room - len(others)))
        left = parts_of(ids, first, self.overlap)
        right = parts_of(others, room - first, self.overlap)
        n = max(len(left), len(right))
        return [self._pair(left[i * len(left) // n], right[i * len(right) // n]) for i in range(n)]

    def _words(self, words: Sequence[str]) -> Iterator[Window]:
        """Yield all words in one window, or in several that overlap; each is a unit of one."""
        room = self._room(self.frame.size, 1)
        overlap = room // 2 if self.overlap is None else self.overlap
        pieces = self.words(words)
        sizes = np.array([*map(len, pieces)], np.int64)
        for one in windows(sizes, room, overlap) if pieces else ():
            found = self.example([(TEXT, pieces[one.begin : one.end])])
            assert found.at is not None
            at = found.at[one.own_begin - one.begin : one.own_end - one.begin]
            yield Window(replace(found, at=at), slice(one.own_begin, one.own_end))

    def contents(self, *sides: str | Sequence[str]) -> list[Content]:
        """Return what the elements of one sequence are made of, in order."""
        frame = self.frame
        before = (frame.begin,) if len(sides) == 1 else (frame.pair_begin, frame.between)
        own = (one if isinstance(one, str) else self.words(one) for one in sides)
        return [*chain.from_iterable(zip(before, own, strict=True))]

    def words(self, words: Iterable[str]) -> list[np.ndarray]:
        """Return the ids of each word, at least one."""
        return [*map(self.pieces, words)]

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

    @property
    def begin(self) -> int:
        """The symbol that begins an encoder-decoder's answer; ConfigError: there is none."""
        if START in self.text.specials:
            return self.text.specials[START]
        if not len(self.bos):
            raise ConfigError(
                "The tokenizer has no bos symbol, which begins an answer; train one of kind bpe or "
                "word."
            )
        return int(self.bos[0])

    def answer(self, text: str) -> np.ndarray:
        """Return the ids of an answer and its end, int32 [A]; ConfigError: there is no end
        symbol."""
        if not len(self.eos):
            raise ConfigError(
                "The tokenizer has no eos symbol, without which an answer has no end; train one of "
                "kind bpe, word, character or byte."
            )
        return np.concatenate([self.text.encode(text), self.eos])

    def _ids(self, text: str) -> np.ndarray:
        """Return the ids of a text; a sequence has at least one element."""
        ids = self.text.encode(text)
        return ids if len(ids) or self.frame.size else placeholder(self.text)

    def _pair(self, ids: np.ndarray, others: np.ndarray) -> Window:
        framed, types = self.frame.pair(ids, others)
        return Window(Example(framed, token_type_ids=types if self.token_types else None))

    def _places(self, pieces: Sequence[np.ndarray], begin: int) -> np.ndarray:
        """Return the place of each word, int64; `begin`: of the first word."""
        sizes = np.array([*map(len, pieces)], np.int64)
        ends = np.cumsum(sizes) + begin
        return ends - 1 if self.word_at == "last" else ends - sizes

    def _room(self, symbols: int, sides: int) -> int:
        """Return the room beside the symbols; ConfigError: a window is no longer than overlap."""
        room, overlap = self.longest - symbols, self.overlap or 0
        if room < 2 or overlap >= room // sides:
            raise ConfigError(
                f"data.overlap={overlap} leaves no room in a model of {self.longest} elements; "
                "make it smaller, or model.max_length larger."
            )
        return room


def placeholder(tokenizer: Tokenizer) -> np.ndarray:
    """Return the symbol for a text without tokens, int32 [1]; ConfigError: there is none."""
    for role in ("unk", "mask", "pad"):
        if role in tokenizer.specials:
            return np.array([tokenizer.specials[role]], np.int32)
    raise ConfigError(
        "The tokenizer has neither a piece for every word nor <unk>; train one of kind bpe or byte."
    )
