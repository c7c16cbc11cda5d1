"""What a model of patches sees or hears: pictures or recordings, decoded once, changed at every
step, cut into patches.

pictures       uint8 [N, H, W, C]  ── augmented, mixed ──> normalized ──> patches [N, T, P]
recordings     float32 [N, T]      ── augmented ──> spectrograms ── masked ──> patches [N, T, P]
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.data.arrays import arrays_of, stamp_of, store_arrays
from glassformer.data.pictures import Picture, pictures
from glassformer.data.recordings import Recording, recordings
from glassformer.data.store import Store
from glassformer.errors import ConfigError, DataError, counted
from glassformer.media.audio import AudioConfig, AudioReader
from glassformer.media.audio_augment import SoundAugmentation, SoundAugmentConfig
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.image_augment import Augmentation, AugmentConfig
from glassformer.pages import images
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.examples import by_split, split_of

SMALL = 96
"""Pixels of the longer side of a thumbnail."""


@dataclass(frozen=True)
class Kept:
    """What could be read of one split: a row for each, its classes and its file; and what was wrong
    with the others."""

    array: np.ndarray
    labels: list[tuple[str, ...]]
    where: list[str]
    skipped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.where)


class Senses(ABC):
    """The data of a run as its model takes them; `noun` is what errors call one, `field` the
    section of a recipe."""

    noun: str
    field: str
    array: str
    """The folder of the array store."""
    shape: tuple[int, ...]
    kind: str
    splits: dict[str, list[Any]]

    def __init__(self, recipe: Recipe, items: Sequence[Picture] | Sequence[Recording]):
        self._data, self._seed = recipe.data, recipe.train.seed
        self.splits = by_split(items)
        self._stored: Store | None = None

    def model_fields(self) -> dict[str, Any]:
        """The fields of a model that follow from what it is fed."""
        reader = self.sense
        size = {"patch_width": reader.patch_width, "patch": reader.config.patch_size}
        return size | {"max_length": reader.n_patches, "grid": reader.grid}

    @property
    @abstractmethod
    def sense(self) -> ImageReader | AudioReader:
        """How pictures or recordings become patches."""
        ...

    def labels(self, split: str) -> list[tuple[str, ...]]:
        """The classes of everything in a split, read or not; DataError if there is nothing in
        it."""
        return [item.labels for item in split_of(self.splits, split)]

    def places(self, split: str) -> list[str]:
        """Where everything in a split comes from."""
        return [item.where for item in split_of(self.splits, split)]

    def store(self, run: Path) -> None:
        """Decode everything once into the run folder, and save how the run reads what it is given.

        DataError: something that cannot be read, unless data.bad_files is skip.
        """
        with _hinting(self._data.bad_files):
            self.open(run / self.array, list(self.splits))
        if not len(self.split("train")):
            raise DataError(
                f"no training {self.noun} could be read, the first: "
                f"{self.split('train').skipped[0]}"
            )
        self._learn(run)

    def open(self, folder: Path, splits: Sequence[str]) -> None:
        """Decode some of the splits into a folder, or find them there unchanged; DataError: as of
        `store`."""
        data = self._data
        items = {
            name: [partial(self._decoded, item) for item in split_of(self.splits, name)]
            for name in splits
        }
        wheres = [item.where for name in splits for item in self.splits[name]]
        request = {
            "stamp": stamp_of([data.path, data.validation_path, data.test_path]),
            "files": hashlib.sha256("\n".join(wheres).encode(errors="replace")).hexdigest()[:16],
            "settings": self._settings(),
            "skip": data.bad_files == "skip",
        }
        self._stored = store_arrays(
            folder, request, items, self.shape, self.kind, data.bad_files == "skip"
        )

    def split(self, name: str) -> Kept:
        """What could be read of a split."""
        assert self._stored is not None, "store comes first"
        items, rows = split_of(self.splits, name), arrays_of(self._stored, name)
        kept = [items[i] for i in rows.kept.tolist()]
        return Kept(
            rows.array, [item.labels for item in kept], [item.where for item in kept], rows.skipped
        )

    @abstractmethod
    def fed(
        self,
        kept: Kept,
        numbers: Int[np.ndarray, "N"],
        targets: np.ndarray,
        step: int,
        n_classes: int,
    ) -> tuple[Float[Tensor, "N T P"], Tensor]:
        """Training rows as they are fed at a step, with their targets (shares of classes where they
        are mixed)."""
        ...

    @abstractmethod
    def plain(self, kept: Kept, numbers: Int[np.ndarray, "N"]) -> Float[Tensor, "N T P"]:
        """Rows as they are, for scores."""
        ...

    @abstractmethod
    def thumbnail(self, kept: Kept, number: int) -> str:
        """A row as the address of a small PNG file."""
        ...

    @abstractmethod
    def described(self) -> list[str]:
        """How they are read, in sentences."""
        ...

    @abstractmethod
    def _decoded(self, item: Any) -> np.ndarray: ...

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What the stored arrays depend on."""
        ...

    @abstractmethod
    def _learn(self, run: Path) -> None:
        """Take from the training rows what the reader needs of them, and save it."""
        ...


