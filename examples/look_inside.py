"""Train a tiny model for a few seconds, then look at one of its attention heads.

python examples/look_inside.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.layers.tap import Tape, recording

POEM = "the cat sat on the mat and the dog sat on the log and " * 60


def main(folder: Path) -> None:
    (folder / "poem.txt").write_text(POEM)
    (folder / "recipe.yaml").write_text(
        "task: text-generation\nprocessor: {tokenizer: {kind: word}}\n"
        "model: {preset: note, size: B, d_model: 32}\n"
    )
    changes = {
        "data.train.path": str(folder / "poem.txt"),
        "model.n_layers": 1,
        "model.max_length": 16,
        "train.steps": 120,
        "train.schedule.warmup_steps": 10,
        "train.optimizer.learning_rate": 0.01,
        "train.sample.tokens": 0,
    }
    run = gf.train(folder / "recipe.yaml", changes, run=folder / "run")

    words = "the cat sat on the"
    print(words, "->", run.generate(words, max_new_tokens=6, temperature=0))

    tape = Tape(run.model, keep=("*.attention.pattern",))
    with recording(tape), torch.inference_mode():
        run.model(torch.tensor([run.tokenizer.encode(words).tolist()]))
    point = "decoder.blocks.0.attention.pattern"
    print(point, tape.axes[point])
    for word, row in zip(words.split(), tape.kept[point][0, 0], strict=True):
        print(f"{word:>5} " + " ".join(f"{weight:.2f}" for weight in row.tolist()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
