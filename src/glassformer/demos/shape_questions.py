"""Captions of images of coloured shapes, and questions with answers of one word.

The caption follows from the image alone and is the only right one:

    caption  = thing [place] | thing relation thing [", which is" relation thing]
    thing    = "a" ("large" | "small") colour shape
    place    = "in the middle" | "at the" ("top" | "bottom") ["left" | "right"]
             | "at the" ("left" | "right")
    relation = "left of" | "above" | "above and left of" | "above and right of"

Things come row by row from the top, in a row from the left, each related to the next; one that is
alone has a place, or none if it fills the image. The questions are

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

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, pairwise, product

from numpy.random import Generator

from glassformer.demos.shapes import COLOURS, SHAPES, SIZES, Kind, Scene, Thing
from glassformer.demos.tables import constants

PLACES: list[str] = constants("shapes")["places"]
"""Of the 3 x 3 cells, row by row."""

Named = tuple[str, ...]
"""Some of size, colour and shape, in this order."""
Question = tuple[str, str, str]
"""What it asks for (colour, shape, size, existence, number or place), its words, its answer."""

_WORDS = (SIZES, tuple(COLOURS), SHAPES)
_ASKED = ("is {} large or small?", "what colour is {}?", "what shape is {}?")
_KINDS = ("size", "colour", "shape")
_TOLD = list(product((False, True), repeat=3))[1:]
_COUNTED: list[Named] = [(), *((word,) for words in _WORDS for word in words)]
_DIRECTIONS = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}


def caption(scene: Scene) -> str:
    """The one sentence that describes a scene, by the grammar above."""
    things, first = scene.things, scene.things[0]
    alone = len(things) == 1 and scene.cells > 1
    return written(
        [thing.kind for thing in things],
        [_relation(*pair) for pair in pairwise(things)],
        PLACES[3 * first.row + first.column] if alone else None,
    )


def written(things: Sequence[Kind], relations: Sequence[str], place: str | None) -> str:
    """The caption of things in reading order, the relation of each to the next, and the place of
    one that is alone."""
    first, *others = (f"a {' '.join(kind)}" for kind in things)
    parts = [f"{relation} {other}" for relation, other in zip(relations, others, strict=True)]
    beginning = " ".join(filter(None, [first, *parts[:1], place]))
    return ", which is ".join([beginning, *parts[1:]])


def questions(scene: Scene, rng: Generator) -> list[Question]:
    """Questions on colour, shape, size, existence, number, and often two on what is where.

    Each is drawn by `rng` among those that have one right answer; a kind that has none is left out.
    """
    asked = [_attribute(scene, rng, which) for which in (1, 2, 0)]
    asked += [_existence(scene, rng), _count(scene, rng)]
    asked += [_direction(scene, rng, which) for which in (1, 2)]
    return [question for question in asked if question is not None]


def _relation(one: Thing, other: Thing) -> str:
    if one.row == other.row:
        return "left of"
    side = (other.column > one.column) - (other.column < one.column)
    return ("above", "above and left of", "above and right of")[side]


def _attribute(scene: Scene, rng: Generator, which: int) -> Question | None:
    found = [
        (thing.kind[which], named)
        for thing in scene.things
        for named in _unique(scene, thing)
        if thing.kind[which] not in named
    ]
    if not found:  # of two that differ in this alone, neither can be named
        return None
    answer, named = found[rng.integers(len(found))]
    return _KINDS[which], _ASKED[which].format(f"the {_words(named)}"), answer


def _existence(scene: Scene, rng: Generator) -> Question:
    """Yes as often as no, which is one word away from something that is there."""
    size, colour, shape = _TOLD[rng.integers(len(_TOLD))]
    kind = scene.things[rng.integers(len(scene.things))].kind
    named = tuple(compress(kind, (size, colour or not shape, shape)))  # not the size alone
    answer = "yes"
    if rng.random() < 0.5:
        others = [other for other in _one_word_away(named) if not _meant(scene, other)]
        named, answer = others[rng.integers(len(others))], "no"
    words = _words(named)
    article = "an" if words.startswith("orange") else "a"
    return "existence", f"is there {article} {words}?", answer


def _one_word_away(named: Named) -> Iterator[Named]:
    for i, word in enumerate(named):
        (words,) = (words for words in _WORDS if word in words)
        yield from ((*named[:i], other, *named[i + 1 :]) for other in words if other != word)


def _count(scene: Scene, rng: Generator) -> Question:
    """First the number is drawn, then something that is there so many times."""
    by_number: dict[int, list[Named]] = defaultdict(list)
    for named in _COUNTED:
        by_number[len(_meant(scene, named))].append(named)
    number = sorted(by_number)[rng.integers(len(by_number))]
    words = _words(by_number[number][rng.integers(len(by_number[number]))])
    plural = f"{words}{'es' if words.endswith('ss') else 's'}"
    return "number", f"how many {plural} are there?", str(number)


def _direction(scene: Scene, rng: Generator, which: int) -> Question | None:
    found: list[tuple[str, Named, Thing]] = []
    for (direction, (down, right)), other in product(_DIRECTIONS.items(), scene.things):
        there = [
            thing
            for thing in scene.things
            if down * (thing.row - other.row) + right * (thing.column - other.column) > 0
        ]
        if len(there) == 1:
            found += [(direction, named, there[0]) for named in _unique(scene, other)]
    if not found:
        return None
    direction, named, thing = found[rng.integers(len(found))]
    asked = ("", "what colour is the thing", "what shape is")[which]
    return "place", f"{asked} {direction} the {_words(named)}?", thing.kind[which]


def _unique(scene: Scene, thing: Thing) -> Iterator[Named]:
    """The wordings that mean this thing and no other one."""
    for told in _TOLD:
        named = tuple(compress(thing.kind, told))
        if len(_meant(scene, named)) == 1:
            yield named


def _meant(scene: Scene, named: Named) -> list[Thing]:
    """The things with all these words."""
    return [thing for thing in scene.things if set(thing.kind).issuperset(named)]


def _words(named: Named) -> str:
    return " ".join(named if set(named) & set(SHAPES) else (*named, "thing"))
