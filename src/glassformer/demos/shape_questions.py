"""What is said of pictures of coloured shapes: one caption of each, and questions with their
answers of one word.

The caption follows from the picture alone and is the only one that is right:

    caption  = thing [place] | thing relation thing [", which is" relation thing]
    thing    = "a" ("large" | "small") colour shape
    place    = "in the middle" | "at the" ("top" | "bottom") ["left" | "right"]
             | "at the" ("left" | "right")
    relation = "left of" | "above" | "above and left of" | "above and right of"

Things come row by row from the top, in a row from the left, each related to the next; one that is
alone has a place, or none if it fills the picture. The questions are

    what colour is the small star?
    what shape is the red thing?
    is the red thing large or small?
    is there a large cross?
    what shape is above the blue circle?
    what colour is the thing left of the star?
    how many triangles are there?

A thing is named by what tells it from the others, never by what is asked for; "left of" is any
column further left, "above" any row further up. Answers are balanced: the best guess from the
question alone is right for about three of ten (`tests/demos/test_shapes.py` measures it).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from glassformer.demos.shapes import COLOURS, SHAPES, SIZES, Kind, Scene, Thing

PLACES = tuple(
    [
        "at the top left",
        "at the top",
        "at the top right",
        "at the left",
        "in the middle",
        "at the right",
        "at the bottom left",
        "at the bottom",
        "at the bottom right",
    ]
)
"""Of the 3 x 3 cells, row by row."""
RELATIONS = ("left of", "above", "above and left of", "above and right of")
ANSWERS = (*SIZES, *COLOURS, *SHAPES, "yes", "no", "0", "1", "2", "3")
"""All answers that there are."""

Named = tuple[str | None, str | None, str | None]
"""Size, colour and shape as far as a wording tells them."""

_THING = rf"a ({'|'.join(SIZES)}) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
_CAPTION = re.compile(rf"{_THING}(?: ({'|'.join(sorted(PLACES, key=len, reverse=True))}))?")
_NEXT = re.compile(
    rf"(?:, which is)? ({'|'.join(sorted(RELATIONS, key=len, reverse=True))}) {_THING}"
)
_SIZE, _COLOUR, _SHAPE = range(3)
_ASKED = {
    _COLOUR: "what colour is {}?",
    _SHAPE: "what shape is {}?",
    _SIZE: "is {} large or small?",
}
_TOLD = [told for told in product((False, True), repeat=3) if any(told)]
_COUNTED: list[Named] = [
    (None, None, None),
    *((size, None, None) for size in SIZES),
    *((None, colour, None) for colour in COLOURS),
    *((None, None, shape) for shape in SHAPES),
]
_DIRECTIONS: dict[str, Callable[[Thing, Thing], bool]] = {
    "left of": lambda thing, other: thing.column < other.column,
    "right of": lambda thing, other: thing.column > other.column,
    "above": lambda thing, other: thing.row < other.row,
    "below": lambda thing, other: thing.row > other.row,
}


@dataclass(frozen=True)
class Facts:
    """What a caption says: the things in reading order, how each stands to the next, and the place
    of a lone one."""

    things: tuple[Kind, ...]
    relations: tuple[str, ...] = ()
    place: str | None = None


def facts(scene: Scene) -> Facts:
    """What there is to say about a scene."""
    things = scene.things
    lone = len(things) == 1 and scene.cells == 3
    return Facts(
        tuple(thing.kind for thing in things),
        tuple(_relation(one, other) for one, other in pairwise(things)),
        PLACES[3 * things[0].row + things[0].column] if lone else None,
    )


def caption(scene: Scene) -> str:
    """The one sentence that describes a scene, by the grammar above."""
    return written(facts(scene))


def written(said: Facts) -> str:
    """Facts as a caption."""
    first, *others = (f"a {' '.join(kind)}" for kind in said.things)
    parts = [f"{relation} {other}" for relation, other in zip(said.relations, others, strict=True)]
    return " ".join([first, *parts[:1], *filter(None, [said.place])]) + "".join(
        f", which is {p}" for p in parts[1:]
    )


def parse_caption(text: str) -> Facts | None:
    """What a caption says, so that `written` gives back the very text; None: the grammar has no
    such sentence."""
    found = _CAPTION.match(text)
    if found is None:
        return None
    rest = list(_NEXT.finditer(text, found.end()))
    kinds = (
        (found[1], found[2], found[3]),
        *((another[2], another[3], another[4]) for another in rest),
    )
    said = Facts(kinds, tuple(another[1] for another in rest), found[4])
    right = len(kinds) <= 3 and not (said.place and rest) and written(said) == text
    return said if right else None


def questions(scene: Scene, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Questions with their answers: on colour, shape, size, whether there is, how many, and often
    two on what is where.

    Each is drawn by `rng` among those that have one right answer; a kind that has none is left out.
    """
    asked = [_attribute(scene, rng, which) for which in (_COLOUR, _SHAPE, _SIZE)]
    asked += [_existence(scene, rng), _count(scene, rng)]
    asked += [_direction(scene, rng, which) for which in (_COLOUR, _SHAPE)]
    return [question for question in asked if question is not None]


