"""The frame of a text: the special symbols around one text, and around and between the two of a
pair, with their token types.

    one   | [CLS] text [SEP]                      token types  0 0 0
    pair  | [CLS] text [SEP] other [SEP]          token types  0 0 0 1 1

A tokenizer.json defines it by its `post_processor`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.errors import DataError
from glassformer.core.files import Values
from glassformer.tokenizers.library import guard

if TYPE_CHECKING:
    from tokenizers import Encoding

Ids = tuple[int, ...]
_WHOLE = dict.fromkeys(("normalizer", "pre_tokenizer", "decoder", "truncation", "padding"))


@dataclass(frozen=True)
class Frame:
    """Ids before and after a text, and before, between and after the texts of a pair."""

    begin: Ids = ()
    end: Ids = ()
    pair_begin: Ids = ()
    between: Ids = ()
    pair_end: Ids = ()
    types: Ids = (0, 0)
    """Token types of a pair: one for each symbol and one for each text, in their order."""

    @classmethod
    def of(cls, begin: Ids, end: Ids) -> "Frame":
        """The frame `begin text end`, of a pair `begin text end other end`; the second text and its
        end have the token type 1."""
        types = [0] * (len(begin) + 1 + len(end)) + [1] * (1 + len(end))
        return cls(begin, end, begin, end, end, tuple(types))

    @property
    def symbols(self) -> set[int]:
        """The ids of all symbols."""
        return {*self.begin, *self.end, *self.pair_begin, *self.between, *self.pair_end}

    @property
    def size(self) -> int:
        """Symbols around one text."""
        return len(self.begin) + len(self.end)

    @property
    def pair_size(self) -> int:
        """Symbols around a pair."""
        return len(self.pair_begin) + len(self.between) + len(self.pair_end)

    def one(self, *parts: np.ndarray) -> np.ndarray:
        """The ids of a text, given in parts, in its frame, int32 [n + size]."""
        return _join(self.begin, *parts, self.end)

    def pair(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of two texts in their frame, int32 [n], and their token types, int64 [n]."""
        ids = _join(self.pair_begin, first, self.between, second, self.pair_end)
        symbols = (self.pair_begin, self.between, self.pair_end)
        begin, between, end = ([1] * len(own) for own in symbols)
        counts = [*begin, len(first), *between, len(second), *end]
        return ids, np.repeat(self.types, counts)


def _join(*parts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([np.asarray(part, np.int32) for part in parts])


def template_of(frame: Frame, symbols: Mapping[int, str]) -> Values:
    """The post_processor of a frame; `symbols`: the names of ids."""

    def parts(ids: Ids, text: str = "") -> list[tuple[str, str]]:
        found = [("SpecialToken", symbols[index]) for index in ids]
        return [*found, ("Sequence", text)] if text else found

    def pieces(parts: list[tuple[str, str]], types: Ids) -> list[Values]:
        pairs = zip(parts, types, strict=True)
        return [{what: {"id": name, "type_id": kind}} for (what, name), kind in pairs]

    one = [*parts(frame.begin, "A"), *parts(frame.end)]
    pair = [*parts(frame.pair_begin, "A"), *parts(frame.between, "B"), *parts(frame.pair_end)]
    return {
        "type": "TemplateProcessing",
        "single": pieces(one, (0,) * len(one)),
        "pair": pieces(pair, frame.types),
        "special_tokens": {
            symbols[i]: {"id": symbols[i], "ids": [i], "tokens": [symbols[i]]}
            for i in sorted(frame.symbols)
        },
    }


def read_frame(definition: Values, known: Collection[int], name: str) -> Frame | None:
    """The frame that the library puts around texts by a definition's post_processor; None: it adds
    no symbol.

    `known`: the ids of the vocabulary. DataError: the post_processor is damaged, or puts no fixed
    symbols around each text.
    """
    if definition.get("post_processor") is None:
        return None
    with guard(f"read the post_processor of {name}"):
        from tokenizers import Tokenizer as Library

        model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
        words = {"version": "1.0", "added_tokens": [], "model": model}
        library = Library.from_str(json.dumps(definition | words | _WHOLE))
        one, pair = library.encode("a"), library.encode("a", "a")
        (begin, end), (first, between, last) = _groups(one, [0]), _groups(pair, [0, 1])
    frame = Frame(begin, end, first, between, last, tuple(pair.type_ids))
    if strange := sorted(i for i in frame.symbols if i not in known):
        raise DataError(
            f"{name} puts the id {strange[0]} around a text, which its vocabulary does not have; "
            f"restore the file"
        )
    return frame if frame.symbols else None


def _groups(encoding: "Encoding", texts: list[int]) -> list[Ids]:
    """The ids before, between and after these texts of one token."""
    places = [at for at, special in enumerate(encoding.special_tokens_mask) if not special]
    if [encoding.sequence_ids[at] for at in places] != texts:
        raise ValueError("each text occurs once, in order")
    ends = pairwise([-1, *places, len(encoding.ids)])
    return [tuple(encoding.ids[before + 1 : after]) for before, after in ends]
