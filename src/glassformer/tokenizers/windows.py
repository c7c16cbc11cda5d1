"""Windows: how something longer than the model is read in overlapping pieces, nothing left out.

Every unit (a word with its pieces, or a token) is in one window or more, and belongs to the one in
which it has the most context on its poorer side.
"""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """Units begin .. end - 1 are read together; the answers for own_begin .. own_end - 1 count."""

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
    ends = np.cumsum(sizes)
    spans = [(0, _fitting(ends, 0, room))]
    while spans[-1][1] < len(ends):
        begin, end = spans[-1]
        # the next begins so that it shares `overlap` elements with this one, but reaches further
        # than it
        shared = int(np.searchsorted(ends, ends[end - 1] - overlap, side="left")) + 1
        following = max(begin + 1, min(shared, end))
        while _fitting(ends, following, room) <= end:
            following += 1
        spans.append((following, _fitting(ends, following, room)))
    borders = [
        0,
        *((begin + end + 1) // 2 for (_, end), (begin, _) in itertools.pairwise(spans)),
        len(ends),
    ]
    return [
        Window(*span, *own) for span, own in zip(spans, itertools.pairwise(borders), strict=True)
    ]


def _fitting(ends: np.ndarray, begin: int, room: int) -> int:
    """The first unit that does not fit any more behind those from `begin` on."""
    before = int(ends[begin - 1]) if begin else 0
    return int(np.searchsorted(ends, before + room, side="right"))
