"""Measurements of a run, line by line: `metrics.jsonl`, and listeners."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_text, writing

VALIDATION = "validation_"
"""Prefix of the scores of an evaluation."""
Listener = Callable[[Mapping[str, Any]], None]
"""Called with every line of `metrics.jsonl`: {"step": 100, "validation_loss": 1.25, ...}."""


class History:
    """Lines of a run; those after the step from which it continues are removed, because their steps
    come again."""

    def __init__(
        self, run: Path, step: int, listeners: Sequence[Listener] = (), written: bool = True
    ):
        """`written`: false in a process that leaves the file to another one."""
        self._path = run / "metrics.jsonl" if written else Path(os.devnull)
        self.lines = [line for line in read_metrics(run) if line["step"] <= step]
        self._listeners, self._mutex = listeners, Lock()
        self._write()

    def _write(self) -> None:
        """Write every line again; CheckpointError if they cannot be written."""
        if self._path != Path(os.devnull):
            write_text(self._path, "".join(map(_text, self.lines)))
        with writing(self._path):
            self._file = self._path.open("a", encoding="utf-8", newline="\n")
        self._behind = False

    def add(self, step: int, **values: Any) -> None:
        """Append a line, and give it to the listeners; one that a full disk refuses is written by
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


class Evaluation(NamedTuple):
    """Validation scores of the weights of a step, or of the `mean` of checkpoints that became the
    run's model; {} without a validation split."""

    step: int
    scores: dict[str, Any]
    mean: bool = False


def evaluations(lines: Iterable[Mapping[str, Any]]) -> list[Evaluation]:
    """Return the evaluations among the lines of a run, without those of means that were not
    taken."""
    return [
        Evaluation(
            line["step"],
            {key.removeprefix(VALIDATION): line[key] for key in line if key.startswith(VALIDATION)},
            "averaged" in line,
        )
        for line in lines
        if line.get("averaged_taken", "validation_loss" in line)
    ]


def of_model(lines: Iterable[Mapping[str, Any]], best: int | None) -> Evaluation:
    """Return the evaluation of a run's model: of the mean of checkpoints that was taken since the
    `best` step, else of that step."""
    since = [one for one in evaluations(lines) if one.step >= (best or 0)]
    own = [one for one in since if one.mean or one.step == best]
    return own[-1] if own else Evaluation(best or 0, {})


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics.jsonl; a line that was cut short is left out."""
    path, lines = run / "metrics.jsonl", []
    for text in (
        path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    ):
        try:
            line = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and type(line.get("step")) is int:
            lines.append(line)
    return lines


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
