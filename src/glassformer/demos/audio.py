"""`glassformer demo audio`: seven instruments at pitches held out for each."""

import numpy as np

from glassformer.data.recordings import recordings
from glassformer.demos.demo import Shown
from glassformer.demos.held_out import Draw, HeldOut
from glassformer.media.audio import AudioReader
from glassformer.media.audio_file import write_wav
from glassformer.run import Run

QUIET = 30
"""Percent of a spectrogram drawn as nothing."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out notes beside two baselines, confusions, and clips to look at and
    hear."""
    held = HeldOut(run, recordings, lambda row: row.samples())
    recall = (f"{row['class']} {row['recall']:.0%}" for row in held.scores["table"])
    before = ["\nrecall of each instrument:", "  " + "  ".join(recall)]
    return held.show("audio", _drawing(run.processor.reader), before)


def _drawing(reader: AudioReader) -> Draw:
    """A clip as a spectrogram with low frequencies below, and as a sound at full loudness."""

    def draw(
        given: tuple[np.ndarray, int], looked: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, bytes]:
        clip, _ = given
        bands = reader.spectrogram(clip[None])[0].numpy()
        floor, loudest = np.percentile(bands, QUIET), float(np.abs(clip).max())
        shades = (bands - floor) / max(float(bands.max() - floor), 1e-6)
        heard = write_wav(0.9 * clip / max(loudest, 1e-6), reader.config.rate)
        return shades.T[::-1], looked.T[::-1], heard

    return draw
