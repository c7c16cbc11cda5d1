"""BPE dropout: byte-pair encoding with merges left out at random, others at every step.

    nominal  | the  cats  sleep
    step 1   | the  c ats  sleep
    step 2   | t he  cats  sl eep

A word begins with a space, or is a special symbol. The merges are those of the tokenizer, best
first; each possible one is left out of each round with a fixed probability. Each word has
`VARIANTS` cuts; (seed, step, example, place) chooses one of them. Source: Provilkov et al. 2020,
BPE-Dropout.
"""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.core.random_stream import generator
from glassformer.tokenizers.decoding import ALPHABET
from glassformer.tokenizers.text import Tokenizer

VARIANTS = 32
"""Cuts of one word: enough for variety, few enough to cache."""
MOST_KNOWN, LONGEST_CUT = 1 << 19, 1 << 7
"""Most cuts in the cache; most pieces of a word that is cut."""
_SPACE = ALPHABET[ord(" ")]
Word = tuple[int, ...]


@dataclass(frozen=True)
class Recut:
    """New ids, and where the words begin in the old and in the new ones."""

    ids: np.ndarray
    """int32 [T']."""
    before: np.ndarray
    """int64 [W], the first id of each word in the old ids."""
    after: np.ndarray
    """int64 [W], the first id of each word in the new ids."""

    def places(self, at: np.ndarray, piece: Literal["last", "first"] = "last") -> np.ndarray:
        """The new place of the last or the first piece of each old id's word, int64."""
        ends = np.append(self.after[1:], len(self.ids)) - 1
        found = ends if piece == "last" else self.after
        return found[np.searchsorted(self.before, at, side="right") - 1]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of each word's first old id, for each of its new pieces."""
        return np.repeat(values[self.before], np.diff(np.append(self.after, len(self.ids))))


class PieceDropout:
    """Cuts ids into other ones: merges are left out with `probability` in [0, 1). ConfigError: no
    tokenizer of kind bpe."""

    def __init__(self, tokenizer: Tokenizer, probability: float, seed: int):
        if tokenizer.kind != "bpe":
            raise ConfigError(
                f"augment.piece_dropout leaves out merges of byte pairs, and the tokenizer is of "
                f"kind {tokenizer.kind}; use kind bpe, or leave it out."
            )
        self._probability, self._seed = probability, seed
        merges, self._ids = tokenizer.merges()
        self._rank = {pair: rank for rank, pair in enumerate(merges)}
        self._spelling = {i: spelling for spelling, i in self._ids.items()}
        self._special = np.zeros(tokenizer.vocab_size, bool)
        self._special[list(tokenizer.specials.values())] = True
        self._begins = self._special.copy()
        self._begins[[i for i, text in self._spelling.items() if text.startswith(_SPACE)]] = True
        self._known: dict[tuple[Word, int], list[int]] = {}

    def __call__(self, ids: np.ndarray, step: int, number: int) -> Recut:
        """New ids of the example of this number at this step, of the same bytes."""
        begins = self._begins[ids]
        begins[:1] = True
        begins[1:] |= self._special[ids[:-1]]
        before = np.flatnonzero(begins)
        stream = generator(self._seed, step, number)
        variants = stream.integers(VARIANTS, size=len(before)).tolist()
        numbers, borders = ids.tolist(), [*before.tolist(), len(ids)]
        words = [
            self._cut(tuple(numbers[begin:end]), variant)
            for (begin, end), variant in zip(pairwise(borders), variants, strict=True)
        ]
        after = np.cumsum([0, *map(len, words)])[:-1]
        return Recut(np.array([i for word in words for i in word], np.int32), before, after)

    def _cut(self, word: Word, variant: int) -> list[int]:
        if (word, variant) not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[word, variant] = self._merge(word, variant)
        return self._known[word, variant]

    def _merge(self, word: Word, variant: int) -> list[int]:
        if len(word) > LONGEST_CUT or word[0] not in self._spelling or self._special[word[0]]:
            return list(word)
        spelled = "".join(self._spelling[i] for i in word)
        draw = random.Random(f"{self._seed} {variant} {spelled}").random
        symbols, never = list(spelled), len(self._rank)
        while True:
            best, place = never, 0
            for i in range(len(symbols) - 1):
                rank = self._rank.get((symbols[i], symbols[i + 1]), never)
                if rank < best and draw() >= self._probability:
                    best, place = rank, i
            if best == never:
                return [self._ids[symbol] for symbol in symbols]
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