def _relation(one: Thing, other: Thing) -> str:
    if one.row == other.row:
        return "left of"
    side = (other.column > one.column) - (other.column < one.column)
    return {0: "above", 1: "above and left of", -1: "above and right of"}[side]


def _attribute(scene: Scene, rng: np.random.Generator, which: int) -> tuple[str, str] | None:
    found = [
        (thing, named)
        for thing in scene.things
        for named in _unique(scene, thing)
        if named[which] is None
    ]
    if not found:  # of two alike, but for what is asked, neither can be named
        return None
    thing, named = found[rng.integers(len(found))]
    return _ASKED[which].format(f"the {_words(named)}"), thing.kind[which]


def _existence(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Yes as often as no, which is one word away from something that is there."""
    told = _TOLD[rng.integers(len(_TOLD))]
    told = (told[0], told[1] or not told[2], told[2])  # not the size alone
    named = _named(scene.things[rng.integers(len(scene.things))].kind, told)
    answer = "yes"
    if rng.random() < 0.5:
        others = [
            other
            for other in _one_word_away(named)
            if not any(_is(thing, other) for thing in scene.things)
        ]
        named, answer = others[rng.integers(len(others))], "no"
    words = _words(named)
    return f"is there {'an' if words.startswith('orange') else 'a'} {words}?", answer


def _one_word_away(named: Named) -> Iterator[Named]:
    size, colour, shape = named
    yield from ((other, colour, shape) for other in SIZES if size not in (None, other))
    yield from ((size, other, shape) for other in COLOURS if colour not in (None, other))
    yield from ((size, colour, other) for other in SHAPES if shape not in (None, other))


def _count(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """First the number is drawn, then something that is there so many times."""
    by_number: dict[int, list[Named]] = defaultdict(list)
    for named in _COUNTED:
        by_number[sum(_is(thing, named) for thing in scene.things)].append(named)
    numbers = sorted(by_number)
    number = numbers[rng.integers(len(numbers))]
    named = by_number[number][rng.integers(len(by_number[number]))]
    words = _words(named)
    return f"how many {words}{'es' if words.endswith('ss') else 's'} are there?", str(number)


def _direction(scene: Scene, rng: np.random.Generator, which: int) -> tuple[str, str] | None:
    found: list[tuple[str, Named, Thing]] = []
    for direction, holds in _DIRECTIONS.items():
        for other in scene.things:
            there = [thing for thing in scene.things if holds(thing, other)]
            if len(there) == 1:
                found += [(direction, named, there[0]) for named in _unique(scene, other)]
    if not found:
        return None
    direction, named, thing = found[rng.integers(len(found))]
    asked = "what shape is" if which == _SHAPE else "what colour is the thing"
    return f"{asked} {direction} the {_words(named)}?", thing.kind[which]


def _unique(scene: Scene, thing: Thing) -> Iterator[Named]:
    """The wordings that mean this thing and no other one."""
    for told in _TOLD:
        named = _named(thing.kind, told)
        if sum(_is(other, named) for other in scene.things) == 1:
            yield named


def _named(kind: Kind, told: tuple[bool, ...]) -> Named:
    size, colour, shape = (name if shown else None for name, shown in zip(kind, told, strict=True))
    return size, colour, shape


def _is(thing: Thing, named: Named) -> bool:
    size, colour, shape = thing.kind  # written out, since it is asked thousands of times
    return named[0] in (None, size) and named[1] in (None, colour) and named[2] in (None, shape)


def _words(named: Named) -> str:
    size, colour, shape = named
    return " ".join(filter(None, (size, colour, shape or "thing")))
