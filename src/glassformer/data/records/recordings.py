"""Audio files of every split with their classes: in folders, tables and zip archives."""

from dataclasses import dataclass

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.formats.contents import content
from glassformer.data.records.labelled_files import LabelledFile, labelled_files
from glassformer.data.sources import Source
from glassformer.media.audio_file import SUFFIXES, read_audio


@dataclass(frozen=True, slots=True)
class Recording(LabelledFile):
    """An audio file, its distinct classes and its split."""

    def samples(self) -> tuple[np.ndarray, int]:
        """Decode to float32 [T] in [-1, 1], and the sample rate; DataError: unreadable."""
        return sound(self.source)


def recordings(config: DataConfig) -> list[Recording]:
    """Every audio file of every split, in a fixed order, unopened; errors as of
    `labelled_files`."""
    return labelled_files(config, SUFFIXES, "audio file", Recording)


def sound(source: Source) -> tuple[np.ndarray, int]:
    """Decode an audio file: float32 [T] in [-1, 1], and its sample rate; see `read_audio`."""
    return read_audio(content(source), source.path)
