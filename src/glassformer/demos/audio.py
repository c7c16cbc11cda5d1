"""`glassformer demo audio`: which of seven instruments plays a note that it was never heard to
play?"""

import numpy as np

from glassformer.data.recordings import recordings
from glassformer.demos.confusions import confused_lines
from glassformer.demos.demo import Demo, Shown, Training, table
from glassformer.demos.held_out import Draw, HeldOut
from glassformer.demos.instruments import write_notes
from glassformer.errors import counted
from glassformer.media.audio import AudioReader
from glassformer.media.wav import write_wav
from glassformer.run import Run

QUIET = 30
"""The percent of a spectrogram that are drawn as nothing."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out notes beside two baselines, confusions, and clips to look at and
    hear."""
    assert run.recipe is not None
    folder, rows = run.folder, recordings(run.recipe.data)
    train, test = (
        [(row.samples(), row.labels[0]) for row in rows if row.split == split]
        for split in ("train", "test")
    )
    held = HeldOut(run, train, test)
    accuracy = held.accuracy("the most frequent instrument", "the nearest training spectrogram")
    page = folder / "instruments.html"
    held.write_page(
        page,
        f"Instruments that {folder.name} heard at new pitches",
        f"{len(test):,} clips of {counted(len(run.classes), 'instrument')}, accuracy. Time goes "
        "from left to right, frequency upward.",
        accuracy,
        _drawing(run, [samples for (samples, _), _ in test]),
        "clip",
    )
    recall = (f"{row['class']} {row['recall']:.0%}" for row in held.scores["table"])
    return Shown(
        held.values(accuracy),
        [
            f"accuracy on {len(test):,} notes it never heard of their instruments:",
            *table(accuracy),
            "\nrecall of each instrument:",
            "  " + "  ".join(recall),
            *confused_lines(held.confused),
            f"\nclips to look at and to hear: {page} (open it in a browser)",
            f"curves, confusions, calibration: {folder / 'report.html'}",
        ],
        [
            f"glassformer classify {folder} YOUR_NOTE.wav --top-k 3",
            f"glassformer evaluate {folder} --split test",
        ],
    )


def _drawing(run: Run, clips: list[np.ndarray]) -> Draw:
    """A clip as a spectrogram with low frequencies below, and as a sound at full loudness."""
    reader = run.processor.reader
    assert isinstance(reader, AudioReader)

    def draw(i: int, looked: np.ndarray) -> tuple[np.ndarray, np.ndarray, bytes]:
        clip = clips[i]
        bands = reader.spectrogram(clip[None])[0].numpy()
        floor, loudest = np.percentile(bands, QUIET), float(np.abs(clip).max())
        shades = (bands - floor) / max(float(bands.max() - floor), 1e-6)
        heard = write_wav(0.9 * clip / max(loudest, 1e-6), reader.config.rate)
        return shades.T[::-1], looked.T[::-1], heard

    return draw


DEMO = Demo(
    "A Transformer that tells seven synthesized instruments by a second of sound, at pitches held "
    "out for each.",
    (Training("audio", write_notes),),
    show,
)
