"""The pictures or recordings that rows of parts name: each decoded once, however many rows name it;
as patches."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from glassformer.data.formats.contents import source_at
from glassformer.data.pictures import Picture
from glassformer.data.recordings import Recording
from glassformer.data.split import SplitName
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.media_dataset import Heard, Kept, Seen, Senses

KINDS: dict[str, type[Seen] | type[Heard]] = {"image": Seen, "audio": Heard}
"""What each kind of part that is no text is read by; also the sections of a recipe."""


class PartFiles:
    """The files of one kind, by their paths; `splits` says for each in which split it counts, the
    first that has it."""

    def __init__(
        self, kind: str, recipe: Recipe, run: Path, begun: bool, splits: Mapping[str, SplitName]
    ):
        """`begun`: the run knows how files of this kind are read; otherwise the first of training
        tells."""
        self.senses: Senses = (
            Seen(recipe, run, begun, [picture(path, split) for path, split in splits.items()])
            if kind == "image"
            else Heard(
                recipe,
                run,
                begun,
                [Recording(source_at(p), (), None, split) for p, split in splits.items()],
            )
        )
        self._kept: dict[str, Kept] = {}
        self._at: dict[str, tuple[str, int]] = {}

    def store(self, run: Path) -> None:
        """Decode all of them once into the run folder, and save how they are read; errors as of
        `Senses`."""
        self.senses.store(run)
        self._look()

    def open(self, folder: Path) -> None:
        """Decode them into another folder, to be read as the run reads them."""
        self.senses.open(folder, list(self.senses.splits))
        self._look()

    def _look(self) -> None:
        self._kept = {split: self.senses.split(split) for split in self.senses.splits}
        self._at = {
            where: (split, i)
            for split, kept in self._kept.items()
            for i, where in enumerate(kept.where)
        }

    def has(self, path: str) -> bool:
        """Whether a file could be read."""
        return path in self._at

    @property
    def skipped(self) -> list[str]:
        """What was wrong with the files that could not be read."""
        return [sentence for kept in self._kept.values() for sentence in kept.skipped]

    def fed(self, paths: Iterable[str], step: int) -> dict[str, np.ndarray]:
        """The patches, float32 [T, P], of training files as they are fed at a step."""
        chosen = sorted({self._at[path][1]: path for path in paths}.items())
        numbers = np.array([number for number, _ in chosen], np.int64)
        nothing = np.zeros(len(numbers), np.int64)
        patches, _ = self.senses.fed(self._kept["train"], numbers, nothing, step, 1)
        return dict(zip((path for _, path in chosen), patches.numpy(), strict=True))

    def plain(self, paths: Iterable[str]) -> dict[str, np.ndarray]:
        """The same of any files as they are."""
        found: dict[str, np.ndarray] = {}
        for split, kept in self._kept.items():
            chosen = sorted(
                {self._at[path][1]: path for path in paths if self._at[path][0] == split}.items()
            )
            if chosen:
                patches = self.senses.plain(
                    kept, np.array([number for number, _ in chosen], np.int64)
                )
                found |= zip((path for _, path in chosen), patches.numpy(), strict=True)
        return found


def picture(path: str, split: SplitName) -> Picture:
    """The picture file of this path, read when asked for."""
    return Picture(path, (), None, split, source_at(path))
