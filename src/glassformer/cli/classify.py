"""`glassformer classify`: lines or files in, the class of each out, in order; an empty line stays
empty.

name                             by default; of files, a TAB and the file behind it
probability <TAB> name           with --scores
name <TAB> name ...              with --top-k: the likeliest first, with --scores each behind its probability
name,name                        of a model with any number of classes: those that reach --threshold
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.data.parts import parts_of
from glassformer.errors import ConfigError, DataError, counted
from glassformer.generate.classify import Text
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
    several = run.model.config.multi_label
    if wanted.threshold is not None and not several:
        raise ConfigError(
            "--threshold is for model.multi_label, and this model gives one class; leave it out."
        )
    names = [one_line(name) for name in run.classes]
    if run.senses is not None:
        named = [files[i : i + batch_size] for i in range(0, len(files), batch_size)]
        _classify_files(run, named or chunks(batch_size), names, wanted)
        return
    if run.readers:
        if files:
            raise ConfigError(
                f'{folder} reads rows of parts; give lines such as [{{"image": "{files[0]}"}}, '
                f'"text"].'
            )
        _classify_rows(run, batch_size, names, wanted)
        return
    if files:
        raise ConfigError(
            f"{folder} reads text, and {files[0]} is given as a file; give lines: < {files[0]}"
        )
    if wanted.skip_bad:
        raise ConfigError(
            "--skip-bad is for files of pictures or sound, and this model reads lines; leave "
            "it out."
        )
    run.classified([])  # a model that does not classify is refused before a line is waited for
    number, progress = 0, Lines()
    for chunk in chunks(batch_size):
        texts = [_text(run, line, i) for i, line in enumerate(chunk, number + 1)]
        found = iter(run.classified([text for text in texts if text is not None]))
        for line, text in zip(chunk, texts, strict=True):
            row = np.zeros(0) if text is None else next(found).astype(np.float64)
            if wanted.as_json:
                print_json(
                    _values(_shown(line if text is None else text), row, names, several, wanted)
                )
            else:
                print("" if text is None else _columns(row, names, several, wanted))
        number += len(chunk)
        sys.stdout.flush()
        progress.tell(number)
    progress.tell(number, last=True)


def _classify_files(
    run: Run, groups: Iterable[Sequence[str]], names: list[str], wanted: Wanted
) -> None:
    several, bad = run.model.config.multi_label, 0
    for group in groups:
        files = [name for name in group if name.strip()]
        rows, problems = _perceived(run, files, wanted.skip_bad)
        for problem in problems:
            print(problem, file=sys.stderr)
        bad += len(problems)
        for file, row in rows:
            values = row.astype(np.float64)
            if wanted.as_json:
                print_json(_values({"file": file}, values, names, several, wanted))
            else:
                print(f"{_columns(values, names, several, wanted)}\t{one_line(file)}")
        sys.stdout.flush()
    if bad:
        print(f"left out: {counted(bad, 'file')} that cannot be read", file=sys.stderr)


def _classify_rows(run: Run, batch_size: int, names: list[str], wanted: Wanted) -> None:
    several, number = run.model.config.multi_label, 0
    for chunk in chunks(batch_size):
        rows = [_parts(line, i) for i, line in enumerate(chunk, number + 1)]
        found = iter(run.chosen([row for row in rows if row]))
        for row in rows:
            values = next(found).astype(np.float64) if row else np.zeros(0)
            if wanted.as_json:
                print_json(_values({"parts": row}, values, names, several, wanted))
            else:
                print(_columns(values, names, several, wanted) if row else "")
        number += len(chunk)
        sys.stdout.flush()


def _parts(line: str, number: int) -> list[dict[str, str]]:
    """The parts that a line lists; [] of an empty one."""
    if not line.strip():
        return []
    try:
        listed = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"Line {number} is not JSON ({problem}); write a list of parts.") from None
    return [{kind: value} for kind, value in parts_of(listed, f"Line {number}")]


def _perceived(
    run: Run, files: Sequence[str], skip: bool
) -> tuple[list[tuple[str, np.ndarray]], list[str]]:
    """Each file that can be read with its probabilities, and what is wrong with the others."""
    if not skip:
        return list(zip(files, run.perceived(files), strict=True)), []
    found, problems = [], []
    for file in files:
        try:
            found.append((file, run.perceived([file])[0]))
        except DataError as problem:
            problems.append(f"{problem}")
    return found, problems


def _text(run: Run, line: str, number: int) -> Text | None:
    """What is classified: a text, a pair if the model reads pairs, None of an empty line."""
    if not line.strip():
        return None
    always = run.recipe is not None and run.recipe.data.pair_field is not None
    texts = tuple(line.split("\t"))
    if not always and (len(texts) == 1 or run.model.config.n_token_types < 2):
        return line
    if len(texts) != 2:
        raise DataError(
            f"Line {number} has {len(texts) - 1} TABs and this model classifies pairs; write "
            f"two texts with one TAB "
            "between them."
        )
    return texts


def _columns(row: np.ndarray, names: list[str], several: bool, wanted: Wanted) -> str:
    if several and wanted.top is None:
        chosen = _labels(row, wanted)
        shown = [",".join(f"{row[i]:.4f}" for i in chosen)] if wanted.scores else []
        return "\t".join([*shown, ",".join(names[i] for i in chosen)])
    best = _likeliest(row, wanted.top or 1)
    return "\t".join(f"{row[i]:.4f}\t{names[i]}" if wanted.scores else names[i] for i in best)


def _shown(text: Text) -> dict[str, Any]:
    return {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}


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
