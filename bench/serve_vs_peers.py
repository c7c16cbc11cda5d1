"""Many texts at once on the CPU: our engine, our server, llama.cpp's server, transformers.

    python bench/serve_vs_peers.py --tokenizer FOLDER [--llama-server PATH] [--bits fp32]
        [--threads 2] [--requests 16] [--prompt 128] [--new 64] [--rounds 3] [--only rates|gaps]

The model and FOLDER are those of decode_vs_peers.py. PATH is a built `llama-server`, which takes
part at the same number of bits (with --parallel, without its cache of prompts); transformers takes
part in float32, by continuous batching (`generate_batch`) and as one batch of equal lengths
(`static`). Every text is greedy, of random prompts that no side has seen, and ends by its length
alone; sides are measured in turn, A B A B, and figures are medians of the rounds.

Prints one JSON object. `tokens_per_second`: `whole` is all new tokens over all seconds, `decode` is
that of as many tokens again, when all texts are being written, `alone` is decode of one text.
`ceilings`: of decode, by reading the weights, keys and values once a step and, in float32, by the
rate of large products. `first_token`: of texts that are sent at once. `gaps`: between two pieces of
texts that are being written while a prompt that fills the context arrives (ours: 30 a second).
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

import glassformer as gf
from decode_vs_peers import THEIRS, bandwidth, flags, in_format, published, weight_bytes
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.engine import Engine
from glassformer.runtime.request import Request
from streams import Stream, served, streamed

Prompts = Sequence[Sequence[int]]
Side = Callable[[Prompts, int], list[Stream]]
"""So many greedy tokens behind each prompt, all begun at once."""
Asked = Callable[[Sequence[int], int], dict[str, Any]]
"""The request of a server for so many tokens behind a prompt."""
END = 50_256
"""The end symbol of GPT-2, which no text of ours may have."""
LONG_NEW, BESIDE = 16, 4
"""New tokens behind the long prompt, and texts that are written beside it."""


def prompts(n: int, length: int) -> Prompts:
    """Prompts that were never seen before."""
    return torch.randint(50_000, (n, length)).tolist()


def engine(run: gf.Run, n: int) -> Side:
    """Our engine, stepped here."""
    made = Engine(run.model, max_rows=n)

    def side(given: Prompts, new: int) -> list[Stream]:
        begin = time.perf_counter()
        config = GenerateConfig.parse(
            {"temperature": 0.0, "max_new_tokens": new, "suppress_tokens": (END,)}
        )
        times = {made.add(Request(tuple(one), config)): list[float]() for one in given}
        while not made.idle:
            for event in made.step():
                times[event.request].append(time.perf_counter() - begin)
        return [Stream(own, len(own)) for own in times.values()]

    return side


def server(address: str, asked: Asked) -> Side:
    """A server, asked over as many connections as there are prompts."""

    async def all_of(given: Prompts, new: int) -> list[Stream]:
        return await asyncio.gather(*(streamed(address, asked(one, new)) for one in given))

    return lambda given, new: asyncio.run(all_of(given, new))


def ask_ours(prompt: Sequence[int], new: int) -> dict[str, Any]:
    ends = {str(END): -100}
    return {
        "model": "lm",
        "prompt": prompt,
        "max_tokens": new,
        "temperature": 0,
        "logit_bias": ends,
    }


def ask_llama(prompt: Sequence[int], new: int) -> dict[str, Any]:
    fields = {"prompt": prompt, "max_tokens": new, "temperature": 0}
    return fields | {"ignore_eos": True, "cache_prompt": False}


def free() -> int:
    """A port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def our_server(folder: Path, bits: str, given: argparse.Namespace) -> Any:
    """`glassformer serve`."""
    port = free()
    command = [sys.executable, "-m", "glassformer", "serve", str(folder), "--name", "lm"]
    command += ["--port", str(port), "--threads", str(given.threads)]
    command += ["--max-rows", str(given.requests)]
    command += [] if bits == "fp32" else ["--quantize", bits]
    return served(command, folder / "ours.log", "/readyz", f"http://127.0.0.1:{port}")


