"""Numbers and splits as functions of names, the same on every machine."""

import hashlib
from collections.abc import Mapping

from glassformer.data.config import SplitName


def hashed(text: str) -> int:
    """64 bits of a text's BLAKE2b digest."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def split_by_hash(text: str, percent: Mapping[SplitName, int]) -> SplitName:
    """The split of everything that is made of `text`; `percent` go to validation and test."""
    place = hashed(text) % 100
    if place < percent["validation"]:
        return "validation"
    return "test" if place < percent["validation"] + percent["test"] else "train"
