"""Training on one long row by one process with all cores, and by processes that have slices of it.

    python bench/long_rows.py [--length 8192] [--context 2] [--steps 3] [--window N] [--memory]

A decoder of 4 layers, 256 wide, with rotary positions, in float32. Of each process: its peak of
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

from glassformer.batch import Batch
from glassformer.data.collate import Share
from glassformer.models import ModelConfig, Transformer
from glassformer.processes import joined
from glassformer.recipe.train import DistributedConfig, TrainConfig
from glassformer.training.context import sliced
from glassformer.training.division import division_of
from glassformer.training.optimizer import Optimizer
from glassformer.training.step import TrainingStep

FIELDS = {"vocab_size": 256, "d_model": 256, "n_layers": 4, "n_heads": 4, "position": "rotary"}


def steps(asked: argparse.Namespace) -> list[dict] | None:
    """Memory and seconds of the steps of each process, in the first one."""
    with joined() as processes:
        of = DistributedConfig(context=processes.count)
        division = division_of(processes, TrainConfig(distributed=of), torch.device("cpu"))
        fields = {**FIELDS, "max_length": asked.length, "window": asked.window}
        model = Transformer(ModelConfig.parse(fields))
        division.place(model, None, torch.device("cpu"))
        optimizer = Optimizer(model, TrainConfig().optimizer, division.copies)
        draw = torch.Generator().manual_seed(1)
        tokens = torch.randint(0, 256, (1, asked.length + 1), generator=draw)
        batch = Batch(tokens[:, :-1], targets=tokens[:, 1:])
        if processes.count > 1:
            batch = sliced(batch, division.slices.rank, division.slices.count)
        before, seconds, loss = peak(), [], 0.0
        compute = TrainingStep(model, optimizer, division=division)
        for step in range(asked.steps):
            begin = time.perf_counter()
            loss = compute(Share([batch]), step, 1.0).loss
            seconds.append(time.perf_counter() - begin)
        own = {
            "MB": round(peak() - before),
            "seconds": round(statistics.median(seconds), 2),
            "loss": loss,
        }
        every = processes.gathered(own)
        return every if processes.first else None


def peak() -> float:
    """The largest memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(asked: argparse.Namespace, processes: int) -> list:
    """What each of so many processes found."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", __file__, "--worker", f"--length={asked.length}"]
    command += [f"--steps={asked.steps}"]
    command += [f"--window={asked.window}"] * (asked.window is not None)
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes))}
    environment = {**os.environ, **threads}
    if asked.memory:
        environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--context", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--window", type=int)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        if found := steps(asked):
            print(json.dumps(found))
        return
    print(json.dumps({str(n): measured(asked, n) for n in (1, asked.context)}, indent=1))


if __name__ == "__main__":
    main()
