"""Server processes for the promises: tiny random models, real sockets."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from processes import started

from .client import ask

HOOKED = Path(__file__).parent / "hooked.py"
SECONDS = 1400
"""A server is killed after that, whatever a test does."""


class Server:
    """A process and its address."""

    def __init__(self, process: Any, log: Path, eos: int):
        self.process, self.log = process, log
        self.address = process.stdout.readline().strip()
        assert self.address, log.read_text(encoding="utf-8")
        self.port = int(self.address.rpartition(":")[2])
        self.long = {"model": "lm", "logit_bias": {str(eos): -100}}
        """Fields of a text without an end of its own."""

    async def numbers(self) -> dict[str, float]:
        """The metrics by name and labels."""
        lines = (await ask(self.port, "GET", "/metrics")).body.decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name.removeprefix("glassformer_"): float(value) for name, _, value in pairs}

    async def idle(self) -> dict[str, float]:
        """The metrics when nothing is computed any more; a deadline is the test's own."""
        async with asyncio.timeout(120):
            while True:
                found = await self.numbers()
                if not (found["in_flight"] or found["queue_depth"] or found["engine_load"]):
                    return found

    def lines(self) -> list[dict[str, Any]]:
        """The log."""
        text = self.log.read_text(encoding="ascii")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def status(self, name: str) -> int:
        """A field of /proc/PID/status in bytes, or a number."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (value,) = (line.split()[1:] for line in text.splitlines() if line.startswith(f"{name}:"))
        return int(value[0]) << (10 if len(value) > 1 else 0)

    @property
    def n_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A decoder of bytes with random weights and a context of 512."""
    from small_runs import go, recipe

    folder = tmp_path_factory.mktemp("promises")
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 2, "max_length": 512}
    values = {"model": sizes, "processor.tokenizer": {"kind": "byte"}, "data": {}}
    train = {"steps": 1, "batch_size": 1, "evaluate.every": 1, "evaluate.batches": 1}
    train |= {"save.every": 1, "schedule.warmup_steps": 1}
    text = folder / "text.txt"
    text.write_text("the cat sat on a mat and the dog ran\n" * 400, encoding="utf-8")
    values["data"] = {"train.path": str(text), "validation.fraction": 0.1}
    go(recipe(folder, **values, train=train), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def eos(run_folder) -> int:
    import glassformer as gf

    return gf.load(run_folder).tokenizer.specials["eos"]


@pytest.fixture
def serve(run_folder, eos, tmp_path) -> Any:
    """Start a server: serve(*options, key=..., runs=..., **hooks)."""

    @contextmanager
    def serving(
        *options: Any, key: str | None = None, runs: Any = None, **hooks: Any
    ) -> Iterator[Server]:
        folders = {"lm": run_folder} if runs is None else runs
        named = [part for name in folders for part in ("--name", name)]
        command = [sys.executable, HOOKED, json.dumps(hooks), "serve", *folders.values(), *named]
        environment = os.environ | ({"GLASSFORMER_API_KEY": key} if key else {})
        port = [] if "--port" in options else ["--port", "0"]
        log = tmp_path / f"log-{len(list(tmp_path.iterdir()))}"
        with log.open("w", encoding="utf-8") as file:
            arguments = [*map(str, command), *map(str, options), *port]
            pipes = {"text": True, "env": environment, "stderr": file}
            with started(arguments, SECONDS, **pipes) as process:
                yield Server(process, log, eos)

    return serving
