"""glassformer beside nanoGPT in one run: how fast each learns, and how many tokens per second each
trains on.

    python bench/train_vs_nanogpt.py --nanogpt PATH --data PATH

PATH of --nanogpt is a checkout of nanoGPT (it is copied, nothing in it is changed), PATH of --data
the tinyshakespeare text. Prints one JSON object; progress goes to stderr. Everything runs on the
CPU, in turn, never at the same time.

learning    nanoGPT's CPU recipe, wall-clock time and loss on the whole validation split; then
            shakespeare-char in a quarter of that time, and in all of it
throughput  training steps of nanoGPT as it is run by default, and of the same architecture here,
            A B A B ...
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = "shakespeare-char"
QUICK = [  # what learns fastest in half a minute: a shorter context and a layer less
    "train.steps=320", "model.max_length=64", "model.n_layers=3", "train.schedule.warmup_steps=10",
    "train.evaluate.every=100000", "train.save.every=100000", "train.sample.tokens=0",
]  # fmt: skip
NANOGPT_CPU = [  # the command of nanoGPT's README for a CPU
    "config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=20",
    "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
    "--n_embd=128", "--max_iters=2000",
    "--lr_decay_iters=2000", "--dropout=0.0",
]  # fmt: skip
ARCHITECTURES = {
    "128 wide": {
        "n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 64, "batch": 12, "dropout": 0.0,
        "steps": 20,
    },
    "384 wide": {
        "n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "batch": 16, "dropout": 0.2,
        "steps": 2,
    },
    "384 wide, no dropout": {
        "n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "batch": 16, "dropout": 0.0,
        "steps": 2,
    },
}  # fmt: skip


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def prepared(nanogpt: Path, data: Path, folder: Path) -> Path:
    """A copy of nanoGPT with its own preparation of the text."""
    copy = folder / "nanogpt"
    shutil.copytree(nanogpt, copy, ignore=shutil.ignore_patterns(".git", "out*"))
    place = copy / "data" / "shakespeare_char"
    shutil.copy(data, place / "input.txt")
    stub = folder / "stub"  # prepare.py imports requests even when the text is already there
    stub.mkdir()
    (stub / "requests.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(stub)}
    subprocess.run(
        [sys.executable, "prepare.py"],
        cwd=place,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return copy


def learning(copy: Path, data: Path, folder: Path) -> dict:
    """Wall-clock seconds and whole-split validation loss of both."""
    say("nanoGPT: its CPU recipe")
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "train.py", *NANOGPT_CPU],
        cwd=copy,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peer = {"seconds": round(time.perf_counter() - begin, 1)}
    out = subprocess.run(
        [sys.executable, __file__, "--peer-loss", str(copy)], check=True, capture_output=True
    )
    peer["loss"] = float(out.stdout.split()[-1])  # its model prints its own size first
    say(f"nanoGPT: {peer}")
    result = {"nanogpt": peer}
    for name, overrides in (("quarter", QUICK), ("whole", [])):
        run = folder / name
        command = [sys.executable, "-m", "glassformer"]
        begin = time.perf_counter()
        subprocess.run(
            [
                *command,
                "train",
                RECIPE,
                f"data.train.path={data}",
                *overrides,
                "--run",
                str(run),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seconds = round(time.perf_counter() - begin, 1)
        scores = subprocess.run(
            [*command, "evaluate", str(run), "--json"], check=True, capture_output=True
        )
        loss = json.loads(scores.stdout)["loss"]
        share = round(seconds / peer["seconds"], 3)
        result[name] = {"seconds": seconds, "loss": round(loss, 4), "share_of_nanogpt_time": share}
        say(f"glassformer, {name}: {result[name]}")
    return result


def peer_loss(copy: Path) -> None:
    """Print the loss of nanoGPT's checkpoint on the whole validation split, every token but the
    first once."""
    import numpy as np
    import torch

    sys.path.insert(0, str(copy))
    from model import GPT, GPTConfig  # pyright: ignore[reportMissingImports]

    saved = torch.load(
        copy / "out-shakespeare-char" / "ckpt.pt", map_location="cpu", weights_only=True
    )
    model = GPT(GPTConfig(**saved["model_args"])).eval()
    model.load_state_dict(
        {name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()}
    )
    tokens = torch.from_numpy(
        np.fromfile(copy / "data/shakespeare_char/val.bin", dtype=np.uint16).astype(np.int64)
    )
    length, nats = saved["model_args"]["block_size"], 0.0
    with torch.inference_mode():
        for begin in range(0, len(tokens) - 1, length):
            window = tokens[begin : begin + length + 1][None]
            nats += model(window[:, :-1], window[:, 1:])[1].item() * (window.shape[1] - 1)
    sys.stdout.write(f"\n{nats / (len(tokens) - 1):.4f}\n")


class Worker:
    """A process that trains when asked; the two sides never compute at the same time."""

    def __init__(self, side: str, copy: Path, architecture: str):
        command = [
            sys.executable,
            __file__,
            "--worker",
            side,
            "--nanogpt",
            str(copy),
            "--architecture",
            architecture,
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def throughput(copy: Path, rounds: int) -> dict:
    """Median tokens per second of both sides, in turn."""
    result = {}
    for name, shape in ARCHITECTURES.items():
        workers = {side: Worker(side, copy, name) for side in ("nanogpt", "glassformer")}
        times: dict[str, list[float]] = {side: [] for side in workers}
        for worker in workers.values():
            worker.seconds()  # warm-up
        for _ in range(rounds):
            for side, worker in workers.items():
                times[side].append(worker.seconds())
        for worker in workers.values():
            worker.close()
        tokens = shape["steps"] * shape["batch"] * shape["block_size"]
        speed = {side: round(tokens / statistics.median(t)) for side, t in times.items()}
        ratio = statistics.median(
            a / b for a, b in zip(times["nanogpt"], times["glassformer"], strict=True)
        )
        result[name] = {"tokens_per_second": speed, "ratio": round(ratio, 3)}
        say(f"{name}: {result[name]}")
    return result


def worker(side: str, copy: Path, architecture: str) -> None:
    """Answer each line of stdin with the seconds of some training steps."""
    shape = ARCHITECTURES[architecture]
    step = nanogpt_step(copy, shape) if side == "nanogpt" else glassformer_step(copy, shape)
    number = 0
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(shape["steps"]):
            step(number)
            number += 1
        sys.stdout.write(f"{time.perf_counter() - begin}\n")
        sys.stdout.flush()


def nanogpt_step(copy: Path, shape: dict):
    """One iteration as nanoGPT's train.py does it by default on a CPU: batch, forward, backward,
    clip, AdamW."""
    import numpy as np
    import torch

    sys.path.insert(0, str(copy))
    from model import GPT, GPTConfig  # pyright: ignore[reportMissingImports]

    torch.manual_seed(1337)
    size, length = shape["batch"], shape["block_size"]
    sizes = {name: shape[name] for name in ("n_layer", "n_head", "n_embd", "block_size", "dropout")}
    stdout, sys.stdout = sys.stdout, sys.stderr  # it prints while it is made
    model = GPT(GPTConfig(**sizes, bias=False, vocab_size=65))
    optimizer = model.configure_optimizers(1e-1, 1e-3, (0.9, 0.99), "cpu")
    sys.stdout = stdout

    def step(number: int) -> None:
        data = np.memmap(copy / "data/shakespeare_char/train.bin", dtype=np.uint16, mode="r")
        ix = torch.randint(len(data) - length, (size,))
        x = torch.stack([torch.from_numpy(data[i : i + length].astype(np.int64)) for i in ix])
        y = torch.stack(
            [torch.from_numpy(data[i + 1 : i + 1 + length].astype(np.int64)) for i in ix]
        )
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def glassformer_step(copy: Path, shape: dict):
    """The same architecture, batch and optimizer as `glassformer train` runs them."""
    import numpy as np
    import torch

    from glassformer.core.cpu import keep_freed_memory
    from glassformer.core.devices import choose_machine
    from glassformer.data.collate import Share, windows
    from glassformer.data.tokens import TokenSplit, training_order
    from glassformer.models import Transformer, presets
    from glassformer.recipe.train import TrainConfig
    from glassformer.training.loop.optimizer import Optimizer
    from glassformer.training.loop.step import TrainingStep

    config = presets.gpt2(
        vocab_size=65, max_length=shape["block_size"], d_model=shape["n_embd"],
        n_layers=shape["n_layer"], n_heads=shape["n_head"], activation="gelu", bias=False,
        attention_bias=False, dropout=shape["dropout"], attention_dropout=shape["dropout"],
    )  # fmt: skip
    keep_freed_memory()
    machine = choose_machine("cpu", "auto", torch.get_num_threads())
    train = TrainConfig.parse({"batch_size": shape["batch"]})
    model = Transformer(config)
    optimizer = Optimizer(model, train.optimizer)
    compute = TrainingStep(model, optimizer, precision=machine.precision)
    tokens = np.memmap(copy / "data/shakespeare_char/train.bin", dtype=np.uint16, mode="r")
    split = TokenSplit("train", tokens, len(tokens), np.array([len(tokens)]))
    order = training_order(split, shape["block_size"], shape["batch"], seed=0)

    def step(number: int) -> None:
        batch = windows(split, order.rows(number), shape["block_size"])
        compute(Share([batch]), number, 1.0)

    assert isinstance(machine.device, torch.device)
    return step


def machine() -> dict:
    """What the figures were taken on."""
    import torch

    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {
        "cpu": platform.processor() or platform.machine(),
        "avx512": "avx512f" in flags,
        "bfloat16": "avx512_bf16" in flags or "amx_bf16" in flags,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "load_before": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT")
    parser.add_argument("--data", type=Path, help="tinyshakespeare's input.txt")
    parser.add_argument("--rounds", type=int, default=7, help="A B rounds of the throughput part")
    parser.add_argument("--only", choices=["learning", "throughput"], help="one part alone")
    parser.add_argument("--worker", choices=["nanogpt", "glassformer"], help=argparse.SUPPRESS)
    parser.add_argument("--architecture", help=argparse.SUPPRESS)
    parser.add_argument("--peer-loss", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer_loss:
        return peer_loss(options.peer_loss)
    if options.worker:
        return worker(options.worker, options.nanogpt, options.architecture)
    if not (options.nanogpt and options.data):
        parser.error("--nanogpt and --data are needed")
    sys.stderr.write("About 10 minutes on two cores.\n")
    result: dict = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="glassformer-bench-") as name:
        folder = Path(name)
        copy = prepared(options.nanogpt.resolve(), options.data.resolve(), folder)
        if options.only != "throughput":
            result["learning"] = learning(copy, options.data.resolve(), folder)
        if options.only != "learning":
            result["throughput"] = throughput(copy, options.rounds)
    result["reached"] = verdicts(result)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return None


def verdicts(result: dict) -> dict:
    """Which of the figures held in this run."""
    reached = {}
    if "learning" in result:
        peer, quarter, whole = (
            result["learning"][name] for name in ("nanogpt", "quarter", "whole")
        )
        reached["its loss in a quarter of its time"] = (
            quarter["loss"] <= peer["loss"] and quarter["share_of_nanogpt_time"] <= 0.25
        )
        reached["1.60 in its time"] = (
            whole["loss"] <= 1.60 and whole["share_of_nanogpt_time"] <= 1.0
        )
    if "throughput" in result:
        reached["1.2 times its tokens per second, 128 wide"] = (
            result["throughput"]["128 wide"]["ratio"] >= 1.2
        )
        reached["2.0 times its tokens per second, 384 wide"] = (
            result["throughput"]["384 wide"]["ratio"] >= 2.0
        )
    return reached


if __name__ == "__main__":
    main()
