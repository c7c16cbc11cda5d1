"""Training processes that die: forked from one that has imported everything and computed nothing.

Run as a program, it reads commands and moments as JSON lines, and writes exit codes.
"""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

CALLS = ("fsync", "open", "rename", "replace", "mkdir", "unlink", "rmdir", "chmod", "scandir")


@dataclass(frozen=True)
class Moment:
    """A signal at the n-th call of Python's and C's functions after the n-th step, or of the
    system's inside saves."""

    inside: bool
    calls: int
    steps: int = 1
    signal: int = signal.SIGKILL


class Processes:
    """Runs `glassformer` in forked processes; `text` is what the last one wrote."""

    def __init__(self, folder: Path):
        self._log, self.text = folder / "log.txt", ""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._parent = subprocess.Popen(
            [sys.executable, __file__, str(self._log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def __call__(self, arguments: Sequence[str], moment: Moment | None = None) -> int:
        """The exit code of a command; negative: of a signal."""
        assert self._parent.stdin
        assert self._parent.stdout
        job = {"arguments": [*map(str, arguments)], "moment": moment and asdict(moment)}
        self._parent.stdin.write(json.dumps(job) + "\n")
        self._parent.stdin.flush()
        code = int(self._parent.stdout.readline())
        self.text = self._log.read_text(encoding="utf-8")
        return code

    def close(self) -> None:
        with self._parent:  # closed
            self._parent.kill()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    made = Processes(folder)
    try:
        yield made
    finally:
        made.close()


def arm(moment: Moment) -> None:
    """Let this process get the signal at that moment."""
    from glassformer.models import weights
    from glassformer.training.folder.history import History
    from glassformer.training.folder.saving import Saving

    left = moment.calls

    def reached() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            sys.setprofile(None)
            os.kill(os.getpid(), moment.signal)

    if not moment.inside:
        add, steps = History.add, moment.steps

        def counted(self, step, **values):
            nonlocal steps
            add(self, step, **values)
            steps -= "train_loss" in values
            if steps == 0:
                sys.setprofile(
                    lambda frame, event, argument: reached() if "call" in event else None
                )

        History.add = counted
        return
    saves, write = False, Saving._write

    def armed(self, *arguments):
        nonlocal saves
        saves = True
        write(self, *arguments)
        saves = False

    def hooked(real: Callable) -> Callable:
        def call(*arguments, **named):
            if saves:
                reached()
            return real(*arguments, **named)

        return call

    Saving._write = armed
    for name in CALLS:
        setattr(os, name, hooked(getattr(os, name)))
    io.open = hooked(io.open)
    weights.save_file = hooked(weights.save_file)


def child(arguments: list[str], moment: dict | None, log: str) -> None:
    """A process of its own from here on."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(handle, number)
    from glassformer.__main__ import main

    if moment is not None:
        arm(Moment(**moment))
    sys.argv = ["glassformer", *arguments]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(log: str) -> None:
    for name in ("glassformer.training.loop.trainer", "torch._dynamo"):  # what every child needs
        import_module(name)

    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # also where a background shell ignores it
    for line in sys.stdin:
        job = json.loads(line)
        process = os.fork()
        if process == 0:
            child(job["arguments"], job["moment"], log)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
