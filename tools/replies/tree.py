"""The code that replies: the package that Python finds first, by its public names only."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any


@dataclass(frozen=True)
class Printed:
    """Output of a command, and its exit code."""

    code: int
    out: bytes
    err: bytes


class Stream(io.TextIOWrapper):
    """A standard stream of a file; `terminal`: whether it says that it is a terminal."""

    def __init__(self, file: IO[bytes], terminal: bool):
        super().__init__(file, encoding="utf-8", write_through=True)
        self.file, self.terminal = file, terminal

    def isatty(self) -> bool:
        """See `io.IOBase`."""
        return self.terminal

    def written(self) -> bytes:
        """All bytes that were written."""
        self.flush()
        self.file.seek(0)
        return self.file.read()


def command(
    arguments: list[str], given: bytes = b"", terminal: bool = False, typed: bool = False
) -> Printed:
    """Run `glassformer ARGUMENTS` in this process, with a pipe as standard input; `typed`: which
    says that it is a terminal."""
    from glassformer.cli.main import main

    own = sys.argv, sys.stdin, sys.stdout, sys.stderr
    read_end, write_end = os.pipe()
    os.write(write_end, given)  # less than a pipe holds
    os.close(write_end)
    with (
        Stream(open(read_end, "rb"), typed) as piped,
        Stream(TemporaryFile(), terminal) as out,
        Stream(TemporaryFile(), terminal) as err,
    ):
        code = 0
        sys.argv, sys.stdin = ["glassformer", *arguments], piped
        sys.stdout, sys.stderr = out, err
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = own
        return Printed(code, out.written(), err.written())


def start(arguments: list[str], errors: IO[bytes]) -> subprocess.Popen[str]:
    """Start `glassformer ARGUMENTS` as a process, whose first line of output is its address and
    whose errors go to a file."""
    made = [sys.executable, "-m", "glassformer", *arguments]
    own = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(package())}
    return subprocess.Popen(
        made,
        env=os.environ | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
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


def load(name: str, **how: Any) -> Any:
    """Open the run of a name by `gf.load`."""
    import glassformer as gf

    return gf.load(Path("runs") / name, **how)


@cache
def run_of(name: str) -> Any:
    """The run of a name, opened once."""
    return load(name)


@cache
def help_of(*names: str) -> str:
    """Help of a command; "": there is no such command."""
    said = command([*names, "--help"])
    return "" if said.code else said.out.decode()
