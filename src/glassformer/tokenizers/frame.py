"""The frame of a text: the special symbols around one text, and around and between the two of a
pair, with their token types.

    one     [CLS] text [SEP]                      token types  0 0 0
    pair    [CLS] text [SEP] other [SEP]          token types  0 0 0 1 1

A tokenizer.json defines it by its `post_processor`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import DataError

Ids = tuple[int, ...]
_FIRST, _SECOND = "A", "B"
MOST_SYMBOLS = 64
"""Most symbols of a frame, against damaged files; published frames have at most four."""


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
    def size(self) -> int:
        """Symbols around one text."""
        return len(self.begin) + len(self.end)

    @property
    def pair_size(self) -> int:
        """Symbols around a pair."""
        return len(self.pair_begin) + len(self.between) + len(self.pair_end)

    def one(self, *parts: np.ndarray) -> np.ndarray:
        """The ids of a text, given in parts, in its frame, int32 [n + size]."""
        return _joined(self.begin, *parts, self.end)

    def pair(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of two texts in their frame, int32 [n], and their token types, int64 [n]."""
        ids = _joined(self.pair_begin, first, self.between, second, self.pair_end)
        counts = [1] * len(self.types)
        counts[len(self.pair_begin)] = len(first)
        counts[len(self.pair_begin) + 1 + len(self.between)] = len(second)
        return ids, np.repeat(self.types, counts)


def _joined(*parts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([np.asarray(part, np.int32) for part in parts])


def template_of(frame: Frame, symbols: Mapping[int, str]) -> dict[str, Any]:
    """The post_processor of a frame; `symbols`: the names of ids."""

    def parts(ids: Sequence[Ids], types: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        kinds = iter(types)
        for name, own in zip((_FIRST, _SECOND), ids[:-1], strict=False):
            found += [{"SpecialToken": {"id": symbols[i], "type_id": next(kinds)}} for i in own]
            found.append({"Sequence": {"id": name, "type_id": next(kinds)}})
        last = [{"SpecialToken": {"id": symbols[i], "type_id": next(kinds)}} for i in ids[-1]]
        return [*found, *last]

    own = {*frame.begin, *frame.end, *frame.pair_begin, *frame.between, *frame.pair_end}
    return {
        "type": "TemplateProcessing",
        "single": parts((frame.begin, frame.end), (0,) * (frame.size + 1)),
        "pair": parts((frame.pair_begin, frame.between, frame.pair_end), frame.types),
        "special_tokens": {
            symbols[i]: {"id": symbols[i], "ids": [i], "tokens": [symbols[i]]} for i in sorted(own)
        },
    }


def read_frame(definition: dict[str, Any], known: Collection[int], name: str) -> Frame | None:
    """The frame that a definition's post_processor describes; None: it adds no symbol.

    `known`: the ids of the vocabulary. DataError: the post_processor is damaged, or of a type that
    puts no fixed symbols around a text.
    """
    try:
        frame = _read(definition.get("post_processor"))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise DataError(
            f"{name} has a post_processor that cannot be read; restore the file, or set its "
            f"post_processor to null"
        ) from None
    if frame is None or not frame.size + frame.pair_size:
        return None
    symbols = {*frame.begin, *frame.end, *frame.pair_begin, *frame.between, *frame.pair_end}
    if strange := sorted(i for i in symbols if i not in known):
        raise DataError(
            f"{name} puts the id {strange[0]} around a text, which its vocabulary does not have; "
            f"restore the file"
        )
    return frame


def _read(given: Any) -> Frame | None:
    if given is None:
        return None
    match given["type"]:
        case "ByteLevel":  # which adds no symbol
            return None
        case "Sequence":
            found = [frame for one in given["processors"] if (frame := _read(one)) is not None]
            if len(found) > 1:
                raise ValueError("a text has one frame")
            return found[0] if found else None
        case "BertProcessing":
            return Frame.of((_id(given["cls"][1]),), (_id(given["sep"][1]),))
        case "RobertaProcessing":
            begin, end = (_id(given["cls"][1]),), (_id(given["sep"][1]),)
            return Frame(begin, end, begin, end + end, end, (0,) * 6)
        case "TemplateProcessing":
            return _template(given)
    raise ValueError("an unknown type")


def _template(given: dict[str, Any]) -> Frame:
    symbols = {name: of["ids"] for name, of in given["special_tokens"].items()}
    (begin, end), _ = _parts(given["single"], symbols, (_FIRST,))
    (before, between, after), types = _parts(given["pair"], symbols, (_FIRST, _SECOND))
    return Frame(begin, end, before, between, after, types)


def _parts(
    pieces: list[dict[str, Any]], symbols: dict[str, list[int]], texts: tuple[str, ...]
) -> tuple[list[Ids], Ids]:
    """The ids before, between and after these texts, and the token types of everything."""
    groups, types, seen = [list[int]()], list[int](), list[str]()
    for piece in pieces:
        ((kind, of),) = piece.items()
        if kind == "Sequence":
            seen.append(of["id"])
            groups.append([])
            new = 1
        else:
            ids = [_id(index) for index in symbols[of["id"]]]
            groups[-1] += ids
            new = len(ids)
        types += [_id(of["type_id"])] * new
    if tuple(seen) != texts or len(types) > MOST_SYMBOLS:
        raise ValueError("each text occurs once, in order")
    return [tuple(group) for group in groups], tuple(types)


def _id(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError("no id")
    return value
