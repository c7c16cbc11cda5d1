"""What a run measured, line by line: `metrics.jsonl`, and listeners."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_text, writing

VALIDATION = "validation_"
"""Prefix of the scores of an evaluation."""
Listener = Callable[[Mapping[str, Any]], None]
"""Called with every line of `metrics.jsonl`: {"step": 100, "validation_loss": 1.25, ...}."""


class History:
    """The lines of a run; those after the step at which it goes on are taken back, as their steps
    come again."""

    def __init__(
        self, run: Path, step: int, listeners: Sequence[Listener] = (), written: bool = True
    ):
        """`written`: false for a process that leaves the file to another one."""
        self._path = run / "metrics.jsonl" if written else Path(os.devnull)
        self.lines = [line for line in read_metrics(run) if line["step"] <= step]
        self._listeners, self._mutex = listeners, Lock()
        self._write()

    def _write(self) -> None:
        """Write every line anew; CheckpointError if they cannot be written."""
        if self._path != Path(os.devnull):
            write_text(self._path, "".join(map(_text, self.lines)))
        with writing(self._path):
            self._file = self._path.open("a", encoding="utf-8", newline="\n")
        self._behind = False

    def add(self, step: int, **values: Any) -> None:
        """Append one line, and tell the listeners; one that a full disk refuses is written by
        `sync`."""
        line = {"step": step, **values}
        text = _text(line)
        with self._mutex:
            self.lines.append(line)
            try:
                self._file.write(text)
                self._file.flush()
            except OSError:
                self._behind = True
        for listener in self._listeners:
            listener(line)

    def add_baselines(self, step: int, found: dict[str, Any]) -> dict[str, Any]:
        """Append a line with these scores of baselines, unless the last one has them; returns
        them."""
        before = [line["baselines"] for line in self.lines if "baselines" in line]
        if found and before[-1:] != [found]:
            self.add(step=step, baselines=found)
        return found

    def sync(self) -> None:
        """Put every line on disk; CheckpointError if one cannot be written."""
        with self._mutex, writing(self._path):
            if self._behind:
                self.close()
                self._write()
            os.fsync(self._file.fileno())

    def since(self, step: int, name: str) -> list[dict[str, Any]]:
        """The lines from a step on in which this value is there, and not false."""
        return [line for line in self.lines if line["step"] >= step and line.get(name)]

    def scores(self, step: int | None = None) -> dict[str, float]:
        """The validation scores of a step, or the last ones; {} if there are none, and never of a
        mean not taken."""
        return scores_at(self.lines, step)

    def best_scores(self, best_step: int | None) -> dict[str, float]:
        """The validation scores of the best model: of the mean of checkpoints that was taken since
        the best step, else of that step; {} if there are none."""
        means = self.since(best_step or 0, "averaged_taken")
        return self.scores(means[-1]["step"] if means else best_step)

    def close(self) -> None:
        """Close the files."""
        with suppress(OSError):  # a line that a full disk refused is tried again here
            self._file.close()


@contextmanager
def tensorboard(run: Path) -> Iterator[Listener]:
    """Write the numbers of every line as TensorBoard's events into the run folder; steps that come
    again replace what was written of them. ConfigError: TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "train.tensorboard needs TensorBoard; run pip install 'glassformer[track]'."
        ) from None
    writers: list[SummaryWriter] = []

    def listen(line: Mapping[str, Any]) -> None:
        step = line["step"]
        if not writers:
            writers.append(SummaryWriter(str(run / "tensorboard"), purge_step=step))
        for name, value in line.items():
            if name != "step" and isinstance(value, int | float):
                group, _, rest = name.partition("_")
                ours = group if group == "validation" else "train"
                shown = rest if group == ours else name
                writers[0].add_scalar(f"{ours}/{shown}", value, step)

    try:
        yield listen
    finally:
        for writer in writers:
            writer.close()


def scores_at(
    lines: Sequence[Mapping[str, Any]], step: int | None = None, mean: bool | None = None
) -> dict[str, Any]:
    """The last validation scores, or those of a step; {} if there are none.

    `mean`: those of a mean of checkpoints, or of none; None: of either, but never of a mean that
    was not taken.
    """
    for line in reversed(lines):
        of_mean = "averaged" in line
        fits = line.get("averaged_taken", True) if mean is None else of_mean == mean
        if "validation_loss" in line and step in (None, line["step"]) and fits:
            return {
                name.removeprefix(VALIDATION): value
                for name, value in line.items()
                if name.startswith(VALIDATION)
            }
    return {}


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
