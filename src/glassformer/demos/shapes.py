"""Images of coloured shapes, with questions and captions.

A scene has one to three things, each in its own cell of 3 x 3; or, for images as small as 16 x 16,
one thing in the whole image (`cells` 1). A thing is a size, a colour and a shape, which together
belong to one split: every test image has a thing that no training image has.
"""

from collections.abc import Iterator
from itertools import product
from math import cos, radians, sin
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.kit import counts, split_of, write_json_lines, write_table

SIZES = {"large": 0.4, "small": 0.24}
"""Radius in cells."""
COLOURS = {
    "red": (222, 40, 44),
    "orange": (246, 140, 24),
    "yellow": (250, 222, 50),
    "green": (40, 162, 72),
    "cyan": (66, 208, 222),
    "blue": (44, 84, 222),
    "purple": (142, 62, 192),
    "pink": (246, 132, 192),
}
OUTLINES = {
    "circle": (36, 0, [1]),
    "square": (4, 45, [1.15]),
    "triangle": (3, 0, [1.15]),
    "star": (10, 0, [1.15, 0.5]),
    "diamond": (4, 0, [1.15, 0.7]),
    "cross": (12, 15, [1.05, 0.4, 1.05]),
}
"""Number of corners, angle of the first one clockwise from the top, radii in turn."""
PLACES = [
    f"at the {row} {column}"
    for row, column in product(("top", "middle", "bottom"), ("left", "centre", "right"))
]
DESCRIBE = "describe"
"""The prompt for a caption."""
COUNTS = counts(8_000, 200, 400)
DRAWN_COUNTS = counts(6_000, 200, 400)
"""Images of each split, of questions and of single things."""

Thing = tuple[int, str, str, str]
"""Cell, size, colour and shape."""
Question = tuple[str, str, str]
"""Kind, words and answer."""


def write_shapes(folder: Path) -> None:
    """Write rows of an image, a prompt and its answer: a caption of each image, and questions."""
    for split in NAMES:
        random, rows = Random(split), list[dict[str, object]]()
        for things, file in _images(folder, split, COUNTS[split], split, cells=3):
            asked = [("caption", DESCRIBE, caption(things)), *questions(random, things)]
            for kind, prompt, answer in asked:
                given = [{"image": file}, {"text": prompt}]
                rows.append({"input": given, "target": answer, "kind": kind})
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_drawn(folder: Path) -> None:
    """Write rows of words and a small image of the one thing that they name."""
    for split in NAMES:
        rows = (
            {"input": f"a {' '.join(kind)}", "target": {"image": file}}
            for [(_, *kind)], file in _images(folder, split, DRAWN_COUNTS[split], split)
        )
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_judged(folder: Path) -> None:
    """Write small images with size, colour and shape as classes, all combinations in each
    split."""
    for split in NAMES:
        images = _images(folder, split, DRAWN_COUNTS[split], None)
        rows = ((file, " ".join(kind)) for [(_, *kind)], file in images)
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def scene(random: Random, split: SplitName | None, cells: int = 1) -> list[Thing]:
    """Return the things of an image of a split, or of any split, in reading order."""
    while True:
        places = sorted(random.sample(range(cells * cells), min(cells, random.randint(1, 3))))
        colours = random.sample([*COLOURS], len(places))  # a thing is known by its colour
        things = [
            (place, random.choice([*SIZES]), colour, random.choice([*OUTLINES]))
            for place, colour in zip(places, colours, strict=True)
        ]
        found = {split_of(" ".join(kind)) for _, *kind in things}
        if split is None or (split in found and found <= {split, "train"}):
            return things


def draw(random: Random, things: list[Thing], cells: int = 1) -> Image.Image:
    """Return an image of things on a grey ground, 16 pixels along a cell, its edges smooth."""
    grey = 232 if cells == 1 else random.randint(200, 250)  # few colours are enough for one thing
    image = Image.new("RGB", (64 * cells, 64 * cells), (grey, grey, grey))
    for place, size, colour, shape in things:
        n, first, radii = OUTLINES[shape]
        y, x = (64 * (at + random.uniform(0.42, 0.58)) for at in divmod(place, cells))
        turns = [(64 * SIZES[size] * radii[i % len(radii)], 360 * i / n + first) for i in range(n)]
        corners = [(x + far * sin(radians(a)), y - far * cos(radians(a))) for far, a in turns]
        ImageDraw.Draw(image).polygon(corners, COLOURS[colour])
    return image.reduce(4)


def caption(things: list[Thing]) -> str:
    """Return the sentence that describes a scene."""
    return ", ".join(f"a {' '.join(kind)} {PLACES[at]}" for at, *kind in things)


def questions(random: Random, things: list[Thing]) -> Iterator[Question]:
    """Return questions with one right answer; a thing is known by its colour."""
    shapes = [shape for *_, shape in things]
    (at, size, colour, shape), other = random.choice(things), random.choice(things)
    yield "shape", f"what shape is the {colour} thing?", shape
    yield "size", f"is the {colour} thing large or small?", size
    yield "place", f"where is the {colour} thing?", PLACES[at]
    if shapes.count(shape) == 1:
        yield "colour", f"what colour is the {shape}?", colour
    if other[0] // 3 != at // 3:
        above = "yes" if at < other[0] else "no"
        yield "relation", f"is the {colour} thing above the {other[2]} thing?", above
    word = random.choice([shape, random.choice([*OUTLINES])])
    yield "number", f"how many of the things are of the shape {word}?", str(shapes.count(word))
    asked = random.choice([colour, random.choice([*COLOURS])]), random.choice(shapes)
    there = "yes" if asked in [thing[2:] for thing in things] else "no"
    yield "existence", f"is there any {' '.join(asked)}?", there


def _images(
    folder: Path, split: SplitName, count: int, kinds: SplitName | None, cells: int = 1
) -> Iterator[tuple[list[Thing], str]]:
    """Return scenes of the split `kinds` with the names of their images, which are written."""
    (folder / split).mkdir()
    random = Random(f"{split} {kinds}")
    for number in range(count):
        things, file = scene(random, kinds, cells), f"{split}/{number}.png"
        draw(random, things, cells).save(folder / file)
        yield things, file
