"""Write tests/golden: a small run of the present format, and what later versions must read in it.

    python tests/golden_run.py

Run it only for a new format, and keep the old folder: a run of any version is to be read by all
later ones. Its first checkpoint is in parts, as two processes write it, the others in whole files.
"""

import json
import shutil
from pathlib import Path

import torch

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.loop.train import train
from small_runs import losses, recipe, text_file
from training.reliability.small import saved_again

PLACE = Path(__file__).with_name("golden")
HOME = Path("/tmp/glassformer-golden")
"""Where the run is trained: a run knows the path of its text. Later, the text is gone."""
MODEL = {"d_model": 4, "n_layers": 1, "n_heads": 1, "max_length": 8}
TRAIN = {"steps": 4, "save.keep_last": 2, "threads": 1}
OTHERS = {"README.md", "report.html"}


def main() -> None:
    """Train, and write what is to be read."""
    for folder in (PLACE, HOME):
        shutil.rmtree(folder, ignore_errors=True)
    HOME.mkdir()
    text_file(HOME, words=100)
    train(recipe(HOME, model=MODEL, train=TRAIN), run := HOME / "run")
    for name in OTHERS:
        (run / name).unlink()
    saved_again(Checkpoints(run), 2, 2)
    ids = torch.tensor([[0, 1, 2, 3]])
    with torch.no_grad():
        logits = {
            step: gf.load(run, checkpoint=step).model(Batch(ids)).logits[0, -1].tolist()
            for step in Checkpoints(run).steps()
        }
    shutil.copytree(run, PLACE / "run")
    expected = {"ids": ids.tolist(), "logits": logits, "losses": losses(run)}
    (PLACE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(HOME)


if __name__ == "__main__":
    main()
