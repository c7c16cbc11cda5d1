"""Random streams and splits as functions of names and numbers, the same on every machine."""

import hashlib
from collections.abc import Mapping

import numpy as np

from glassformer.data.split import NAMES, SplitName


def stream(split: SplitName, number: int, seed: int = 0, kind: int = 0) -> np.random.Generator:
    """The random stream of item `number` of a split."""
    key = [seed, NAMES.index(split)]
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, kind, number]))


def hashed(text: str) -> int:
    """64 bits of a text's BLAKE2b digest."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def split_by_hash(text: str, percent: Mapping[SplitName, int]) -> SplitName:
    """The split of everything that is made of `text`; `percent` go to validation and test."""
    place = hashed(text) % 100
    if place < percent["validation"]:
        return "validation"
    return "test" if place < percent["validation"] + percent["test"] else "train"
