"""Data sets of coloured shapes as files: questions about images, images to draw, and labelled
images for a judge of drawn ones.

    {"input": [{"image": "train/12.png"}, {"text": "describe"}],
     "target": "a large pink circle", "kind": "caption"}
    {"input": "a large pink circle", "target": {"image": "train/12.png"}}
    train/12.png <tab> large pink circle
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.shape_questions import caption, questions
from glassformer.demos.shapes import HELD_OUT, Scene, draw, scenes
from glassformer.demos.writers import write_json_lines, write_png, write_table
from glassformer.random_stream import generator

COUNTS: dict[SplitName, int] = {"train": 8000, "validation": 200, "test": 400}
"""Images of each split."""
DRAWN_SIZE = 16
"""The side of an image to be drawn."""
DRAWN_COUNTS: dict[SplitName, int] = {"train": 6000, "validation": 200, "test": 400}
DESCRIBE = "describe"
"""The prompt for a caption."""


def write_shapes(folder: Path) -> None:
    """Write rows of an image, a prompt and its answer: of each image a caption, then up to seven
    questions."""
    for at, split in enumerate(NAMES):
        rows = [
            {"input": [{"image": file}, {"text": prompt}], "target": answer, "kind": kind}
            for number, (scene, file) in enumerate(
                _images(folder, split, scenes(split, COUNTS[split]), 48)
            )
            for kind, prompt, answer in [
                ("caption", DESCRIBE, caption(scene)),
                *questions(scene, generator(at, number)),
            ]
        ]
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_drawn(folder: Path) -> None:
    """Write rows of words and a small image of the one thing that they name."""
    for split in NAMES:
        some = scenes(split, DRAWN_COUNTS[split], cells=1)
        rows = (
            {"input": caption(scene), "target": {"image": file}}
            for scene, file in _images(folder, split, some)
        )
        write_json_lines(folder / f"{split}.jsonl", rows)


def write_judged(folder: Path) -> None:
    """Write other small images with size, colour and shape as classes; every split has some of
    every combination."""
    for seed, split in enumerate(NAMES, 1):
        n = DRAWN_COUNTS[split]
        held = {of: round(n * share / 100) for of, share in HELD_OUT.items()}
        counts = {"train": n - sum(held.values()), **held}
        some = chain.from_iterable(scenes(of, counts[of], seed, cells=1) for of in NAMES)
        rows = (
            (file, " ".join(scene.things[0].kind)) for scene, file in _images(folder, split, some)
        )
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def _images(
    folder: Path, split: SplitName, some: Iterator[Scene], size: int = DRAWN_SIZE
) -> Iterator[tuple[Scene, str]]:
    """Each scene with the name of its image, which is written; a scene of one cell has a plain
    ground, so that few colours are enough and little is left to chance."""
    (folder / split).mkdir()
    for number, scene in enumerate(some):
        shown = Scene(scene.things, scene.cells) if scene.cells == 1 else scene
        yield scene, write_png(folder / split / f"{number}.png", draw(shown, size))
