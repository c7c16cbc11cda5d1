"""glassformer's LoRA beside peft's in one run: the same base weights, adapters, data order and
optimizer, on the CPU.

    make setup                              # peft is in it
    python bench/finetune_vs_peft.py

Both sides train the same Transformer by the same step and optimizer; they differ in the modules
that hold the adapters. Prints one JSON object:

difference        largest difference of the losses of 50 steps
seconds           a step, medians of rounds A B A B ...; `full` and `frozen` are ours, beside them
megabytes         largest resident memory of a process that trains 20 steps, the same modules
                  imported by each, and what training added to it
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from glassformer import finetune
from glassformer.core.batch import Batch
from glassformer.core.cpu import keep_freed_memory
from glassformer.data.collate import Share
from glassformer.finetune.adapters import adapt
from glassformer.finetune.config import FinetuneConfig
from glassformer.models import ModelConfig, Transformer
from glassformer.recipe.train import OptimizerConfig
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.step import TrainingStep

RANK, ALPHA = 8, 16
TARGETS = ["q_proj", "v_proj"]
ROWS, LENGTH = 8, 128
SIDES = ("ours", "peft")
OTHERS = ("full", "frozen")


def model_config(every: bool) -> ModelConfig:
    """A decoder of bytes; `every`: with a head of its own, so that it can be trained alone."""
    sizes = {"vocab_size": 256, "max_length": LENGTH, "d_model": 256, "n_layers": 4, "n_heads": 4}
    return ModelConfig.parse({**sizes, "norm": "rms", "position": "rotary", "tied": not every})


def text() -> torch.Tensor:
    """Bytes of Python's own library."""
    folder = Path(sysconfig.get_path("stdlib"))
    raw = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))[: 1 << 20]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()


def batch(tokens: torch.Tensor, step: int) -> Batch:
    draw = torch.Generator().manual_seed(step)
    starts = torch.randint(len(tokens) - LENGTH - 1, (ROWS,), generator=draw)
    rows = torch.stack([tokens[i : i + LENGTH + 1] for i in starts.tolist()])
    return Batch(rows[:, :-1], targets=rows[:, 1:])


class Side:
    """A model that is trained step by step."""

    def __init__(self, name: str, targets: list[str]):
        self.model = model = Transformer(model_config(name in OTHERS), seed=0)
        if name == "ours":
            names = finetune.add_adapters(model, RANK, ALPHA, 0.0, targets)
            adapted = {f"{one}.{factor}" for one in names for factor in ("lora_a", "lora_b")}
            for parameter, p in model.named_parameters():
                p.requires_grad_(parameter in adapted)
        elif name == "peft":
            mine = Transformer(model.config, seed=0)
            names = finetune.add_adapters(mine, RANK, ALPHA, 0.0, targets)
            config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=names)
            self.model = get_peft_model(model, config)  # pyright: ignore
            with torch.no_grad():
                for one in names:
                    theirs = model.get_parameter(f"{one}.lora_A.default.weight")
                    theirs.copy_(mine.get_parameter(f"{one}.lora_a"))
        else:
            adapt(model, FinetuneConfig.parse({"method": name}), seed=0)
        self.optimizer, self.step = Optimizer(self.model, OptimizerConfig()), 0
        self.compute = TrainingStep(self.model, self.optimizer)

    def train(self, tokens: torch.Tensor, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            result = self.compute(Share([batch(tokens, self.step)]), self.step, 1.0)
            losses.append(result.loss)
            self.step += 1
        return losses


def resident(what: str) -> float:
    """Megabytes of this process, `VmRSS` now or `VmHWM` at most; of Linux, whose ru_maxrss begins
    with that of the parent."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


def memory(name: str, targets: list[str]) -> dict[str, float]:
    """Megabytes of a process of its own; called in it by `--memory`."""
    command = [sys.executable, __file__, "--memory", name, "--targets", *targets]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def measured(targets: list[str], rounds: int) -> dict[str, object]:
    tokens = text()
    sides = {name: Side(name, targets) for name in (*SIDES, *OTHERS)}
    curves = {name: sides[name].train(tokens, 50) for name in SIDES}
    for name in OTHERS:
        sides[name].train(tokens, 3)
    pairs = zip(*curves.values(), strict=True)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            for _ in range(3):
                begin = time.perf_counter()
                side.train(tokens, 1)
                times[name].append(time.perf_counter() - begin)
    seconds = {name: statistics.median(own) for name, own in times.items()}
    kept = {name: memory(name, targets) for name in sides}
    added = {name: own["added"] for name, own in kept.items()}
    return {
        "targets": targets,
        "losses": {name: [curve[0], curve[-1]] for name, curve in curves.items()},
        "difference": max(abs(a - b) for a, b in pairs),
        "seconds": {name: round(own, 4) for name, own in seconds.items()},
        "time_ratio": round(seconds["ours"] / seconds["peft"], 3),
        "megabytes": kept,
        "memory_ratio": round(kept["ours"]["largest"] / kept["peft"]["largest"], 3),
        "added_ratio": round(added["ours"] / added["peft"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="LoRA beside peft's")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--memory", choices=(*SIDES, *OTHERS))
    given = parser.parse_args()
    keep_freed_memory()
    if given.memory is None:
        print(json.dumps(measured(given.targets, given.rounds), indent=1))
        return
    tokens, side, before = text(), Side(given.memory, given.targets), resident("VmRSS")
    side.train(tokens, 20)
    largest = resident("VmHWM")
    print(json.dumps({"largest": round(largest, 1), "added": round(largest - before, 1)}))


if __name__ == "__main__":
    main()
