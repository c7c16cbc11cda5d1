"""The two sides of a transduction as ids: what an encoder-decoder reads, and what it is to write.

source   prefix + x, then <eos>                 decoder input   <bos> y
                                                targets               y <eos>
"""

from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError
from glassformer.tokenizers.text import Tokenizer


@dataclass(frozen=True)
class PairTokenizer:
    """The tokenizers of both sides, one and the same if they share a vocabulary, and a task's
    prefix."""

    source: Tokenizer
    target: Tokenizer
    prefix: str = ""

    def __post_init__(self) -> None:
        for side, tokenizer in (("source", self.source), ("target", self.target)):
            for role in ("eos", "bos") if side == "target" else ("eos",):
                if role not in tokenizer.specials:
                    raise ConfigError(
                        f"The {side} tokenizer has no {role} symbol, without which a sequence has "
                        f"no {'end' if role == 'eos' else 'beginning'}; train one of kind bpe, "
                        "word, character or byte."
                    )

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source.fingerprint == self.target.fingerprint

    @property
    def bos(self) -> int:
        """What the decoder begins with."""
        return self.target.specials["bos"]

    @property
    def eos(self) -> int:
        """What ends a target."""
        return self.target.specials["eos"]

    def source_ids(self, text: str) -> np.ndarray:
        """The ids of prefix + text and <eos>, int32 [S]."""
        return _ended(self.source, self.prefix + text)

    def target_ids(self, text: str) -> np.ndarray:
        """The ids of the text and <eos>, int32 [T]: the targets; behind <bos> and without the last,
        the input."""
        return _ended(self.target, text)


def _ended(tokenizer: Tokenizer, text: str) -> np.ndarray:
    return np.append(tokenizer.encode(text), np.int32(tokenizer.specials["eos"]))
