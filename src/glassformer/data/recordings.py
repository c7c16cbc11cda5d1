"""Recordings with classes: which there are in folders, tables and zip archives, and what each
sounds like when asked."""

from dataclasses import dataclass

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.formats.contents import content
from glassformer.data.formats.labelled_files import labelled_files
from glassformer.data.sources import Source
from glassformer.data.split import SplitName
from glassformer.media.wav import read_wav

SUFFIXES = (".wav", ".wave")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording, its classes, each once, the group (its speaker, perhaps) that it belongs to, and
    its split."""

    source: Source
    labels: tuple[str, ...]
    group: str | None
    split: SplitName

    @property
    def where(self) -> str:
        """The file's path, which errors name."""
        return self.source.path

    def samples(self) -> tuple[np.ndarray, int]:
        """The sound, float32 [T] in [-1, 1], and its samples a second, read now; DataError: it
        cannot be read."""
        return sound(self.source)


def recordings(config: DataConfig) -> list[Recording]:
    """Every recording of every split, in a fixed order; errors as of `labelled_files`. None of them
    is opened yet."""
    files = labelled_files(config, SUFFIXES, "recording")
    return [Recording(file.source, file.labels, file.group, file.split) for file in files]


def sound(source: Source) -> tuple[np.ndarray, int]:
    """What a file holds, float32 [T] in [-1, 1], the mean of its channels, and its samples a
    second; as `read_wav`."""
    samples, rate = read_wav(content(source), source.path)
    return samples.mean(axis=1, dtype=np.float32), rate
