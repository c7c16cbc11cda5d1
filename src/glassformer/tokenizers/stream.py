"""Streaming decoding, token by token, in complete characters."""

import codecs
from typing import final

from glassformer.tokenizers.decoding import gap
from glassformer.tokenizers.text import Tokenizer

WINDOW = 16


@final
class StreamDecoder:
    """Text as it becomes certain: the joined results of `push` and `flush` are `decode` of all ids.

    The decoder of a tokenizer of kind library may not join the bytes of its tokens. Then this holds
    if it looks only at the last 16 tokens (WordPiece: at the last one). Text that ends in U+FFFD,
    which may still change, is held back.
    """

    def __init__(self, tokenizer: Tokenizer, skip_specials: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_specials
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._beginning = tokenizer.beginning()
        self._before = self._shown = ""
        self._window: list[int] = []

    def push(self, index: int) -> str:
        """The complete characters that this id adds, held-back ones included; DataError: not in the
        vocabulary."""
        tokenizer = self._tokenizer
        if self._skip and tokenizer.skips(index):
            return ""
        if tokenizer.bytewise:
            return self._utf8.decode(self._beginning(tokenizer.shown_bytes(index, False)))
        if tokenizer.kind == "word":
            word = tokenizer.decode([index], skip_specials=False)
            before, self._before = self._before, word
            return gap(before, word) + word
        self._window.append(index)
        text = tokenizer.decode(self._window, self._skip)
        if text.endswith("\ufffd"):
            return ""
        new = text[len(self._shown) :]
        if len(self._window) >= 2 * WINDOW:
            self._window = self._window[-WINDOW:]
            text = tokenizer.decode(self._window, self._skip)
        self._shown = text
        return new

    def flush(self) -> str:
        """The text that was held back; an incomplete character becomes U+FFFD. It ends the text."""
        if self._tokenizer.bytewise:
            return self._utf8.decode(b"", final=True)
        return self._tokenizer.decode(self._window, self._skip)[len(self._shown) :]
