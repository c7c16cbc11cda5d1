"""Source and target texts of an encoder-decoder as ids.

source   prefix + x, then <eos>                 decoder input   <bos> y
                                                targets               y <eos>

A tokenizer that defines a frame puts it around the source and the target:

source   <s> x </s>                             decoder input   </s> <s> y
                                                targets              <s> y </s>
"""

from dataclasses import dataclass

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.roles import START
from glassformer.tokenizers.text import Tokenizer


@dataclass(frozen=True)
class PairTokenizer:
    """The tokenizers of both sides, one for a shared vocabulary, and the prefix of sources."""

    source: Tokenizer
    target: Tokenizer
    prefix: str = ""

    def __post_init__(self) -> None:
        for side, tokenizer in (("source", self.source), ("target", self.target)):
            starts = side == "source" or START in tokenizer.specials
            for role in ("eos",) if starts else ("eos", "bos"):
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
        """The symbol that begins the decoder's input."""
        return self.target.specials[START if START in self.target.specials else "bos"]

    @property
    def eos(self) -> int:
        """The symbol that ends a target."""
        return self.target.specials["eos"]

    def source_ids(self, text: str) -> np.ndarray:
        """The ids of prefix + text and <eos>, int32 [S]."""
        return self.frame_of(self.source).one(self.source.encode(self.prefix + text))

    def target_ids(self, text: str) -> np.ndarray:
        """Targets: the ids of the text and <eos>, int32 [T]; the input is shifted by <bos>."""
        return self.frame_of(self.target).one(self.target.encode(text))

    def texts(self, source: np.ndarray, target: np.ndarray) -> tuple[str, str]:
        """The texts of ids of both sides, without the prefix."""
        text = self.source.decode(source).removeprefix(self.prefix)
        return text, self.target.decode(target)

    @staticmethod
    def frame_of(tokenizer: Tokenizer) -> Frame:
        """What stands around a text of a side."""
        return tokenizer.frame_or("", "eos")
