"""How many pictures that were drawn from words show what the words say, judged by the project's own
classifier.

    python bench/text_to_image.py --runs FOLDER

Writes the data of the recipes shapes-drawn and shapes-judge into FOLDER and trains
both (or finds them trained there),
has every combination of size, colour and shape drawn `--each` times, and counts the pictures in
which the judge sees exactly the three. Of the combinations held out for the test neither the
drawing model nor its palette saw one; the judge learned every one, from other pictures. Its own
share on real pictures, which bounds what it can tell, is counted by the same rule.

Prints one JSON object; progress goes to stderr.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from glassformer.data.records.parts import read_parts
from glassformer.data.records.pictures import decode
from glassformer.demos.catalog import DATA
from glassformer.demos.kit import split_of
from glassformer.demos.shapes import COLOURS, OUTLINES, SIZES
from glassformer.recipe.reading import read_recipe
from glassformer.run import Run, load
from glassformer.training import train
from glassformer.training.folder.given_data import write_data


def main() -> None:
    """Train both, draw, judge, print."""
    parser = argparse.ArgumentParser(
        description="Text-to-image, judged by the project's own classifier."
    )
    parser.add_argument(
        "--runs", type=Path, help="where the runs are kept, or found (a temporary folder)"
    )
    parser.add_argument("--each", type=int, default=5, help="pictures of each combination (5)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the drawing model (1.0)")
    arguments = parser.parse_args()
    sys.stderr.write("About 15 minutes on two cores; a few if the runs exist.\n")
    with tempfile.TemporaryDirectory() as folder:
        runs = arguments.runs or Path(folder)
        seconds: dict[str, float] = {}
        painter, judge = (
            _trained(name, runs, seconds) for name in ("shapes-drawn", "shapes-judge")
        )
        found = {
            "judge_on_real_pictures": _real(painter, judge),
            "drawn": _drawn(painter, judge, arguments.each, arguments.temperature),
            "seconds": seconds,
        }
    print(json.dumps(found, indent=2))


def _trained(name: str, runs: Path, seconds: dict[str, float]) -> Run:
    folder, data = runs / name, (runs / f"{name}-data").absolute()
    write_data(DATA[name], data)
    recipe = read_recipe(name, [f"data.root={json.dumps(str(data))}"])
    with redirect_stdout(sys.stderr):
        result = train(recipe, folder, (folder / "recipe.yaml").is_file())
    seconds[name] = round(result.seconds, 1)
    return load(folder)


def _real(painter: Run, judge: Run) -> dict[str, float]:
    """Shares of real pictures of each split in which the judge sees exactly what is there."""
    shares: dict[str, float] = {}
    for split in ("train", "test"):
        rows = [row for row in read_parts(painter.recipe.data) if row.split == split][:400]
        pictures = [decode(Path(row.image).read_bytes(), row.image) for row in rows]
        right = judged(judge, pictures, [row.parts[0][1] for row in rows])
        shares[split] = sum(right) / len(right)
    return shares


def _drawn(painter: Run, judge: Run, each: int, temperature: float) -> dict[str, dict[str, float]]:
    """The same of drawn pictures, and how many there were."""
    kinds = [(size, colour, shape) for size in SIZES for colour in COLOURS for shape in OUTLINES]
    prompts: dict[str, list[str]] = defaultdict(list)
    for kind in kinds:
        prompts[split_of(" ".join(kind))].append(f"a {' '.join(kind)}")
    shares: dict[str, dict[str, float]] = {}
    for split, of in prompts.items():
        began, right = time.perf_counter(), 0
        for seed in range(each):
            pictures = list(painter.draw(of, seed=seed, temperature=temperature))
            right += sum(judged(judge, pictures, of))
        n = each * len(of)
        speed = n / (time.perf_counter() - began)
        shares[split] = {
            "combinations": len(of),
            "pictures": n,
            "right": right / n,
            "per_second": round(speed, 2),
        }
    return shares


def judged(judge: Run, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[bool]:
    """Whether the judge sees exactly the words of each prompt that are its classes."""
    known, found = set(judge.classes), judge.classify(list(images))
    return [
        set(prompt.split()) & known == {*seen} for prompt, seen in zip(prompts, found, strict=True)
    ]


if __name__ == "__main__":
    main()
