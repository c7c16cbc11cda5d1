"""Training by one process with all cores, and by one process a core, in turns.

    python bench/processes.py --text FILE [--images FOLDER] [--processes 2] [--rounds 3] [--apart]
                              [FIELD=VALUE ...]

--text    any text; the model has 6 layers of width 384, 16 windows of 256 bytes in a step
--images  a folder of Fashion-MNIST's IDX files; the Vision Transformer of its recipe
--apart   also as many trainings of one process side by side, each with its part of a batch, that
          send each other nothing: what processes could reach at most, if no work is shared (AdamW)

Elements per second of the second half of each run, and the ratios of each turn; JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

TEXT = ["lm", "processor.tokenizer.kind=byte", "processor.tokenizer.vocab_size=null"]
TEXT += ["model.n_layers=6", "model.n_heads=6", "model.d_model=384", "model.max_length=256"]
TEXT += ["model.dropout=0.2", "train.batch_size=16", "train.sample.tokens=0"]
TEXT += ["train.evaluate.batches=1"]
IMAGES = ["fashion-mnist", "data.validation.fraction=0.01"]


class Kind(NamedTuple):
    """A recipe with overrides, its rows in a step, and overrides of a process of one thread."""

    given: list[str]
    batch: int
    alone: list[str]


def training(given: list[str], run: Path, processes: int, steps: int) -> list[str]:
    """The command of a run."""
    command = [sys.executable, "-m", "glassformer", "train", *given, f"train.steps={steps}"]
    command += [f"train.evaluate.every={steps}", f"train.save.every={steps}"]
    command += [f"train.log_every={steps // 2}", "train.precision=float32"]
    command += ["train.sample.every=100000", "--run", str(run)]
    return command + [f"--processes={processes}"] * (processes > 1)


def rate(run: Path) -> float:
    """Elements per second of a run's second half."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    first, last = [line for line in lines if "train_loss" in line][-2:]
    return (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])


def rates(commands: list[Callable[[Path], list[str]]], threads: int) -> float:
    """The sum of the rates of runs side by side."""
    own = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with TemporaryDirectory() as folder:
        runs = [Path(folder) / str(number) for number in range(len(commands))]
        pairs = zip(commands, runs, strict=True)
        started = [subprocess.Popen(of(run), env=own, **silent) for of, run in pairs]
        if any([process.wait() for process in started]):
            raise SystemExit(f"a run failed: {commands[0](runs[0])}")
        return sum(map(rate, runs))


def turn(kind: Kind, more: list[str], processes: int, steps: int, apart: bool) -> dict[str, float]:
    """The rates of one process, of several, and of as many apart."""
    given, cores = [*kind.given, *more], os.cpu_count() or 1
    one, all_of = (partial(training, given, processes=n, steps=steps) for n in (1, processes))
    found = {"1": rates([one], cores), str(processes): rates([all_of], cores // processes)}
    if apart:
        part = [*given, f"train.batch_size={kind.batch // processes}", *kind.alone]
        alone = partial(training, part, processes=1, steps=steps)
        found["apart"] = rates([alone] * processes, cores // processes)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text")
    parser.add_argument("--images")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    kinds = dict[str, Kind]()
    if asked.text:
        kinds["384 wide"] = Kind([*TEXT, f"data.train.path={asked.text}"], 16, [])
    if asked.images:
        alone = ["train.micro_batches=1", "train.parallel_micro_batches=1"]
        kinds["vit"] = Kind([*IMAGES, f"data.root={asked.images}"], 100, alone)
    found = {}
    for name, kind in kinds.items():
        how = asked.overrides, asked.processes, asked.steps, asked.apart
        turns = [turn(kind, *how) for _ in range(asked.rounds)]
        ratios = {
            which: round(statistics.median(one[which] / one["1"] for one in turns), 3)
            for which in turns[0]
            if which != "1"
        }
        found[name] = {"turns": turns, "ratios": ratios}
        sys.stderr.write(f"{name}: {found[name]}\n")
    print(json.dumps({"cores": os.cpu_count(), "processes": asked.processes, **found}))


if __name__ == "__main__":
    main()