class Seen(Senses):
    """Pictures."""

    noun, field, array, kind = "picture", "image", "pixels", "uint8"

    def __init__(
        self, recipe: Recipe, run: Path, begun: bool, items: Sequence[Picture] | None = None
    ):
        """`items`: other pictures than those that are the recipe's data."""
        super().__init__(recipe, pictures(recipe.data) if items is None else items)
        self._augment = recipe.augment or AugmentConfig()
        assert recipe.image is not None
        if begun:
            self.reader = ImageReader.load(run)
        else:
            self.reader = ImageReader(
                _shaped(recipe.image, split_of(self.splits, "train"), recipe.data.bad_files)
            )
        self.shape = self.reader.shape
        self._augmentation = Augmentation(self._augment, recipe.train.seed)

    @property
    def sense(self) -> ImageReader:
        """See `Senses`."""
        return self.reader

    def fed(
        self,
        kept: Kept,
        numbers: Int[np.ndarray, "N"],
        targets: np.ndarray,
        step: int,
        n_classes: int,
    ) -> tuple[Float[Tensor, "N T P"], Tensor]:
        """See `Senses`."""
        pixels = kept.array[numbers]
        if self._augment.changes:
            pixels = self._augmentation(pixels, numbers, step)
        if self._augment.mixes:
            pixels, targets = self._augmentation.mixed(pixels, targets, n_classes, numbers, step)
        return self.reader.patches(self.reader.normalized(pixels)), torch.from_numpy(targets)

    def plain(self, kept: Kept, numbers: Int[np.ndarray, "N"]) -> Float[Tensor, "N T P"]:
        """See `Senses`."""
        return self.reader.patches(self.reader.normalized(kept.array[numbers]))

    def thumbnail(self, kept: Kept, number: int) -> str:
        """See `Senses`."""
        return images.png(images.thumbnail(np.array(kept.array[number]), SMALL))

    def described(self) -> list[str]:
        """See `Senses`."""
        (height, width, channels), (rows, columns) = self.reader.shape, self.reader.grid
        patches = f"{rows} x {columns} patches of {counted(self.reader.patch_width, 'number')}"
        return [f"{height} x {width} {'grey' if channels == 1 else 'colour'} pictures in {patches}"]

    def _decoded(self, item: Picture) -> np.ndarray:
        return self.reader.fit(item.pixels(), item.where)

    def _settings(self) -> dict[str, Any]:
        return self.reader.config.model_dump(mode="json", exclude={"mean", "std", "patch"})

    def _learn(self, run: Path) -> None:
        self.reader = self.reader.resolved(self.split("train").array)
        self.reader.save(run)


