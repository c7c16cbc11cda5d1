"""Rows of parts that were read: their examples, their files, the kinds of their parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from glassformer.data.config import NAMES, SplitName
from glassformer.data.example import Example
from glassformer.data.formats.contents import source_at
from glassformer.data.order import LengthOrder
from glassformer.data.parts import Mixed
from glassformer.data.pictures import Picture
from glassformer.data.recordings import Recording
from glassformer.errors import DataError
from glassformer.processors.audio import AudioProcessor
from glassformer.processors.image import ImageProcessor
from glassformer.processors.inputs import Inputs, Records, by_split
from glassformer.processors.media import MediaInputs
from glassformer.processors.parts_tokenizer import TEXT

BUNDLE = 16
"""Rows that share files in one sequence, at most."""


class PartsInputs(Inputs):
    """Sequences of the rows of one split all of whose files could be read."""

    def __init__(
        self,
        unfilled: Callable[[Mixed], Example],
        rows: Sequence[Mixed],
        media: Mapping[str, Mapping[str, MediaInputs]],
    ):
        self._media = media
        self._at = {
            kind: {
                record.where: (split, i)
                for split, inputs in splits.items()
                for i, record in enumerate(inputs.records)
            }
            for kind, splits in media.items()
        }
        self.records = [row for row in rows if self._readable(row)]
        self.owner = np.arange(len(self.records))
        self._examples = [unfilled(row) for row in self.records]

    def _readable(self, row: Mixed) -> bool:
        return all(path in self._at[kind] for kind, path in row.parts if kind != TEXT)

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return np.array([len(example.ids) for example in self._examples], np.int64)

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`: each file is encoded once, however many rows name it."""
        paths = [[part for part in self.records[i].parts if part[0] != TEXT] for i in numbers]
        named: dict[str, set[str]] = {}
        for kind, path in (part for own in paths for part in own):
            named.setdefault(kind, set()).add(path)
        patches: dict[tuple[str, str], np.ndarray] = {}
        for kind, files in named.items():
            patches |= self._encoded(kind, files, step)
        return [
            self._examples[i].with_values([patches[part] for part in own])
            for i, own in zip(numbers, paths, strict=True)
        ]

    def _encoded(
        self, kind: str, paths: Iterable[str], step: int | None
    ) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
        at = self._at[kind]
        for split, inputs in self._media[kind].items():
            chosen = sorted({at[path][1]: path for path in paths if at[path][0] == split}.items())
            if chosen:
                found = inputs.patches([number for number, _ in chosen], step).numpy()
                yield from zip(((kind, path) for _, path in chosen), found, strict=True)

    def bundles(self, share: bool) -> list[list[int]]:
        """See `Inputs`: rows that begin with the same files."""
        if not share:
            return super().bundles(share)
        found: dict[tuple[Any, ...], list[int]] = {}
        for number, row in enumerate(self.records):
            files = [i for i, (kind, _) in enumerate(row.parts) if kind != TEXT]
            key = row.parts[: files[-1] + 1] if files else (number,)
            found.setdefault(tuple(key), []).append(number)
        return [own[i : i + BUNDLE] for own in found.values() for i in range(0, len(own), BUNDLE)]

    def prefix_length(self, number: int) -> int:
        """See `Inputs`: up to the end of a row's last patches."""
        return self._examples[number].prefix_length

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        for row, example in zip(self.records, self._examples, strict=True):
            yield example.ids.tobytes() + repr(row.parts).encode(errors="replace")


class Bundled:
    """Bundles of like length in one batch; a bundle is one row."""

    padding = 0.0

    def __init__(self, bundles: list[list[int]], order: LengthOrder):
        self._bundles, self._order, self.batches = bundles, order, order.batches

    def rows(self, step: int) -> list[list[int]]:
        """See `Order`."""
        return [self._bundles[i] for i in self._order.rows(step).tolist()]


READERS: dict[str, type[ImageProcessor] | type[AudioProcessor]] = {
    "image": ImageProcessor,
    "audio": AudioProcessor,
}
"""What encodes each kind of part that is not text."""


def files_of(records: Records) -> dict[str, dict[str, list[Any]]]:
    """The files of each kind that rows name, each once, in the first split that has it."""
    found: dict[str, dict[str, SplitName]] = {kind: {} for kind in READERS}
    for split in NAMES:
        for row in records.get(split, ()):
            for kind, path in row.parts:
                if kind != TEXT:
                    found[kind].setdefault(path, split)
    return {
        kind: by_split(_file(kind, path, split) for path, split in paths.items())
        for kind, paths in found.items()
        if paths
    }


def _file(kind: str, path: str, split: SplitName) -> Picture | Recording:
    if kind == "image":
        return Picture(path, (), None, split, source_at(path))
    return Recording(source_at(path), (), None, split)


def kinds_of(row: Mixed) -> tuple[str, ...]:
    """The kinds of a row's parts, each once, in order."""
    return tuple(dict.fromkeys(kind for kind, _ in row.parts))


def common_order(rows: Iterable[Mixed]) -> tuple[str, ...]:
    """An order of the kinds of parts that every row keeps; (): there is none."""
    seen = {kinds_of(row) for row in rows}
    known = [kind for kind in (*READERS, TEXT) if any(kind in kinds for kinds in seen)]
    orders = (
        order
        for order in permutations(known)
        if all(list(kinds) == sorted(kinds, key=order.index) for kinds in seen)
    )
    return next(orders, ())


def texts_of(rows: Iterable[Mixed]) -> Iterator[str]:
    """The texts of rows, targets too."""
    for row in rows:
        yield from (value for kind, value in row.parts if kind == TEXT)
        if row.target is not None:
            yield row.target


def part_of(given: Any) -> tuple[str, Any]:
    """A part's kind, and its text or what it is read from; DataError: it is no part."""
    if isinstance(given, str):
        return TEXT, given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise DataError(
            f"a part is a text, or one {{KIND: VALUE}} by itself, not {given!r:.60}; "
            "give each alone"
        )
    ((kind, thing),) = given.items()
    if kind == TEXT and not isinstance(thing, str):
        raise DataError(f"a part of kind {TEXT} is a text, not {thing!r:.60}; change it")
    return kind, thing
