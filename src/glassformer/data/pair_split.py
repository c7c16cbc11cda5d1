"""Pairs as token ids, stored once for each split: a source and a target column, and the texts of
held out pairs."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import LengthOrder, pair_order
from glassformer.data.pairs import pair_sources, pairs
from glassformer.data.store import Ragged, Store, Writer, check_split, place_of, request_of

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
        """See `pair_order`."""
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
    return PairSplit(name, store.ragged(name, "source"), store.ragged(name, "target"), store)