class Heard(Senses):
    """Recordings."""

    noun, field, array, kind = "recording", "audio", "clips", "float32"

    def __init__(
        self, recipe: Recipe, run: Path, begun: bool, items: Sequence[Recording] | None = None
    ):
        """`items`: other recordings than those that are the recipe's data."""
        super().__init__(recipe, recordings(recipe.data) if items is None else items)
        assert recipe.audio is not None
        self.reader = AudioReader.load(run) if begun else AudioReader(recipe.audio)
        self.shape = (self.reader.config.n_samples,)
        change = recipe.sound_augment or SoundAugmentConfig()
        self._augmentation = SoundAugmentation(change, self.reader.config.rate, recipe.train.seed)
        self._cut = 0

    @property
    def sense(self) -> AudioReader:
        """See `Senses`."""
        return self.reader

    def fed(
        self,
        kept: Kept,
        numbers: Int[np.ndarray, "N"],
        targets: np.ndarray,
        step: int,
        n_classes: int,
    ) -> tuple[Float[Tensor, "N T P"], Tensor]:
        """See `Senses`."""
        clips = self.sounds(kept, numbers, step)
        spectrograms = self._augmentation.spectrograms(
            self.reader.spectrogram(clips), numbers, step
        )
        return self.reader.patches(spectrograms), torch.from_numpy(targets)

    def sounds(self, kept: Kept, numbers: Int[np.ndarray, "N"], step: int) -> np.ndarray:
        """What is heard of training rows at a step, float32 [N, T]."""
        return self._augmentation.clips(kept.array[numbers], numbers, step)

    def plain(self, kept: Kept, numbers: Int[np.ndarray, "N"]) -> Float[Tensor, "N T P"]:
        """See `Senses`."""
        return self.reader.patches(self.reader.spectrogram(kept.array[numbers]))

    def thumbnail(self, kept: Kept, number: int) -> str:
        """See `Senses`: its spectrogram."""
        return images.shaded(
            images.brightness(self.reader.spectrogram(kept.array[number][None])[0].numpy()),
            dark=False,
        )

    def described(self) -> list[str]:
        """See `Senses`."""
        c, (times, bands) = self.reader.config, self.reader.grid
        sentences = [
            f"clips of {c.seconds:g} s at {c.rate:,} Hz, {c.frames} frames of {c.n_mels} mel "
            f"bands in {times} x "
            f"{bands} patches of {counted(self.reader.patch_width, 'number')}"
        ]
        if self._cut:
            sentences.append(
                f"{counted(self._cut, 'recording')} longer than a clip: what is beyond it is "
                f"not heard"
            )
        return sentences

    def _decoded(self, item: Recording) -> np.ndarray:
        samples, rate = item.samples()
        self._cut += self.reader.cuts(len(samples), rate)
        return self.reader.clip(samples, rate)

    def _settings(self) -> dict[str, Any]:
        return self.reader.config.model_dump(mode="json", include={"rate", "seconds", "position"})

    def _learn(self, run: Path) -> None:
        self.reader = self.reader.resolved(self.split("train").array)
        self.reader.save(run)


def _shaped(config: ImageConfig, train: Sequence[Picture], bad_files: str) -> ImageConfig:
    """The configuration with the size and channels of the first picture, or of the first that can
    be read."""
    if config.size is not None and config.channels is not None:
        return config
    for picture in train[:-1] if bad_files == "skip" else ():
        with suppress(DataError):
            return config.seen(picture.pixels())
    with _hinting(bad_files):
        return config.seen(train[-1 if bad_files == "skip" else 0].pixels())


@contextmanager
def _hinting(bad_files: str) -> Iterator[None]:
    """Say with a DataError that a file can be left out; where no recipe is at hand, nobody could
    follow that."""
    try:
        yield
    except DataError as problem:
        if bad_files == "skip":
            raise
        raise DataError(
            f"{problem}, or set data.bad_files=skip to go on without such files"
        ) from None


def senses_of(recipe: Recipe, run: Path, begun: bool) -> Senses:
    """Pictures or recordings, as the recipe has a section for them; ConfigError: for both or
    neither."""
    match recipe.image, recipe.audio:
        case ImageConfig(), None:
            return Seen(recipe, run, begun)
        case None, AudioConfig():
            return Heard(recipe, run, begun)
    raise ConfigError(
        "model.elements='patches' are patches of pictures or of sound; give the recipe a "
        "section image, or one audio."
    )
