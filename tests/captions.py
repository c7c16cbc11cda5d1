"""The grammar of captions read back, apart from its writing in `demos.shape_questions`."""

import re
from dataclasses import dataclass

from glassformer.demos.shape_questions import PLACES, written
from glassformer.demos.shapes import COLOURS, SHAPES, SIZES

RELATIONS = ("left of", "above", "above and left of", "above and right of")
ANSWERS = (*SIZES, *COLOURS, *SHAPES, "yes", "no", "0", "1", "2", "3")
"""All answers that there are."""
_THING = rf"a ({'|'.join(SIZES)}) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
_CAPTION = re.compile(rf"{_THING}(?: ({'|'.join(sorted(PLACES, key=len, reverse=True))}))?")
_NEXT = re.compile(
    rf"(?:, which is)? ({'|'.join(sorted(RELATIONS, key=len, reverse=True))}) {_THING}"
)


@dataclass(frozen=True)
class Facts:
    """The things of a caption in reading order, the relation of each to the next, and the place of
    a lone one."""

    things: tuple[tuple[str, ...], ...]
    relations: tuple[str, ...] = ()
    place: str | None = None


def parse_caption(text: str) -> Facts | None:
    """The facts of a caption, so that `written` gives back the very text; None: the grammar has no
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
    same = written(said.things, said.relations, said.place) == text
    return said if len(kinds) <= 3 and not (said.place and rest) and same else None


def kind_of(question: str) -> str:
    """What a question asks for, by its words."""
    for begin, kind in (("is there", "existence"), ("how many", "number"), ("is the", "size")):
        if question.startswith(begin):
            return kind
    if question == "describe":
        return "caption"
    return "place" if re.search("left of|right of|above|below", question) else question.split()[1]
