"""Train models of several sizes at once in Ray's local cluster, one core each.

pip install ray
python examples/ray_cluster.py TEXT FOLDER
"""

import sys
from pathlib import Path

import ray

import glassformer as gf

WIDTHS, STEPS = (32, 64, 128), 200


def train_one(text: str, folder: str, width: int) -> tuple[int, float]:
    """A width and the validation loss of its model."""
    changes = {
        "data.train.path": text,
        "train.steps": STEPS,
        "train.threads": 1,
        "model.d_model": width,
        "model.n_heads": 2,
    }
    run = gf.train("lm", changes, Path(folder) / f"width-{width}")
    return width, run.evaluate()["loss"]


def main(text: Path, folder: Path) -> None:
    ray.init(include_dashboard=False)
    try:
        task = ray.remote(num_cpus=1)(train_one)
        where = str(text.absolute()), str(folder.absolute())
        for width, loss in ray.get([task.remote(*where, width) for width in WIDTHS]):
            print(f"d_model={width}: validation loss {loss:.4f}")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