def llama_server(file: Path, given: argparse.Namespace) -> Any:
    """llama.cpp's server with a slot for each request, each of the whole context."""
    port, threads = free(), str(given.threads)
    command = [str(given.llama_server), "-m", str(file), "--port", str(port)]
    command += ["--parallel", str(given.requests), "-c", str(1024 * given.requests)]
    command += ["--threads", threads, "--threads-batch", threads]
    return served(command, file.with_suffix(".log"), "/health", f"http://127.0.0.1:{port}")


def batching(model: Any, requests: int, length: int) -> Side:
    """Continuous batching of transformers, with the fastest settings of those that were tried."""
    size = 64
    config = transformers.ContinuousBatchingConfig(
        page_size=size, num_blocks=requests * (length // size + 2), max_batch_tokens=512
    )

    def side(given: Prompts, new: int) -> list[Stream]:
        how = transformers.GenerationConfig(
            max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0
        )
        begin = time.perf_counter()
        found = model.generate_batch(
            list(given), generation_config=how, continuous_batching_config=config, warmup=False
        )
        seconds = time.perf_counter() - begin
        made = [len(one.generated_tokens) for one in found.values()]
        return [Stream([seconds], n) for n in made]

    return side


def static(model: Any) -> Side:
    """`generate` of transformers on one batch, possible since all lengths are equal."""

    def side(given: Prompts, new: int) -> list[Stream]:
        begin, ids = time.perf_counter(), torch.tensor(given)
        how = {"do_sample": False, "min_new_tokens": new, "max_new_tokens": new}
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **how
        )  # fmt: skip
        seconds, n = time.perf_counter() - begin, made.shape[1] - ids.shape[1]
        return [Stream([seconds], n) for _ in given]

    return side


@contextmanager
def all_sides(place: Path, given: argparse.Namespace) -> Iterator[tuple[dict[str, Side], Any]]:
    """Every side by its name, and what is asked of the servers among them: address, request."""
    folder, quantize = place / "published", None if given.bits == "fp32" else given.bits
    with ExitStack() as stack:
        servers = {"server": (stack.enter_context(our_server(folder, given.bits, given)), ask_ours)}
        if given.llama_server:
            gf.export_run(folder, "gguf", place / "gguf", check=False)
            file = in_format(place / "gguf" / "model.gguf", THEIRS[given.bits])
            servers["llama.cpp"] = stack.enter_context(llama_server(file, given)), ask_llama
        sides = {"engine": engine(gf.load(folder, quantize=quantize, compile=True), given.requests)}
        sides |= {name: server(*of) for name, of in servers.items()}
        model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        sides["transformers"] = batching(model, given.requests, given.prompt + given.new)
        sides["transformers static"] = static(model)
        yield sides, servers


def seconds(side: Side, n: int, given: argparse.Namespace, new: int) -> tuple[float, list[float]]:
    """Until all of these texts are complete, and until the first token of each."""
    found = side(prompts(n, given.prompt), new)
    made = [one.n_tokens for one in found]
    assert made == [new] * n, f"{made} tokens in place of {n} times {new}"
    return max(one.times[-1] for one in found), [one.times[0] for one in found]


