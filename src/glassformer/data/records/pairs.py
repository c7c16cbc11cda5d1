"""Pairs of a source and a target text: two parallel files, TSV, CSV, JSONL, Parquet; as token ids,
stored once for each split: a source and a target column, and the texts of held out pairs.

Errors name the file and the line.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.example import Example
from glassformer.data.formats.lines import lines_beside
from glassformer.data.formats.records import RECORDS, check_used, values
from glassformer.data.order import LengthOrder, pair_order
from glassformer.data.sources import Source, resolve
from glassformer.data.splits import in_splits
from glassformer.data.store import Ragged, Store, Writer, check_split, place_of, request_of

COLUMNS = ("source_field", "target_field", "group_field")
"""Settings that name columns."""
Row = tuple[str, str, str | None, str]
"""Source, target, group, origin."""


@dataclass(frozen=True)
class Pair:
    """A source, its target, its group, and their origin."""

    split: SplitName
    source: str
    target: str
    group: str | None
    where: str


def pairs(config: DataConfig) -> Iterator[Pair]:
    """Every pair of every split; pairs of two empty sides are left out, one empty side is a
    DataError.

    Splits that have no files are held out from train by a fixed permutation, since files
    are often sorted.
    """
    for name, of in config.splits.items():
        if of.targets is not None and of.path is None:
            raise ConfigError(
                f"data.{name}.targets is set but data.{name}.path, its other side, is not; set "
                f"both."
            )
    remedy = "give files with a source and a target on every line"
    rows = in_splits(config, partial(_rows, config), "pairs", remedy)
    for split, (source, target, group, where) in rows:
        if not (source.strip() and target.strip()):
            empty, full = ("target", "source") if source.strip() else ("source", "target")
            raise DataError(f"{where} has an empty {empty} beside a {full}; fill it or remove both")
        yield Pair(split, source, target, group, where)


def training_texts(config: DataConfig, sides: tuple[str, ...]) -> Iterator[str]:
    """The given sides of the training pairs, the texts to train a tokenizer on."""
    for pair in pairs(config):
        texts = {"source": config.prefix + pair.source, "target": pair.target}
        yield from (texts[side] for side in sides if pair.split == "train")


def pair_sources(config: DataConfig) -> dict[str, list[Source]]:
    """The sources of the pairs by field of the configuration."""
    return {
        f"{name}.{side}": resolve(getattr(of, side), config)
        for name, of in config.splits.items()
        for side in ("path", "targets")
        if getattr(of, side) is not None
    }


def _rows(config: DataConfig, split: SplitName) -> Iterator[Row]:
    of = config.splits[split]
    sources = resolve(of.path, config)
    check_used(config, COLUMNS, of.targets is None, of.path)
    read = (row for source in sources for row in _rows_of(source))
    if of.targets is not None:
        targets = resolve(of.targets, config)
        if len(sources) != len(targets):
            raise DataError(
                f"there are {len(sources)} files of sources and {len(targets)} of targets; give "
                f"one for each"
            )
        read = (
            (one, other, None, where)
            for sides in zip(sources, targets, strict=True)
            for one, other, where in lines_beside(*sides)
        )
    return (row for row in read if row[0].strip() or row[1].strip())


def _rows_of(source: Source) -> Iterator[Row]:
    if source.kind not in RECORDS:
        raise DataError(
            f"{source.path} is a text file with one side only; set `targets` beside its path "
            f"to the file of targets, or data.format to tsv, csv or jsonl if it holds both"
        )
    for (one, other, group), where in values(source, COLUMNS, "a source and a target"):
        yield one, other, None if group is None else str(group), where


KIND, SIDES, TEXTS = "pairs", ("source", "target"), "texts"
Encode = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class PairText:
    """A pair as it was read, the reference of decoded text."""

    source: str
    target: str
    group: str | None = None


@dataclass(frozen=True)
class PairSplit:
    """The pairs of one split: `source` ids and `target` ids, both with <eos> at the end."""

    name: str
    source: Ragged
    target: Ragged
    store: Store | None = None

    def __len__(self) -> int:
        return len(self.source)

    def examples(self, rows: Sequence[int] | np.ndarray) -> list[Example]:
        """Pairs by their numbers; the target is the answer."""
        return [Example(self.source.row(int(i)), answer=self.target.row(int(i))) for i in rows]

    def order(
        self, longest: int, batch_tokens: int | None, batch_size: int = 1, seed: int = 0
    ) -> LengthOrder:
        """The order of the pairs in training, by `pair_order`."""
        lengths = self.source.lengths, self.target.lengths
        name = "training" if self.name == "train" else self.name
        return pair_order(*lengths, longest, batch_tokens, batch_size, seed, name)

    def texts(self) -> list[PairText]:
        """The pairs as they were read; not kept for training pairs."""
        assert self.store is not None
        return [PairText(*row) for row in self.store.values(self.name, TEXTS)]


def store_pairs(
    folder: str | os.PathLike[str],
    encoders: tuple[Encode, Encode],
    fingerprints: tuple[str, str],
    config: DataConfig,
) -> Store:
    """The store of pairs in `config.store`, else in `folder`; see `Store.open_or_build`.

    `counts` of each split: pairs, source_tokens, target_tokens. DataError: unreadable pairs.
    """
    fields = {"format", "source_field", "target_field", "group_field", "encoding", "prefix"}
    tokenizer = dict(zip(SIDES, fingerprints, strict=True))
    request = request_of(KIND, config, pair_sources(config), fields, tokenizer)

    def write(writer: Writer) -> None:
        for pair in pairs(config):
            for side, encode in zip(SIDES, encoders, strict=True):
                writer.column(pair.split, side, "int32").append(encode(getattr(pair, side)))
            if pair.split != "train":
                texts = writer.column(pair.split, TEXTS, None)
                texts.append([pair.source, pair.target, pair.group])
            count = writer.counts.setdefault(pair.split, {"pairs": 0})
            count["pairs"] += 1
        for name, count in writer.counts.items():
            for side in SIDES:
                count[f"{side}_tokens"] = writer.column(name, side, "int32").size

    return Store.open_or_build(place_of(config, folder), request, write)


def pairs_of(store: Store, name: str) -> PairSplit:
    """A split by its name: train, validation or test; DataError if it has no pairs."""
    check_split(
        store,
        name,
        f"there are no {name} pairs",
        "give more pairs, or hold out a smaller fraction of them",
    )
    return PairSplit(
        name, store.ragged_column(name, "source"), store.ragged_column(name, "target"), store
    )
