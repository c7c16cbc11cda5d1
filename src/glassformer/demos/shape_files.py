"""Data sets of coloured shapes as files: questions about pictures, pictures to draw, and labelled
pictures for a judge of what was drawn.

    {"input": [{"image": "train/12.png"}, {"text": "describe"}],
     "target": "a large pink circle", "kind": "caption"}
    {"input": "a large pink circle", "target": {"image": "train/12.png"}}
    train/12.png <tab> large pink circle
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.shape_questions import caption, questions
from glassformer.demos.shapes import HELD_OUT, Scene, draw, scenes
from glassformer.demos.writers import write_json_lines, write_png, write_table
from glassformer.random_stream import generator

COUNTS: dict[SplitName, int] = {"train": 8000, "validation": 200, "test": 400}
"""Pictures of each split."""
DRAWN_SIZE = 16
"""The side of a picture that is to be drawn."""
DRAWN_COUNTS: dict[SplitName, int] = {"train": 6000, "validation": 200, "test": 400}
DESCRIBE = "describe"
"""The prompt to which a caption is the answer."""
_KINDS = (("is there", "existence"), ("how many", "number"), ("is the", "size"))
_BESIDE = re.compile(r" (left of|right of|above|below) ")


def write_shapes(folder: Path) -> None:
    """Write rows of a picture, a prompt and its answer: of each picture a caption, then up to seven
    questions."""
    for split in NAMES:
        rows = []
        for number, (scene, file) in enumerate(
            _pictures(folder, split, scenes(split, COUNTS[split]))
        ):
            asked = questions(scene, generator(NAMES.index(split), number))
            for prompt, answer in [(DESCRIBE, caption(scene)), *asked]:
                parts = [{"image": file}, {"text": prompt}]
                rows.append({"input": parts, "target": answer, "kind": kind_of(prompt)})
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_drawn(folder: Path) -> None:
    """Write rows of words and a small picture of the one thing that they name."""
    for split in NAMES:
        some = _plain(scenes(split, DRAWN_COUNTS[split], cells=1))
        rows = (
            {"input": caption(scene), "target": {"image": file}}
            for scene, file in _pictures(folder, split, some, DRAWN_SIZE)
        )
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_judged(folder: Path) -> None:
    """Write other small pictures with size, colour and shape as classes; every split has some of
    every combination."""
    for seed, split in enumerate(NAMES, 1):
        n = DRAWN_COUNTS[split]
        held = {of: round(n * share / 100) for of, share in HELD_OUT.items()}
        counts = {"train": n - sum(held.values()), **held}
        some = chain.from_iterable(_plain(scenes(of, counts[of], seed, cells=1)) for of in NAMES)
        rows = (
            (file, " ".join(scene.things[0].kind))
            for scene, file in _pictures(folder, split, some, DRAWN_SIZE)
        )
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def kind_of(question: str) -> str:
    """What a question asks for: caption, existence, number, size, place, colour or shape."""
    if question == DESCRIBE:
        return "caption"
    for begin, kind in _KINDS:
        if question.startswith(begin):
            return kind
    return "place" if _BESIDE.search(question) else question.split()[1]


def _pictures(
    folder: Path, split: SplitName, some: Iterator[Scene], size: int = 48
) -> Iterator[tuple[Scene, str]]:
    """Each scene with the name of its picture, which is written."""
    (folder / split).mkdir()
    for number, scene in enumerate(some):
        yield scene, write_png(folder / split / f"{number}.png", draw(scene, size))


def _plain(some: Iterator[Scene]) -> Iterator[Scene]:
    """The same things on one grey, so that few colours are enough and little is left to chance."""
    return (Scene(scene.things, scene.cells) for scene in some)
