"""A run folder that several processes or threads use at once."""

import subprocess
import sys
import threading
from pathlib import Path

import torch

import glassformer as gf
from adversary import SMALL, run_program
from glassformer.core.errors import GlassformerError
from glassformer.models.weights import load_tensors, save_tensors
from small_runs import go, recipe, text_file


def read_while_trained(place: Path, steps: int) -> tuple[int, list[str]]:
    """How often a model was opened while training replaced it, and what went wrong."""
    made = recipe(place, train={"steps": steps, "evaluate.every": 1, "save.every": 1})
    run, problems, loads = place / "run", list[str](), 0
    thread = threading.Thread(target=go, args=(made, run))
    thread.start()
    while thread.is_alive():
        if (run / "model.safetensors").exists():
            try:
                gf.load(run)
                loads += 1
            except GlassformerError as error:
                problems.append(str(error))
    thread.join()
    return loads, problems


def trained_twice(place: Path, times: int) -> tuple[int, list[str]]:
    """How often a second training was refused while one ran; then that one is killed, and the next
    goes on."""
    run, problems, refused = place / "twice", list[str](), 0
    own = [*SMALL, f"data.train.path={text_file(place)}", "--run", str(run)]
    command = [sys.executable, "-m", "glassformer", "train", *own, "train.steps=1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        if not any(line.startswith("step 1/") for line in first.stderr):
            return 0, ["the first training ended before its first step"]
        for _ in range(times):
            code, _, said = run_program("train", "--resume", "--run", run)
            if code and "Another process is training in" in said:
                refused += 1
            else:
                problems.append(f"the second training ended with {code}: {said[-200:]}")
        first.kill()
    code, _, said = run_program("train", "--resume", "--run", run, "train.steps=1")
    if code:
        problems.append(f"after a killed training, the next ended with {code}: {said[-200:]}")
    return refused, problems


def saved_over_its_source(place: Path, times: int) -> tuple[int, list[str]]:
    """Weights that were read from a file and are written to the same file, so many times."""
    file, draw = place / "weights.safetensors", torch.Generator().manual_seed(0)
    wanted = {name: torch.randn(300, 300, generator=draw) for name in "abc"}
    save_tensors(wanted, file)
    problems = list[str]()
    for number in range(times):
        save_tensors(load_tensors(file), file)
        if any(not torch.equal(one, wanted[name]) for name, one in load_tensors(file).items()):
            problems.append(f"the weights differ after saving {number + 1} times")
    return times, problems
