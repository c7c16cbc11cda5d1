"""What a run measured, line by line: `metrics.jsonl`, and listeners."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from glassformer.files import write_text, writing

Listener = Callable[[Mapping[str, Any]], None]
"""Called with every line of `metrics.jsonl`: {"step": 100, "validation_loss": 1.25, ...}."""


class History:
    """The lines of a run; those after the step at which it goes on are taken back, as their steps
    come again."""

    def __init__(
        self, run: Path, step: int, listeners: Sequence[Listener] = (), written: bool = True
    ):
        """`written`: false for a process that leaves the file to another one."""
        path = run / "metrics.jsonl"
        self.lines = [line for line in read_metrics(run) if line["step"] <= step]
        if written:
            write_text(path, "".join(_text(line) for line in self.lines))
        self._path = path if written else Path(os.devnull)
        with writing(self._path):
            self._file = self._path.open("a", encoding="utf-8", newline="\n")
        self._listeners = listeners

    def add(self, step: int, **values: Any) -> None:
        """Append one line, and tell the listeners; CheckpointError if it cannot be written."""
        line = {"step": step, **values}
        self.lines.append(line)
        with writing(self._path):
            self._file.write(_text(line))
            self._file.flush()
        for listener in self._listeners:
            listener(line)

    def since(self, step: int, name: str) -> list[dict[str, Any]]:
        """The lines from a step on in which this value is there, and not false."""
        return [line for line in self.lines if line["step"] >= step and line.get(name)]

    def scores(self, step: int | None = None) -> dict[str, float]:
        """The validation scores of a step, or the last ones; {} if there are none, and never of a
        mean not taken."""
        for line in reversed(self.lines):
            if (
                "validation_loss" in line
                and step in (None, line["step"])
                and line.get("averaged_taken", True)
            ):
                return {
                    name.removeprefix("validation_"): value
                    for name, value in line.items()
                    if name.startswith("validation_")
                }
        return {}

    def close(self) -> None:
        """Close the files."""
        with suppress(
            OSError
        ):  # a line that a full disk refused is tried again here; `add` has reported it
            self._file.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; a line that was cut short is left out."""
    path, lines = run / "metrics.jsonl", []
    for text in (
        path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    ):
        try:
            line = json.loads(text, parse_constant=_refused)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and type(line.get("step")) is int:
            lines.append(line)
    return lines


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
