"""Names of special symbols in a text, which are read as ordinary characters.

A text that says "</s>" does not end: some models have such names among their ordinary pieces.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from glassformer.tokenizers.library import guard

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

Encoded = tuple[np.ndarray, np.ndarray]
"""The ids of a text, int32 [n], and the characters that each came from, int64 [n, 2]."""


class Symbols:
    """The special symbols of a tokenizer by id, and the id of what is unknown."""

    def __init__(self, library: "Library", names: Mapping[int, str], unknown: int | None):
        self._library, self._names, self._unknown = library, names, unknown
        self._ids = np.array(sorted(names), np.int32)

    def among(self, ids: np.ndarray) -> np.ndarray:
        """Return which of the ids are those of symbols, bool [n]."""
        return np.isin(ids, self._ids)

    def spell(
        self, encoded: Encoded, text: str = "", written: Sequence[tuple[int, int]] = ()
    ) -> Encoded:
        """Return a text with its symbols as the pieces of their names, but for those at the
        `written` spans of characters."""
        ids, spans = encoded
        which = self.among(ids)
        places, begins = [*written, (len(text), len(text) + 1)], [begin for begin, _ in written]
        for at in np.flatnonzero(which).tolist() if written else ():
            begin, end = spans[at].tolist()  # may hold spaces around the symbol
            first, last = places[bisect_left(begins, begin)]
            which[at] = last > end or text[first:last] != self._names[int(ids[at])]
        if not which.any():
            return encoded
        pairs = zip(ids.tolist(), which, strict=True)
        spelled = [self._pieces[i] if own else [i] for i, own in pairs]
        whole = np.array([index for own in spelled for index in own], np.int32)
        places = np.repeat(spans, [*map(len, spelled)], axis=0)
        # an unknown piece reaches as far as the text is unknown
        kept = np.diff(whole, prepend=-1) != 0
        kept |= whole != self._unknown
        return whole[kept], places[kept]

    @cached_property
    def _pieces(self) -> dict[int, list[int]]:
        """The pieces of the name of each symbol."""
        tokens = lambda text: [token.id for token in self._library.model.tokenize(text)]
        with guard("encode the text"):
            return {
                index: [i for i in tokens(name[:1]) + tokens(name[1:]) if i not in self._names]
                for index, name in self._names.items()
            }
