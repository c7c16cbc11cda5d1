"""Training by one process with all cores, and by one process a core, in turns.

    python bench/processes.py --text FILE [--images FOLDER] [--processes 2] [--rounds 3]

--text    any text; the model has 6 layers of width 384, 16 windows of 256 bytes in a step
--images  a folder of Fashion-MNIST's IDX files; the Vision Transformer of its recipe

Elements per second of the second half of each run, and the ratios of each turn; JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

TEXT = ["lm", "processor.tokenizer.kind=byte", "processor.tokenizer.vocab_size=null"]
TEXT += ["model.n_layers=6", "model.n_heads=6", "model.d_model=384", "model.max_length=256"]
TEXT += ["model.dropout=0.2", "train.batch_size=16", "train.sample.tokens=0"]
TEXT += ["train.evaluate.batches=1"]
IMAGES = ["fashion-mnist", "data.validation.fraction=0.01"]


def rate(given: list[str], processes: int, steps: int) -> float:
    """Elements per second of a run's second half."""
    cores = os.cpu_count() or 1
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "glassformer", "train", *given, f"train.steps={steps}"]
        command += [f"train.evaluate.every={steps}", f"train.save.every={steps}"]
        command += [f"train.log_every={steps // 2}", "train.precision=float32"]
        command += ["train.sample.every=100000", "--run", str(run)]
        command += [f"--processes={processes}"] * (processes > 1)
        threads = {"OMP_NUM_THREADS": str(max(1, cores // processes))}
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **threads})
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        first, last = [line for line in lines if "train_loss" in line][-2:]
        return (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text")
    parser.add_argument("--images")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    asked = parser.parse_args()
    kinds = {}
    if asked.text:
        kinds["384 wide"] = [*TEXT, f"data.train.path={asked.text}"]
    if asked.images:
        kinds["vit"] = [*IMAGES, f"data.root={asked.images}"]
    found = {}
    for name, given in kinds.items():
        turns = [
            {str(n): rate(given, n, asked.steps) for n in (1, asked.processes)}
            for _ in range(asked.rounds)
        ]
        ratios = [turn[str(asked.processes)] / turn["1"] for turn in turns]
        found[name] = {"turns": turns, "ratio": round(statistics.median(ratios), 3)}
        sys.stderr.write(f"{name}: {found[name]}\n")
    print(json.dumps({"cores": os.cpu_count(), "processes": asked.processes, **found}))


if __name__ == "__main__":
    main()
