"""The code that replies: the package that Python finds first, by its public names only."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Printed:
    """Output of a command, and its exit code."""

    code: int
    out: bytes
    err: bytes


class Stream(io.TextIOWrapper):
    """A standard stream in memory; `terminal`: whether it says that it is a terminal."""

    def __init__(self, given: bytes = b"", terminal: bool = False):
        super().__init__(io.BytesIO(given), encoding="utf-8", newline="" if given else None)
        self.terminal = terminal

    def isatty(self) -> bool:
        """See `io.IOBase`."""
        return self.terminal

    def written(self) -> bytes:
        """The bytes that were written."""
        self.flush()
        return self.buffer.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def command(arguments: list[str], given: bytes = b"", terminal: bool = False) -> Printed:
    """Run `glassformer ARGUMENTS` in this process."""
    from glassformer.cli.main import main

    own = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = Stream(terminal=terminal), Stream(terminal=terminal)
    sys.argv, sys.stdin = ["glassformer", *arguments], Stream(given)
    sys.stdout, sys.stderr, code = out, err, 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = own
    return Printed(code, out.written(), err.written())


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """Start `glassformer ARGUMENTS` as a process, whose first line of output is its address."""
    made = [sys.executable, "-m", "glassformer", *arguments]
    own = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(package())}
    return subprocess.Popen(
        made,
        env=os.environ | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def package() -> Path:
    """Folder from which the package is imported."""
    import glassformer

    return Path(str(glassformer.__file__)).parents[1]


def prepare() -> None:
    """Compute with one thread, so that every sum has one order."""
    import torch

    torch.set_num_threads(1)


@cache
def run_of(name: str) -> Any:
    """The run of a name, opened by `gf.load`."""
    import glassformer as gf

    return gf.load(Path("runs") / name)


@cache
def help_of(*names: str) -> str:
    """Help of a command; "": there is no such command."""
    said = command([*names, "--help"])
    return "" if said.code else said.out.decode()
