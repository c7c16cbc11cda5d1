"""Training on one long row.

    python bench/long_rows.py [--length 8192] [--steps 3] [--window N] [--memory]

A decoder of 4 layers, 256 wide, with rotary positions, in float32. The peak of
memory above that before the first step, MB, and the median of its seconds for a step; JSON. With
--memory, glibc gives freed blocks back at once: the peak is that of what is used, and steps are
slower.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import torch

from glassformer.core.batch import Batch
from glassformer.data.collate import Share
from glassformer.models import ModelConfig, Transformer
from glassformer.recipe.train import TrainConfig
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.step import TrainingStep

FIELDS = {"vocab_size": 256, "d_model": 256, "n_layers": 4, "n_heads": 4, "position": "rotary"}


def steps(asked: argparse.Namespace) -> dict:
    """Return memory and seconds of the steps."""
    model = Transformer(
        ModelConfig.parse({**FIELDS, "max_length": asked.length, "window": asked.window})
    )
    optimizer = Optimizer(model, TrainConfig().optimizer)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 256, (1, asked.length + 1), generator=draw)
    batch = Batch(tokens[:, :-1], targets=tokens[:, 1:])
    before, seconds, loss = peak(), [], 0.0
    compute = TrainingStep(model, optimizer)
    for step in range(asked.steps):
        begin = time.perf_counter()
        loss = compute(Share([batch]), step, 1.0).loss
        seconds.append(time.perf_counter() - begin)
    own = {"MB": round(peak() - before), "seconds": round(statistics.median(seconds), 2)}
    return {**own, "loss": loss}


def peak() -> float:
    """The largest memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(asked: argparse.Namespace) -> dict:
    """Return the result of a process of its own, whose peak of memory counts nothing else."""
    command = [sys.executable, __file__, "--worker", f"--length={asked.length}"]
    command += [f"--steps={asked.steps}"]
    command += [f"--window={asked.window}"] * (asked.window is not None)
    environment = dict(os.environ)
    if asked.memory:
        environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--window", type=int)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    print(json.dumps(steps(asked) if asked.worker else measured(asked)))


if __name__ == "__main__":
    main()
