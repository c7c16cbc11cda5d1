"""Text, images and audio as one sequence, and such sequences as a batch.

    given                <bos>  [patch 0 .. patch 63]  what  is  this  <eos>
                         parts in the order of their row
    a decoder reads      <bos>  [patch 0 .. patch 63]  what  is  this  <eos>    a    dog
    its targets                                                          a     dog  <eos>
    an encoder-decoder   reads the parts as its source, and <bos> a dog; its targets are a dog <eos>
    a shared prefix      examples with the same first parts, in one row that reads them once:
                         <bos>  [patch 0 .. patch 63] | what is this <eos> a dog
                                                      | how many are there <eos> one

A text alone is the sequence that `SequenceTokenizer` makes of it.
"""

from collections.abc import Sequence

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example, Patches
from glassformer.processors.config import TagPiece
from glassformer.processors.word_tokenizer import placeholder, tag_places
from glassformer.tokenizers.roles import START
from glassformer.tokenizers.text import Tokenizer

TEXT = "text"
"""The kind of part that is read as tokens; the others are patches."""


class PartsTokenizer:
    """A text tokenizer that is given parts."""

    def __init__(self, tokenizer: Tokenizer):
        self.text = tokenizer
        frame = tokenizer.frame_or("bos", "eos")
        self.bos, self.eos = np.array(frame.begin, np.int32), np.array(frame.end, np.int32)

    def example(
        self,
        parts: Sequence[tuple[str, str | np.ndarray]],
        per_word: bool = False,
        tag_piece: TagPiece = "last",
    ) -> Example:
        """An example of parts in order, each a kind with a text (kind "text") or patches [N, P].

        `per_word`: words are encoded one by one, and `at` is the last piece of each, or the first.
        """
        pieces, patches, length = [self.bos], list[Patches](), len(self.bos)
        at: list[np.ndarray] = []
        for kind, part in parts:
            if not isinstance(part, str):
                patches.append(Patches(kind, length, part))
                pieces.append(np.zeros(len(part), np.int32))
            elif per_word:
                words = self.words(part)
                sizes = np.array([len(ids) for ids in words], np.int64)
                at.append(tag_places(sizes, length, tag_piece))
                pieces.append(np.concatenate([np.zeros(0, np.int32), *words]))
            else:
                pieces.append(self.text.encode(part))
            length += len(pieces[-1])
        ids = np.concatenate([*pieces, self.eos])
        if not len(ids):  # a sequence has at least one element
            ids = placeholder(self.text)
        return Example(ids, at=np.concatenate(at) if at else None, patches=tuple(patches))

    def words(self, text: str) -> list[np.ndarray]:
        """The ids of each word of a text, at least one."""
        found = map(self.text.encode_word, text.split())
        return [ids if len(ids) else placeholder(self.text) for ids in found]

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
        """The ids of an answer and its end, int32 [A]; ConfigError: there is no end symbol."""
        if not len(self.eos):
            raise ConfigError(
                "The tokenizer has no eos symbol, without which an answer has no end; train one of "
                "kind bpe, word, character or byte."
            )
        return np.concatenate([self.text.encode(text), self.eos])


def check_order(kinds: Sequence[str], order: Sequence[str], what: str) -> None:
    """Raise DataError for parts in another order than the model's rows; (): these have several."""
    own = [kind for kind in dict.fromkeys(kinds) if kind in order]
    if own != (learned := [kind for kind in order if kind in own]):
        raise DataError(
            f"{what} has {' before '.join(own)}, and the rows of the model have "
            f"{' before '.join(learned)}; put its parts in that order"
        )
