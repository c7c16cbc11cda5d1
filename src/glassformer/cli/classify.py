"""`glassformer classify`: lines or files in, the class of each out, in order; an empty line stays
empty.

name                             by default; of files, a TAB and the file behind it
probability <TAB> name           with --scores
name <TAB> name ...              with --top-k: likeliest first, with --scores after its probability
--in FILE --out FILE             rows of a file, with columns `label` and `score`
name,name                        of a model with any number of classes: those that reach --threshold
"""

import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from glassformer.cli.files import Field, Files, In, Out, Resume
from glassformer.cli.lines import chunks, numbered
from glassformer.cli.options import Count, Device, Json, OptionalCount, RunFolder, Share, refuse
from glassformer.cli.outputs import Force
from glassformer.cli.predictions import predict_file
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError, DataError, counted, one_line

if TYPE_CHECKING:
    import numpy as np

    from glassformer.data.table_output import Predicted
    from glassformer.run import Run

FILES = "Images or audio files, also in archives: a.zip/b.png."


def classify(
    run: RunFolder,
    names: Annotated[list[str] | None, Argument(help=FILES, metavar="FILE")] = None,
    inp: In = None,
    out: Out = None,
    field: Field = None,
    resume: Resume = False,
    force: Force = False,
    scores: bool = False,
    top_k: OptionalCount = None,
    threshold: Share = None,
    skip_bad: bool = False,
    batch_size: Count = 256,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Print the class of each line or file, or write those of the rows of --in, in order.

    A line of standard input is a text; two texts and a TAB for a model of pairs; the name of a file
    for a model of images or audio; a JSON list of parts for a multimodal model, [{"image":
    "a.png"}, {"text": "What is it?"}].

    scores: Print the probability before each class; in --out, add those of all classes.
    top_k: Print the K likeliest classes, or all, as columns.
    threshold: For models of several classes: print those of at least this probability; default 0.5.
    skip_bad: Skip files that cannot be read, and count them.
    batch_size: Lines or files classified together.
    """
    from glassformer.run import load

    if files := Files.checked(inp, out, field, resume, force):
        refuse({"top_k": top_k, "json": json}, "--out has a form of its own")
    _check_options(files, names, top_k, None if json else threshold)
    opened = load(run, device)
    opened.classified([])  # a model that does not classify is refused before a line is waited for
    _check(opened, names or [], threshold, skip_bad)
    classes = [one_line(name) for name in opened.classes]
    show = _Shown(opened, classes, scores, top_k, 0.5 if threshold is None else threshold, json)
    if files:
        _tell(_classify_file(show, files, skip_bad))
        return
    groups = [names[i : i + batch_size] for i in range(0, len(names), batch_size)] if names else ()
    _tell(_print_classes(show, groups or chunks(batch_size), skip_bad))


def _print_classes(show: "_Shown", groups: Iterable[Sequence[str]], skip: bool) -> int:
    """Print the classes of groups of lines or files; the number of files that were skipped."""
    opened, bad = show.run, 0
    for number, lines in numbered(groups):
        inputs = [
            opened.processor.from_values([line], f"Line {n}")
            for n, line in enumerate(lines, number)
        ]
        rows = _probabilities(opened, inputs, skip)
        for line, given, row in zip(lines, inputs, rows, strict=True):
            if isinstance(row, DataError):
                bad += 1
                print(row, file=sys.stderr)
            else:
                show.print(line, given, row)
    return bad


def _classify_file(show: "_Shown", files: Files, skip: bool) -> int:
    """Write the rows of a file with their classes; the number of files that were skipped."""
    table = files.table(show.run.task, show.run.processor.input_columns)
    rows = _Rows(show, table.source.file, skip)
    predict_file(table, files, rows.read, rows.predicted)
    return rows.bad


def _check_options(
    files: Files | None, names: Sequence[str] | None, top_k: int | None, threshold: float | None
) -> None:
    """ConfigError: options that do not fit each other."""
    if files and names:
        raise ConfigError(f"--in reads a file of rows, so {names[0]} has no use; leave it out.")
    if top_k and threshold is not None:
        raise ConfigError(
            "--top-k lists classes whatever their probability; leave it out or leave out "
            "--threshold."
        )


def _tell(bad: int) -> None:
    if bad:
        print(f"left out: {counted(bad, 'file')} that cannot be read", file=sys.stderr)


def _check(run: "Run", files: Sequence[str], threshold: float | None, skip_bad: bool) -> None:
    """ConfigError: an option that does not fit the model."""
    processor = run.processor
    if threshold is not None and not run.model.config.multi_label:
        raise ConfigError(
            "--threshold is for model.multi_label, and this model gives one class; leave it out."
        )
    if files and not processor.medium:
        raise ConfigError(
            f"{run.folder} reads lines that hold a {processor.noun} each, and {files[0]} is given "
            f"as a file; give lines: < {files[0]}."
        )
    if skip_bad and not processor.medium:
        raise ConfigError(
            "--skip-bad is for files of images or audio, and this model reads lines; leave it out."
        )


def _probabilities(
    run: "Run", inputs: Sequence[Any], skip: bool
) -> "list[np.ndarray | DataError | None]":
    """The probabilities of each input, None for an empty line; with `skip`, the error of a file
    that cannot be read."""
    if not skip:
        found = run.classified(["" if given is None else given for given in inputs])
        return [None if math.isnan(row[0]) else row for row in found]
    rows: list[np.ndarray | DataError | None] = []
    for given in inputs:
        try:
            rows.append(None if given is None else run.classified([given])[0])
        except DataError as problem:
            rows.append(problem)
    return rows


@dataclass(frozen=True)
class _Shown:
    """The form in which the classes of an input are printed."""

    run: "Run"
    names: list[str]
    scores: bool
    top: int | None
    threshold: float
    as_json: bool

    def print(self, line: str, given: Any, row: "np.ndarray | None") -> None:
        """Print the classes of a line or file; `row` None: of an empty line."""
        processor = self.run.processor
        if row is None and processor.medium:
            return
        values = [] if row is None else row.astype(float).tolist()
        if self.as_json:
            shown = processor.to_values(line if given is None else given)
            print_json({**shown, **self.values(values)})
        else:
            behind = [one_line(line)] if processor.medium else []
            print("\t".join([*self.columns(values), *behind]))

    def values(self, row: list[float]) -> dict[str, Any]:
        """The chosen classes and all probabilities, as plain values."""
        rounded, order = [round(p, 6) for p in row], _likeliest(row)
        listed = range(len(row)) if self.top is None else order[: self.top]
        found: dict[str, Any] = {"label": None, "probability": None}
        if self.run.model.config.multi_label:
            found = {"labels": [self.names[i] for i in self.labels(row)]}
        elif order:
            found = {"label": self.names[order[0]], "probability": rounded[order[0]]}
        return {**found, "probabilities": {self.names[i]: rounded[i] for i in listed}}

    def columns(self, row: list[float]) -> list[str]:
        """The chosen classes with their scores, none for an empty line."""
        if row and self.run.model.config.multi_label and self.top is None:
            labels = self.labels(row)
            scores = [",".join(f"{row[i]:.4f}" for i in labels)] if self.scores else []
            return [*scores, ",".join(self.names[i] for i in labels)]
        best = _likeliest(row)[: self.top or 1]
        return [f"{row[i]:.4f}\t{self.names[i]}" if self.scores else self.names[i] for i in best]

    def labels(self, row: list[float]) -> list[int]:
        """The classes that reach the threshold, in the model's order."""
        return [i for i, p in enumerate(row) if p >= self.threshold]


class _Rows:
    """The classes of rows of a file, as columns: label (or labels) and score."""

    def __init__(self, show: _Shown, file: str, skip: bool):
        self.show, self.skip, self.bad = show, skip, 0
        self.processor, self.folder = show.run.processor, os.path.dirname(file)

    def read(self, values: Sequence[Any], where: str) -> Any:
        """The input of a row; the name of a file is beside the table's."""
        given = self.processor.from_values(values, where)
        if self.processor.medium and isinstance(given, str):
            return os.path.join(self.folder, os.path.expanduser(given))
        return given

    def predicted(self, inputs: Sequence[Any]) -> "Predicted":
        """The columns of some rows; null for an empty one, and for a file that is skipped."""
        from glassformer.data.table_output import Predicted

        rows = []
        for row in _probabilities(self.show.run, inputs, self.skip):
            self.bad += isinstance(row, DataError)
            rows.append([] if row is None or isinstance(row, DataError) else row.tolist())
        names, several = self.show.run.classes, self.show.run.model.config.multi_label
        found = self._several(rows) if several else self._one(rows)
        if self.show.scores:
            found["probabilities"] = [
                {name: round(p, 6) for name, p in zip(names, row, strict=True)} if row else None
                for row in rows
            ]
        return Predicted(found, lines=["\t".join(self.show.columns(row)) for row in rows])

    def _several(self, rows: Sequence[list[float]]) -> dict[str, list[Any]]:
        """Every class that reaches the threshold."""
        names = self.show.run.classes
        chosen = [(row, self.show.labels(row)) for row in rows]
        return {
            "labels": [[names[i] for i in own] if row else None for row, own in chosen],
            "scores": [[round(row[i], 6) for i in own] if row else None for row, own in chosen],
        }

    def _one(self, rows: Sequence[list[float]]) -> dict[str, list[Any]]:
        """The likeliest class."""
        names = self.show.run.classes
        best = [(row, _likeliest(row)[0]) if row else None for row in rows]
        return {
            "label": [one and names[one[1]] for one in best],
            "score": [one and round(one[0][one[1]], 6) for one in best],
        }


def _likeliest(row: list[float]) -> list[int]:
    return sorted(range(len(row)), key=row.__getitem__, reverse=True)
