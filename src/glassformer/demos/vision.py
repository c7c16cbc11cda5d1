"""`glassformer demo vision`: which of sixty distorted signs is in a small picture?"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from glassformer.cli.terminal import on_terminal, print_json
from glassformer.demos.held_out import HeldOut
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.gallery import gallery_html
from glassformer.run import Run
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "A Vision Transformer that reads sixty letters, digits and signs of four scripts, each "
    "drawn distorted."
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
        "n_layers": 4,
        "n_heads": 4,
        "d_model": 128,
    },
    "image": {"patch": 8, "channels": 1},
    "augment": {"crop": 2},
    "data": {"path": "builtin:glyphs"},
    "train": {
        "steps": 1900,
        "batch_size": 64,
        "optimizer": "muon",
        "matrix_learning_rate": 0.02,
        "learning_rate": 0.005,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 30,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "label_smoothing": 0.1,
        "evaluate_every": 475,
        "save_every": 475,
        "sample_every": 950,
        "best": "accuracy",
    },
}
SHOWN = 4
"""Signs on the terminal."""


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its score on signs it never saw beside two simple ones, what it confuses, and where it
    looked."""
    folder, held = run.folder, HeldOut.of(run)
    guesses = held.guesses("the commonest sign", "the nearest training picture")
    picture, title = folder / "signs.html", f"Signs that {folder.name} never saw"
    about = (
        f"{len(held.gold):,} distorted pictures of {counted(len(run.classes), 'sign')}, told right:"
    )
    groups = held.groups("picture", lambda i, looked: (held.kept.array[i], looked, None))
    write_text(picture, gallery_html(title, about, list(guesses.items()), groups))
    if as_json:
        rows = [{"gold": gold, "predicted": found, "n": n} for n, gold, found in held.confused]
        return print_json(
            {"run": str(folder), "steps": result.steps, "accuracy": guesses, "confused": rows}
        )
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    print(
        f"told right, of {len(held.gold):,} pictures it never saw, of "
        f"{counted(len(run.classes), 'sign')}:"
    )
    for label, value in guesses.items():
        print(f"  {label:32} {value:7.2%}")
    print("\nmost often confused:")
    for n, gold, found in held.confused[:5]:
        print(f"  {n:3} times {gold} taken for {found}")
    if on_terminal():
        print()
        print("\n".join(drawn(held.kept.array[:SHOWN], held.found[:SHOWN])))
    print(f"\nsigns found and not found, and where it looked: {picture} (open it in a browser)")
    print(f"curves, confusions, calibration: {folder / 'report.html'}")
    print("try next:")
    print(f"  glassformer classify {folder} YOUR_PICTURE.png --top-k 3")
    print(f"  glassformer evaluate {folder} --split test")
    return None


def drawn(pixels: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """Pictures uint8 [N, H, W, 1] side by side at half their size, two rows of pixels in a line,
    names below."""
    n, height, width, _ = pixels.shape
    small = pixels.reshape(n, height // 2, 2, width // 2, 2).mean((2, 4)).round().astype(int)
    for row in range(0, height // 2 - 1, 2):
        pairs = zip(small[:, row].tolist(), small[:, row + 1].tolist(), strict=True)
        yield "  " + "  ".join("".join(map(_two, *pair)) + "\x1b[0m" for pair in pairs)
    yield "  " + "  ".join(name.ljust(width // 2) for name in names)


def _two(upper: int, lower: int) -> str:
    """A character of two grey pixels, one above the other."""
    return f"\x1b[38;2;{upper};{upper};{upper};48;2;{lower};{lower};{lower}m▀"
