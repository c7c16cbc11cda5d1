"""How long the explorer takes at 1,024 tokens x 12 layers x 12 heads, and how much it sends: JSON,
beside the budgets.

    python bench/explorer_budget.py [--tokens N] [--layers N] [--heads N] [--width N] [--threads N]
    [--server]

Random weights of a decoder. `browser`: what a reader waits for in a chromium, if there is one
(`make browser`), the grid counted from the end of the forward pass. `server`: each op alone until
the bytes that go out are there; `cpu_ms` is of all processors. The
exit status is 1 where a budget is not met.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from explorer_browser import chromium, measured
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import config_json, save_weights
from glassformer.run import load
from glassformer.serve.explorer.handler import Explorer
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import accept_changed

BUDGETS = {
    "grid ms": 1000,
    "grid bytes": 1_000_000,
    "head ms": 100,
    "next head ms": 100,
    "head bytes": 1_100_000,
    "hover ms": 16,
    "long tasks in hovering": 0,
    "heap MiB": 150,
}
"""What issue 6 allows in the browser, at most."""


def make_run(folder: Path, tokens: int, layers: int, heads: int, width: int) -> None:
    """A decoder that nobody trained."""
    text = Tokenizer(byte_definition())
    sizes = {"d_model": width, "n_layers": layers, "n_heads": heads, "max_length": tokens}
    config = ModelConfig.parse({**sizes, "vocab_size": text.vocab_size, "position": "rotary"})
    text.save(folder / "tokenizer.json")
    about = {"task": "text-generation", "input": "documents"}
    (folder / "config.json").write_text(json.dumps(config_json(config) | about))
    model = Transformer(config)
    for (
        name,
        parameter,
    ) in model.named_parameters():  # heads that look somewhere: what is uniform compresses too well
        if "q_proj" in name or "k_proj" in name:
            parameter.data.mul_(8)
    save_weights(model, folder / "model.safetensors")
    accept_changed(folder)


def timed(answer: Callable[[], bytes], times: int) -> dict[str, float]:
    """The medians of time and of processor time (of all threads) in milliseconds, and the bytes."""
    walls, works, data = [], [], b""
    for _ in range(times):
        begun, worked = time.perf_counter(), time.process_time()
        data = answer()
        walls.append(1000 * (time.perf_counter() - begun))
        works.append(1000 * (time.process_time() - worked))
    wall, work = round(statistics.median(walls), 1), round(statistics.median(works), 1)
    return {"ms": wall, "cpu_ms": work, "bytes": len(data)}


def server_side(
    folder: Path, words: str, layer: int, head: int, times: int
) -> dict[str, dict[str, float]]:
    """Each op as the browser asks for it."""
    explorer = Explorer(load(folder))
    seen = {"look": {"input": words}}

    def sent(op: str, arguments: dict[str, Any]) -> bytes:
        return explorer.handle({"op": op, **seen, **arguments}).to_bytes()

    one = {"layer": layer, "head": head}
    row = {**one, "query": len(words) // 2}
    asked: dict[str, tuple[dict[str, Any], int]] = {
        "look": ({}, 1),
        "thumbnails": ({}, times),
        "head": (one, times),
        "row": (row, times),
        "step": (row, times),
        "lens": ({}, 1),
        "ledger": ({"target": 100}, 1),
    }
    return {
        op: timed(lambda op=op, given=given: sent(op, given), n) for op, (given, n) in asked.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("tokens", 1024),
        ("layers", 12),
        ("heads", 12),
        ("width", 768),
        ("threads", 2),
        ("times", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--server", action="store_true", help="leave the browser out")
    given = parser.parse_args()
    sys.stderr.write("About 3 minutes on two cores.\n")
    torch.set_num_threads(given.threads)
    words = ("The chicken didn't cross the road. " * given.tokens)[: given.tokens]
    result: dict[str, Any] = {"load_before": os.getloadavg()[0], **vars(given)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_run(folder, given.tokens, given.layers, given.heads, given.width)
        result["server"] = server_side(
            folder, words, given.layers // 2, given.heads // 2, given.times
        )
        if not given.server and chromium():
            found = measured(folder, words, given.threads, given.times, given.heads)
            result["browser"] = {
                what: {
                    "measured": round(value, 1),
                    "budget": BUDGETS[what],
                    "within": value <= BUDGETS[what],
                }
                for what, value in found.items()
            }
        elif not given.server:
            sys.stderr.write(
                "no chromium, so only the server's half; `make browser` says how to get one\n"
            )
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return int(not all(one["within"] for one in result.get("browser", {}).values()))


if __name__ == "__main__":
    sys.exit(main())
