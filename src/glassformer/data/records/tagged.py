"""Tagged sentences of every split: words with a tag for each."""

from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.tagged_words import sentences
from glassformer.data.splits import in_splits, rows_of


@dataclass(frozen=True)
class Tagged:
    """A sentence, a tag for each of its words, and its origin."""

    split: SplitName
    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_tagged(config: DataConfig) -> Iterator[Tagged]:
    """Every sentence of every split, without empty ones; DataError: none, or as of `sentences`."""
    remedy = "give words with a tag for each"
    rows = in_splits(config, rows_of(config, sentences), "sentences", remedy)
    for split, (words, tags, where) in rows:
        yield Tagged(split, words, tuple(map(config.class_name, tags)), where)
