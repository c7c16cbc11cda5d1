"""Encoded rows of parts, with the files and the kinds of their parts."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.errors import DataError, suggest
from glassformer.data.config import NAMES, SplitName
from glassformer.data.example import Example
from glassformer.data.records.parts import Mixed
from glassformer.processors.inputs import Inputs, Records, by_split
from glassformer.processors.media.audio import AudioProcessor
from glassformer.processors.media.image import ImageProcessor
from glassformer.processors.media.inputs import MediaInputs
from glassformer.processors.tokens.sequence_builder import TEXT

BUNDLE = 16
"""Rows that share files in one sequence, at most."""
READERS: dict[str, type[ImageProcessor] | type[AudioProcessor]] = {
    "image": ImageProcessor,
    "audio": AudioProcessor,
}
"""The processor of each kind of part that is not text."""


class PartsInputs(Inputs):
    """Sequences of the rows of one split all of whose files could be read."""

    def __init__(
        self,
        unfilled: Callable[[Mixed], Example],
        rows: Sequence[Mixed],
        media: Mapping[str, Mapping[str, MediaInputs]],
    ):
        self.unfilled = unfilled
        self._at = {
            (kind, record.where): (inputs, i)
            for kind, splits in media.items()
            for inputs in splits.values()
            for i, record in enumerate(inputs.records)
        }
        super().__init__([row for row in rows if all(p in self._at for p in files_in(row))])

    @cached_property
    def _examples(self) -> list[Example]:
        return [self.unfilled(row) for row in self.records]

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return np.array([len(example.ids) for example in self._examples], np.int64)

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`: each file is encoded once, however many rows name it."""
        files = [files_in(self.records[i]) for i in numbers]
        wanted: dict[MediaInputs, set[int]] = {}
        for inputs, number in (self._at[file] for own in files for file in own):
            wanted.setdefault(inputs, set()).add(number)
        patches: dict[tuple[MediaInputs, int], np.ndarray] = {}
        for inputs, chosen in wanted.items():
            found = inputs.patches(sorted(chosen), step).numpy()
            patches |= zip(((inputs, i) for i in sorted(chosen)), found, strict=True)
        return [
            self._examples[i].with_values([patches[self._at[file]] for file in own])
            for i, own in zip(numbers, files, strict=True)
        ]

    def count(self, lengths: np.ndarray, share: bool) -> int:
        """See `Inputs`: with bundles."""
        return sum(self.bundle_length(own, lengths) for own in self.bundles(share))

    def bundles(self, share: bool) -> list[list[int]]:
        """Sequences in rows of a batch; with `share`, those that begin with the same files in one
        row."""
        if not share:
            return [[number] for number in range(len(self.owner))]
        found: dict[tuple[Any, ...], list[int]] = {}
        for number, row in enumerate(self.records):
            files = [i for i, (kind, _) in enumerate(row.parts) if kind != TEXT]
            key = row.parts[: files[-1] + 1] if files else (number,)
            found.setdefault(tuple(key), []).append(number)
        return [own[i : i + BUNDLE] for own in found.values() for i in range(0, len(own), BUNDLE)]

    def bundle_length(self, bundle: Sequence[int], lengths: np.ndarray) -> int:
        """Elements of a bundle's row, its patches counted once; `lengths` of all sequences."""
        shared = self._examples[bundle[0]].prefix_length
        return int(lengths[bundle].sum()) - (len(bundle) - 1) * shared

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        for row, example in zip(self.records, self._examples, strict=True):
            yield example.ids.tobytes() + repr(row.parts).encode(errors="replace")


def files_in(row: Mixed) -> list[tuple[str, str]]:
    """Kind and path of each part of a row that is a file."""
    return [part for part in row.parts if part[0] != TEXT]


def files_of(records: Records) -> dict[str, dict[str, list[Any]]]:
    """The files of rows by kind, each once, in the first split that has it."""
    found: dict[str, dict[str, SplitName]] = {kind: {} for kind in READERS}
    for split in NAMES:
        for row in records.get(split, ()):
            for kind, path in files_in(row):
                found[kind].setdefault(path, split)
    return {
        kind: by_split(READERS[kind].record_at(path, split) for path, split in paths.items())
        for kind, paths in found.items()
        if paths
    }


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


def part_of(given: Any) -> tuple[str, Any]:
    """Kind of a part, and its text, file or array; DataError: it is no part."""
    if isinstance(given, str):
        return TEXT, given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise DataError(
            f"a part is a text, or one {{KIND: VALUE}}, not {given!r:.60}; give each alone"
        )
    ((kind, thing),) = given.items()
    if kind == TEXT and not isinstance(thing, str):
        raise DataError(f"a part of kind {TEXT} is a text, not {thing!r:.60}; change it")
    return kind, thing


def check_order(kinds: Sequence[str], order: Sequence[str], what: str) -> None:
    """Raise DataError for parts in another order than the model's rows; (): these have several."""
    own = [kind for kind in dict.fromkeys(kinds) if kind in order]
    if own != (learned := [kind for kind in order if kind in own]):
        raise DataError(
            f"{what} has {' before '.join(own)}, and the rows of the model have "
            f"{' before '.join(learned)}; put its parts in that order"
        )


def as_list(given: Any, readers: Collection[str]) -> Sequence[Any]:
    """Return a list of parts unchanged; a text, {KIND: VALUE}, a path, pixels or (samples, rate)
    as a list."""
    if isinstance(given, Path):
        given = {min(readers, default=TEXT): given}
    elif isinstance(given, np.ndarray):
        given = {"image": given}
    elif isinstance(given, tuple) and given and isinstance(given[0], np.ndarray):
        given = {"audio": given}
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def check_kinds(kinds: Iterable[str], readers: Iterable[str], what: str) -> None:
    """Raise DataError for a kind of part that the model does not read."""
    known = (TEXT, *readers)
    for kind in kinds:
        if kind not in known:
            raise DataError(f"{what} was given as {kind}; {suggest(kind, known)}")
