"""Text, pictures and sounds as one sequence, and such sequences as a batch.

    given                <bos>  [patch 0 .. patch 63]  what  is  this  <eos>
                         parts in the order of their row
    a decoder reads      <bos>  [patch 0 .. patch 63]  what  is  this  <eos>    a    dog
    and is to write                                                      a     dog  <eos>
    an encoder-decoder   reads what is given as its source, and <bos> a dog, of which it is to
                         make a dog <eos>
    examples that begin alike, in one row, each going on from what they have in common and seeing
    nothing of the others:
                         <bos>  [patch 0 .. patch 63] | what is this <eos> a dog
                                                      | how many are there <eos> one

A text alone is the sequence that `SequenceTokenizer` makes of it.
"""

from collections.abc import Sequence

import numpy as np

from glassformer.data.example import Example, Patches
from glassformer.errors import ConfigError, DataError
from glassformer.processors.word_tokenizer import framing, placeholder
from glassformer.tokenizers.text import Tokenizer

TEXT = "text"
"""The kind of part that is written in tokens; all others are patches."""


class PartsTokenizer:
    """A text tokenizer that is given parts; answers are written in the vocabulary of `target`
    (None: the same).

    ConfigError: the tokenizer of answers has no symbol that ends them.
    """

    def __init__(self, tokenizer: Tokenizer, target: Tokenizer | None = None):
        self.text, self.target = tokenizer, target or tokenizer
        self.bos, self.eos = framing(tokenizer, "bos"), framing(tokenizer, "eos")
        self._end = framing(self.target, "eos")

    def example(
        self,
        parts: Sequence[tuple[str, str | np.ndarray]],
        answer: str | None = None,
        targets: np.ndarray | None = None,
        per_word: bool = False,
    ) -> Example:
        """An example of parts in order, each a kind with a text (kind "text") or patches [N, P].

        `per_word`: words are encoded one by one, and `at` is the last piece of each.
        """
        pieces, patches, length = [self.bos], list[Patches](), len(self.bos)
        at: list[np.ndarray] = []
        for kind, part in parts:
            if isinstance(part, str) and per_word:
                words = [self.text.encode(f" {word}") for word in part.split()]
                words = [ids if len(ids) else placeholder(self.text) for ids in words]
                at.append(length + np.cumsum([len(ids) for ids in words], dtype=np.int64) - 1)
                pieces.append(np.concatenate([np.zeros(0, np.int32), *words]))
            elif isinstance(part, str):
                pieces.append(self.text.encode(part))
            else:
                patches.append(Patches(kind, length, part))
                pieces.append(np.zeros(len(part), np.int32))
            length += len(pieces[-1])
        ids = np.concatenate([*pieces, self.eos])
        if not len(ids):  # a sequence has at least one element
            ids = placeholder(self.text)
        return Example(
            ids,
            targets,
            np.concatenate(at) if per_word and at else None,
            patches=tuple(patches),
            answer=None if answer is None else self.answer(answer),
        )

    @property
    def begin(self) -> int:
        """What the decoder of an encoder-decoder begins an answer with; ConfigError: there is no
        such symbol."""
        if not len(begin := framing(self.target, "bos")):
            raise ConfigError(
                "The tokenizer has no bos symbol, which begins an answer; train one of kind "
                "bpe or word."
            )
        return int(begin[0])

    def answer(self, text: str) -> np.ndarray:
        """The ids of a text that is to be written, and of its end, int32 [A]."""
        if not len(self._end):
            raise ConfigError(
                "The tokenizer has no eos symbol, without which an answer has no end; train "
                "one of kind bpe, word, "
                "character or byte."
            )
        return np.concatenate([self.target.encode(text), self._end])


def check_order(kinds: Sequence[str], order: Sequence[str], what: str) -> None:
    """Raise DataError where parts stand in another order than that which a model learned; (): it
    learned several."""
    own = [kind for kind in dict.fromkeys(kinds) if kind in order]
    if own != (learned := [kind for kind in order if kind in own]):
        raise DataError(
            f"{what} has {' before '.join(own)}, and the rows of the model have "
            f"{' before '.join(learned)}; put its "
            "parts in that order"
        )
