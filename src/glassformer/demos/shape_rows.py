"""`builtin:shapes`: pictures of coloured shapes as rows of parts, a caption and some questions for
each.

    builtin:shapes/train/12    "describe"                        a large pink circle left of a small green circle
    builtin:shapes/train/12    "how many stars are there?"       0

`builtin:shapes-drawn`: small pictures of one thing on a plain ground, each with the words that it
is to be drawn from.

    builtin:shapes-drawn/train/12    "a large pink circle"

As labelled pictures, for a judge of what was drawn, they are others, and every split has some of
every kind.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np

from glassformer.data.sources import DRAWN, SHAPES
from glassformer.data.split import NAMES, SplitName
from glassformer.demos.shape_questions import caption, questions
from glassformer.demos.shapes import HELD_OUT, Kind, Scene, draw, scenes

COUNTS: dict[SplitName, int] = {"train": 8000, "validation": 200, "test": 400}
"""Pictures of each split."""
DRAWN_SIZE = 16
"""The side of a picture that is to be drawn."""
DRAWN_COUNTS: dict[SplitName, int] = {"train": 6000, "validation": 200, "test": 400}
DESCRIBE = "describe"
"""The prompt to which a caption is the answer."""
_KINDS = (("is there", "existence"), ("how many", "number"), ("is the", "size"))
_BESIDE = re.compile(r" (left of|right of|above|below) ")


@dataclass(frozen=True)
class ShapeRow:
    """A prompt on the picture of this name, its answer, and what kind of question it is."""

    split: SplitName
    picture: str
    prompt: str
    answer: str
    kind: str


def shape_rows() -> Iterator[ShapeRow]:
    """Every row of every split: of each picture its caption first, then up to seven questions."""
    for split in NAMES:
        for number, scene in enumerate(_scenes(split)):
            name = f"{SHAPES}/{split}/{number}"
            yield ShapeRow(split, name, DESCRIBE, caption(scene), "caption")
            key = [NAMES.index(split), number]
            for question, answer in questions(
                scene, np.random.Generator(np.random.Philox(key=key))
            ):
                yield ShapeRow(split, name, question, answer, kind_of(question))


def drawn_rows() -> Iterator[tuple[SplitName, str, Kind]]:
    """Of each small picture its split, its name, and the size, colour and shape of the only thing
    in it."""
    for split in NAMES:
        for number, scene in enumerate(_lone(split)):
            yield split, f"{DRAWN}/{split}/{number}", scene.things[0].kind


def told_pictures() -> Iterator[tuple[SplitName, str, Kind, np.ndarray]]:
    """As many small pictures that are no targets: split, name, classes, pixels uint8 [16, 16,
    3]."""
    for seed, split in enumerate(NAMES, 1):
        n = DRAWN_COUNTS[split]
        held = {of: round(n * share / 100) for of, share in HELD_OUT.items()}
        counts = {"train": n - sum(held.values()), **held}
        every = chain.from_iterable(_plain(scenes(of, counts[of], seed, cells=1)) for of in NAMES)
        for number, scene in enumerate(every):
            yield (
                split,
                f"{DRAWN}/told-{split}/{number}",
                scene.things[0].kind,
                draw(scene, DRAWN_SIZE),
            )


def shape_pixels(picture: str) -> np.ndarray:
    """The pixels of a picture by its name, uint8 [48, 48, 3] or [16, 16, 3]."""
    of, split, number = picture.split("/")
    named = NAMES[NAMES.index(split)]
    return (
        draw(_lone(named)[int(number)], DRAWN_SIZE)
        if of == DRAWN
        else draw(_scenes(named)[int(number)])
    )


def kind_of(question: str) -> str:
    """What a question asks for: caption, existence, number, size, place, colour or shape."""
    if question == DESCRIBE:
        return "caption"
    for begin, kind in _KINDS:
        if question.startswith(begin):
            return kind
    return "place" if _BESIDE.search(question) else question.split()[1]


@cache
def _scenes(split: SplitName) -> list[Scene]:
    return scenes(split, COUNTS[split])


@cache
def _lone(split: SplitName) -> list[Scene]:
    return _plain(scenes(split, DRAWN_COUNTS[split], cells=1))


def _plain(drawn: list[Scene]) -> list[Scene]:
    """The same things on one grey, so that few colours are enough and little is drawn by chance."""
    return [Scene(scene.things, scene.cells) for scene in drawn]