def rates(sides: dict[str, Side], given: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second and seconds to the first token of each side."""
    n, new = given.requests, given.new
    own: dict[str, dict[str, list[float]]] = {w: {} for w in ("decode", "whole", "alone", "first")}
    for _ in range(given.rounds):
        for name, side in sides.items():
            short, first = seconds(side, n, given, new)
            long, _ = seconds(side, n, given, 2 * new)
            own["decode"].setdefault(name, []).append(n * new / (long - short))
            own["whole"].setdefault(name, []).append(n * new / short)
            if not name.startswith("transformers"):
                own["first"].setdefault(name, []).extend(first)
                spent = seconds(side, 1, given, 2 * new)[0] - seconds(side, 1, given, new)[0]
                own["alone"].setdefault(name, []).append(new / spent)
    first = {
        name: {"p50": round(statistics.median(o), 2), "p99": round(percentile(o, 99), 2)}
        for name, o in own.pop("first").items()
    }
    middle = {
        what: {name: round(statistics.median(o), 1) for name, o in of.items()}
        for what, of in own.items()
    }
    return {"tokens_per_second": middle, "ratios": ratios(middle), "first_token": first}


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def ratios(middle: dict[str, dict[str, float]]) -> dict[str, float]:
    """What the targets are about."""
    found = {f"{o}: many of one": middle["decode"][o] / middle["alone"][o] for o in middle["alone"]}
    for what in ("decode", "whole"):
        own = middle[what]
        for peer in own.keys() - {"engine", "server"}:
            found[f"server of {peer}, {what}"] = own["server"] / own[peer]
            found[f"engine of {peer}, {what}"] = own["engine"] / own[peer]
        found[f"overhead of the server, percent, {what}"] = 100 * (
            1 - own["server"] / own["engine"]
        )
    return {name: round(value, 2) for name, value in sorted(found.items())}


async def beside(
    address: str, asked: Asked, given: argparse.Namespace
) -> tuple[list[Stream], Stream]:
    """Texts that are being written while a long prompt arrives, and the text behind that."""
    going, begun = asyncio.Event(), set[int]()

    def came(number: int, pieces: int) -> None:
        if pieces > 4:
            begun.add(number)
        if len(begun) == BESIDE:
            going.set()

    fields = [asked(one, 8 * given.new) for one in prompts(BESIDE, given.prompt)]
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(streamed(address, own, partial(came, number)))
            for number, own in enumerate(fields)
        ]
        await going.wait()
        (long,) = prompts(1, 1024 - LONG_NEW)
        told = await streamed(address, asked(long, LONG_NEW))
    return [one.result() for one in running], told


def gaps(address: str, asked: Asked, given: argparse.Namespace) -> dict[str, float]:
    """Seconds between pieces of texts beside which a long prompt arrives."""
    short, long = asyncio.run(beside(address, asked, given))
    found = [gap for one in short for gap in one.gaps]
    middle = statistics.median(found)
    return {
        "median": middle,
        "largest": max(found),
        "largest of median": max(found) / middle,
        "first token of the long prompt": long.times[0],
    }


def all_gaps(servers: Any, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Medians of `gaps` for each server."""
    own: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for _ in range(given.rounds):
        for name, (address, asked) in servers.items():
            own[name].append(gaps(address, asked, given))
    return {
        name: {what: round(statistics.median(o[what] for o in of), 4) for what in of[0]}
        for name, of in own.items()
    }


def ceilings(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Tokens a second of decoding if nothing but weights, keys and values (in float32) were read,
    or the weights multiplied."""
    run, read = gf.load(folder), bandwidth()
    weights, of = weight_bytes(run, given.bits), run.model.config
    element = 2 * of.depth("decoder") * of.kv_heads * of.head_width * 4
    texts = element * (given.prompt + given.new // 2)
    found = {"read_gb_per_second": read / 1e9, "alone": read / (weights + texts)}
    found["by reading"] = given.requests * read / (weights + given.requests * texts)
    if given.bits == "fp32":
        a, times = torch.ones(2048, 2048), list[float]()
        for _ in range(5):
            begin = time.perf_counter()
            torch.mm(a, a)
            times.append(time.perf_counter() - begin)
        products = 2 * 2048**3 / min(times)
        found["gflop_per_second"] = products / 1e9
        found["by products"] = products / (weights / 2)  # two for each number of 4 bytes
    return {name: round(value, 1) for name, value in found.items()}


def machine(given: argparse.Namespace) -> dict[str, Any]:
    """What was measured, and on what."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    about = {"processor": (names or [platform.processor()])[0], "cores": os.cpu_count()}
    about |= {"instructions": flags(), "threads": given.threads, "load": os.getloadavg()[0]}
    asked = ("bits", "requests", "prompt", "new", "rounds")
    return about | {name: getattr(given, name) for name in asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--bits", choices=THEIRS, default="fp32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("rates", "gaps"))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    found = machine(given)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        published(place / "published", given.tokenizer)
        found["ceilings"] = ceilings(place / "published", given)
        with all_sides(place, given) as (sides, servers):
            for side in sides.values():
                side(prompts(1, 8), 2)
            if given.only != "gaps":
                found |= rates(sides, given)
            if given.only != "rates":
                found["gaps"] = all_gaps(servers, given)
    print(json.dumps(found | {"load at the end": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
