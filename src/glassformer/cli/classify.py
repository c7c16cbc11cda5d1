"""`glassformer classify`: lines or files in, the class of each out, in order; an empty line stays
empty.

name                             by default; of files, a TAB and the file behind it
probability <TAB> name           with --scores
name <TAB> name ...              with --top-k: likeliest first, with --scores after its probability
name,name                        of a model with any number of classes: those that reach --threshold
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError, DataError, counted
from glassformer.run import Run, load


@dataclass(frozen=True)
class Wanted:
    """What is printed for each line; `threshold` None is 0.5."""

    scores: bool = False
    top: int | None = None
    threshold: float | None = None
    as_json: bool = False
    skip_bad: bool = False


def classify(
    folder: Path, files: Sequence[str], wanted: Wanted, batch_size: int, device: str
) -> None:
    """Classify files, or the lines of standard input; for a model of pairs, two texts with a TAB
    between them."""
    if wanted.top and wanted.threshold is not None and not wanted.as_json:
        raise ConfigError(
            "--top-k lists classes whatever their probability; leave it out or leave out "
            "--threshold."
        )
    run = load(folder, device)
    run.classified([])  # a model that does not classify is refused before a line is waited for
    _check(run, files, wanted)
    processor = run.processor
    names = [one_line(name) for name in run.classes]
    groups = [files[i : i + batch_size] for i in range(0, len(files), batch_size)]
    number, bad, progress = 0, 0, Lines()
    for chunk in groups or chunks(batch_size):
        inputs = [processor.from_line(line, i) for i, line in enumerate(chunk, number + 1)]
        rows = _probabilities(run, inputs, wanted.skip_bad)
        for line, given, row in zip(chunk, inputs, rows, strict=True):
            if isinstance(row, DataError):
                bad += 1
                print(row, file=sys.stderr)
            else:
                _print(run, line, given, row, names, wanted)
        number += len(chunk)
        sys.stdout.flush()
        progress.tell(number)
    progress.tell(number, last=True)
    if bad:
        print(f"left out: {counted(bad, 'file')} that cannot be read", file=sys.stderr)


def _check(run: Run, files: Sequence[str], wanted: Wanted) -> None:
    """ConfigError: an option that the model has no use for."""
    processor = run.processor
    if wanted.threshold is not None and not run.model.config.multi_label:
        raise ConfigError(
            "--threshold is for model.multi_label, and this model gives one class; leave it out."
        )
    if files and not processor.reads_files:
        raise ConfigError(
            f"{run.folder} reads lines that hold a {processor.noun} each, and {files[0]} is given "
            f"as a file; give {processor.line_of(files[0])}."
        )
    if wanted.skip_bad and not processor.reads_files:
        raise ConfigError(
            "--skip-bad is for files of images or audio, and this model reads lines; leave it out."
        )


def _probabilities(run: Run, inputs: Sequence[Any], skip: bool) -> list[np.ndarray | DataError]:
    """The probabilities of each input, nothing for an empty line; with `skip`, what is wrong."""
    if not skip:
        found = iter(run.classified([given for given in inputs if given is not None]))
        return [np.zeros(0) if given is None else next(found) for given in inputs]
    rows: list[np.ndarray | DataError] = []
    for given in inputs:
        try:
            rows.append(np.zeros(0) if given is None else run.classified([given])[0])
        except DataError as problem:
            rows.append(problem)
    return rows


def _print(
    run: Run, line: str, given: Any, row: np.ndarray, names: list[str], wanted: Wanted
) -> None:
    several, values = run.model.config.multi_label, row.astype(np.float64)
    if given is None and run.processor.reads_files:
        return
    if wanted.as_json:
        shown = run.processor.to_values(line if given is None else given)
        print_json(_values(shown, values, names, several, wanted))
        return
    columns = "" if given is None else _columns(values, names, several, wanted)
    print(f"{columns}\t{one_line(line)}" if run.processor.reads_files else columns)


def _columns(row: np.ndarray, names: list[str], several: bool, wanted: Wanted) -> str:
    if several and wanted.top is None:
        chosen = _labels(row, wanted)
        shown = [",".join(f"{row[i]:.4f}" for i in chosen)] if wanted.scores else []
        return "\t".join([*shown, ",".join(names[i] for i in chosen)])
    best = _likeliest(row, wanted.top or 1)
    return "\t".join(f"{row[i]:.4f}\t{names[i]}" if wanted.scores else names[i] for i in best)


def _values(
    what: dict[str, Any], row: np.ndarray, names: list[str], several: bool, wanted: Wanted
) -> dict[str, Any]:
    values, best = dict(what), _likeliest(row, 1)
    if several:
        values["labels"] = [names[i] for i in _labels(row, wanted)]
    else:
        values["label"] = names[best[0]] if best else None
        values["probability"] = round(float(row[best[0]]), 6) if best else None
    listed = range(len(row)) if wanted.top is None else _likeliest(row, wanted.top)
    return {**values, "probabilities": {names[i]: round(float(row[i]), 6) for i in listed}}


def _labels(row: np.ndarray, wanted: Wanted) -> list[int]:
    """The classes that reach the threshold, in the model's order."""
    return np.flatnonzero(row >= (0.5 if wanted.threshold is None else wanted.threshold)).tolist()


def _likeliest(row: np.ndarray, most: int) -> list[int]:
    return np.argsort(-row, kind="stable")[:most].tolist()
