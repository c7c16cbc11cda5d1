"""Overlapping windows over input that is longer than the model.

Every unit (a word with its pieces, or a token) is in one window or more, and belongs to the one
with the most context on its shorter side.
"""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """The model reads units begin .. end - 1; its outputs for own_begin .. own_end - 1 are used."""

    begin: int
    end: int
    own_begin: int
    own_end: int


def windows(sizes: np.ndarray, room: int, overlap: int) -> list[Window]:
    """Windows of at most `room` elements over units of these sizes, neighbours sharing about
    `overlap` elements.

    One window if everything fits. Each unit belongs to exactly one window: borders lie in the
    middle of what two windows share. Needs every size in 1 .. room and overlap < room.
    """
    ends, n = np.cumsum(sizes), len(sizes)
    if not n or ends[-1] <= room:
        return [Window(0, n, 0, n)]
    spans = [(0, _fitting(ends, 0, room))]
    while spans[-1][1] < n:
        begin, end = spans[-1]
        # the next shares `overlap` elements with this one, but reaches further
        shared = int(np.searchsorted(ends, ends[end - 1] - overlap, side="left")) + 1
        following = max(begin + 1, min(shared, end))
        while _fitting(ends, following, room) <= end:
            following += 1
        spans.append((following, _fitting(ends, following, room)))
    borders = [
        0,
        *((begin + end + 1) // 2 for (_, end), (begin, _) in itertools.pairwise(spans)),
        n,
    ]
    return [
        Window(*span, *own) for span, own in zip(spans, itertools.pairwise(borders), strict=True)
    ]


def _fitting(ends: np.ndarray, begin: int, room: int) -> int:
    """The first unit that does not fit after those from `begin` on."""
    before = int(ends[begin - 1]) if begin else 0
    return int(np.searchsorted(ends, before + room, side="right"))
