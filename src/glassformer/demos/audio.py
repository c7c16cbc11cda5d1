"""`glassformer demo audio`: which of seven instruments plays a note that it was never heard to
play?"""

from typing import Any

import numpy as np

from glassformer.cli.terminal import print_json
from glassformer.demos.held_out import Draw, HeldOut
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.gallery import gallery_html
from glassformer.media.audio import AudioReader
from glassformer.media.wav import write_wav
from glassformer.run import Run
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "A Transformer that tells seven synthesized instruments by a second of sound, at "
    "pitches held out for each."
)
RECIPE: dict[str, dict[str, Any]] = {
    "model": {
        "preset": "modern",
        "size": "tiny",
        "architecture": "encoder",
        "elements": "patches",
        "head": "classify",
        "pool": "first",
        "position": "learned",
        "n_layers": 3,
        "n_heads": 3,
        "d_model": 96,
    },
    "audio": {"rate": 8000, "seconds": 1.0, "n_mels": 48, "patch": [4, 0], "window_ms": 32},
    "sound_augment": {
        **{
            "shift_ms": 50,
            "gain_db": 6,
            "noise": 0.05,
            "speed": 0.3,
        },  # up to a third higher or lower: pitch tells nothing
        **{"time_masks": 1, "time_width": 10, "mel_masks": 1, "mel_width": 8},
    },
    "data": {"path": "builtin:notes"},
    "train": {
        "steps": 600,
        "batch_size": 32,
        "optimizer": "muon",
        "matrix_learning_rate": 0.02,
        "learning_rate": 0.005,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "label_smoothing": 0.1,
        "evaluate_every": 200,
        "save_every": 200,
        "sample_every": 300,
        "best": "accuracy",
    },
}
QUIET = 30
"""The percent of a spectrogram that are drawn as nothing."""


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its score on notes it never heard beside two simple ones, what it confuses, and clips to look
    at and hear."""
    folder, held = run.folder, HeldOut.of(run)
    guesses = held.guesses("the commonest instrument", "the nearest training spectrogram")
    picture, title = (
        folder / "instruments.html",
        f"Instruments that {folder.name} heard at new pitches",
    )
    about = (
        f"{len(held.gold):,} clips of {counted(len(run.classes), 'instrument')}, told right. "
        f"Time goes from left to "
        "right, frequency upward."
    )
    write_text(
        picture,
        gallery_html(title, about, list(guesses.items()), held.groups("clip", _drawing(held))),
    )
    if as_json:
        rows = [{"gold": gold, "predicted": found, "n": n} for n, gold, found in held.confused]
        return print_json(
            {"run": str(folder), "steps": result.steps, "accuracy": guesses, "confused": rows}
        )
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    print(f"told right, of {len(held.gold):,} notes it never heard of their instruments:")
    for label, value in guesses.items():
        print(f"  {label:32} {value:7.2%}")
    print("\nof each instrument:")
    print("  " + "  ".join(f"{row['class']} {row['recall']:.0%}" for row in held.scores["table"]))
    print("\nmost often confused:")
    for n, gold, found in held.confused[:5]:
        print(f"  {n:3} times {gold} taken for {found}")
    print(f"\nclips to look at and to hear: {picture} (open it in a browser)")
    print(f"curves, confusions, calibration: {folder / 'report.html'}")
    print("try next:")
    print(f"  glassformer classify {folder} YOUR_NOTE.wav --top-k 3")
    print(f"  glassformer evaluate {folder} --split test")
    return None


def _drawing(held: HeldOut) -> Draw:
    """A clip as a spectrogram with low frequencies below, and to be heard as loud as can be."""
    reader = held.senses.sense
    assert isinstance(reader, AudioReader)

    def draw(i: int, looked: np.ndarray) -> tuple[np.ndarray, np.ndarray, bytes]:
        clip = np.array(held.kept.array[i])
        bands = reader.spectrogram(clip[None])[0].numpy()
        floor, loudest = np.percentile(bands, QUIET), float(np.abs(clip).max())
        shades = (bands - floor) / max(float(bands.max() - floor), 1e-6)
        heard = write_wav(0.9 * clip / max(loudest, 1e-6), reader.config.rate)
        return shades.T[::-1], looked.T[::-1], heard

    return draw
