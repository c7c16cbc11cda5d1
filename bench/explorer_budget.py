"""How long the explorer takes at 1,024 tokens x 12 layers x 12 heads, and how much it sends.

    python bench/explorer_budget.py [--tokens N] [--layers N] [--heads N] [--width N] [--threads N] [--json]

The server's half: random weights of a decoder, one look, then each op as the browser asks for it, until the bytes that
go out are there (compressed as they would be). Budgets: the first grid 1 s after the forward pass and 1 MB, a head
100 ms and 1 MB.
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import config_json, save_weights
from glassformer.run import load
from glassformer.serve.explorer import Explorer
from glassformer.serve.server import worth
from glassformer.tokens.definition import byte_definition
from glassformer.tokens.text import Tokenizer

BUDGETS = {"thumbs": (1000, 1 << 20), "head": (100, 1 << 20), "row": (100, 1 << 16)}
"""Milliseconds and bytes."""


def explorer_of(folder: Path, tokens: int, layers: int, heads: int, width: int) -> Explorer:
    """One of a decoder that nobody trained."""
    text = Tokenizer(byte_definition())
    sizes = {"d_model": width, "n_layers": layers, "n_heads": heads, "max_length": tokens}
    config = ModelConfig.parse({**sizes, "vocab_size": text.vocab_size, "position": "rotary"})
    text.save(folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(config_json(config)))
    model = Transformer(config)
    for name, parameter in model.named_parameters():  # heads that look somewhere: what is uniform compresses too well
        if "q_proj" in name or "k_proj" in name:
            parameter.data.mul_(8)
    save_weights(model, folder / "model.safetensors")
    return Explorer(load(folder))


def timed(answer: Callable[[], bytes], times: int) -> tuple[float, float, int]:
    """The medians of time and of processor time (of all threads) in milliseconds, and the bytes."""
    walls, works, data = [], [], b""
    for _ in range(times):
        begun, worked = time.perf_counter(), time.process_time()
        data = answer()
        walls.append(1000 * (time.perf_counter() - begun))
        works.append(1000 * (time.process_time() - worked))
    return statistics.median(walls), statistics.median(works), len(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("tokens", 1024),
        ("layers", 12),
        ("heads", 12),
        ("width", 768),
        ("threads", 2),
        ("times", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        explorer = explorer_of(Path(folder), given.tokens, given.layers, given.heads, given.width)
        seen = {"look": {"input": ("The chicken didn't cross the road. " * given.tokens)[: given.tokens]}}

        def sent(op: str, **arguments: object) -> bytes:
            reply = explorer.handle({"op": op, **seen, **arguments})
            data = reply.to_bytes()
            return gzip.compress(data, 1, mtime=0) if worth(reply) else data

        one = {"layer": given.layers // 2, "head": given.heads // 2}
        asked: list[tuple[str, dict[str, object], int]] = [
            ("look", {}, 1),
            ("thumbs", {}, given.times),
            ("head", one, given.times),
            ("row", {**one, "query": given.tokens // 2}, given.times),
            ("step", {**one, "query": given.tokens // 2}, given.times),
            ("lens", {}, 1),
            ("project", {}, 1),
            ("ledger", {"target": 100}, 1),
        ]
        for op, arguments, times in asked:
            wall, work, size = timed(lambda op=op, arguments=arguments: sent(op, **arguments), times)
            most = BUDGETS.get(op)
            fits = most is None or (wall <= most[0] and size <= most[1])
            rows.append({"op": op, "ms": round(wall, 1), "cpu_ms": round(work, 1), "bytes": size, "within": fits})
    for row in rows:
        over = "" if row["within"] else "  OVER BUDGET"
        times = f"{row['ms']:9.1f} ms ({row['cpu_ms']:.1f} of processors)"
        print(
            json.dumps({**row, **vars(given)})
            if given.json
            else f"{row['op']:8} {times} {row['bytes']:12,} bytes{over}"
        )


if __name__ == "__main__":
    main()
