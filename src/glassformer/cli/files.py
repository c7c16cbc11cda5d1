"""Files of rows in, the same with predictions out: for the commands with --in and --out."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import check_output, refuse
from glassformer.cli.terminal import Pace
from glassformer.core.errors import ConfigError, DataError, amount, one_line

if TYPE_CHECKING:
    from glassformer.cli.verbs import Shared
    from glassformer.data.tables import InputTable, Row
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Prediction, Predictor

TOGETHER = 256
"""Rows that are predicted together."""
OWN_FORM = "--out has a form of its own"


def file_of_rows(shared: "Shared", whole: str) -> Path | None:
    """The --out for rows of --in; None: there is none. `whole`: suffix of an --out without --in.

    ConfigError: --in without --out, what has no use beside them, or a file that cannot be written.
    """
    check_output("--show-attention", shared.show_attention, (".html", ".png"), shared.force)
    if shared.out is None:
        _check_no_rows(shared)
        return None
    if shared.names:
        raise ConfigError(
            f"--in reads a file of rows, so {shared.names[0]} has no use; leave it out."
        )
    if whole and not (shared.inp or shared.field or shared.resume):
        _check_whole(shared, shared.out, whole)
        return None
    _check_rows(shared, shared.out, vectors=whole == ".npy")
    return shared.out


def _check_no_rows(shared: "Shared") -> None:
    """Raise ConfigError for an option that needs --out."""
    beside = {"in": shared.inp, "field": shared.field, "resume": shared.resume}
    beside["force"] = shared.force and not shared.show_attention
    for name in (name for name, value in beside.items() if value):
        raise ConfigError(f"--{name} needs --out, the file to write; add it.")


def _check_whole(shared: "Shared", out: Path, suffix: str) -> None:
    """Raise ConfigError for an --out that cannot hold all predictions, an image or vectors."""
    check_output("--out", out, (suffix,), shared.force)
    if suffix == ".png" and (n := len(shared.prompt or ())) != 1:
        raise ConfigError(f"--out draws one image, of one --prompt, not of {n}; give one.")
    refuse({"json": shared.json and suffix == ".npy"}, OWN_FORM)


def _check_rows(shared: "Shared", out: Path, vectors: bool) -> None:
    """Raise ConfigError for an --out that cannot hold the rows of --in."""
    named = ("json", "text", "prompt", "image", "audio", "stream", "show_attention")
    refuse({name: getattr(shared, name) for name in named}, OWN_FORM)
    if vectors and out.suffix == ".txt":
        raise ConfigError(f"--out {out} cannot hold vectors; write .npy or .jsonl.")
    from glassformer.data.table_output import FORMS

    forms = [suffix for suffix in FORMS if suffix != ".npy" or vectors]
    check_output("--out", out, forms, shared.force or shared.resume)
    if shared.inp is None:
        raise ConfigError("--out needs --in, the file to read; add it.")
    if shared.inp.exists() and out.exists() and shared.inp.samefile(out):
        raise ConfigError(f"--out {out} is the file that --in reads; name another.")


def _table(predictor: "Predictor[Any]", shared: "Shared") -> "InputTable":
    """The file of --in as a table with the inputs of a predictor, read as the data of its run."""
    from glassformer.data.formats.delimited import default_of
    from glassformer.data.formats.records import RECORDS
    from glassformer.data.sources import Source, resolve
    from glassformer.data.tables import input_table

    learned, settings, fields = predictor.data, predictor.input_columns, shared.field or ()
    config = learned.model_copy(update={"format": "auto", "root": None})
    sources = resolve(str(shared.inp), config)
    if len(sources) != 1:
        raise ConfigError(f"--in {shared.inp} is {len(sources)} files; give one.")
    if fields and len(fields) != len(settings):
        raise ConfigError(
            f"--field names {len(fields)} columns, and {predictor.task.folder} reads "
            f"{len(settings)}; give as many."
        )
    path = learned.train.path or ""
    before = Source(path if isinstance(path, str) else path[0], config=learned).kind
    kind = sources[0].kind
    if kind != before and not {kind, before} <= {*RECORDS}:  # whose columns have other names
        words = ("word_field", "tag_field")
        config = config.model_copy(update={name: default_of(name) for name in words})
    return input_table(replace(sources[0], config=config), tuple(settings), tuple(fields))


def predict_rows(
    predictor: "Predictor[Any]", options: "Options", shared: "Shared", out: Path
) -> None:
    """Write the rows of a file with their predictions.

    All inputs are read once before the first prediction, and a bad one is reported then. A
    file that is continued has the first rows already.
    """
    from glassformer.data.table_output import Output, new_column

    table, total = _table(predictor, shared), 0
    folder, within = os.path.dirname(table.source.file), predictor.processor.within

    def read(row: "Row") -> Any:
        return within(predictor.from_values(row.values, row.where), folder)

    skipped = list[DataError]()
    own, whole = dict.fromkeys(table.columns()), out.suffix != ".parquet"
    for row in table.rows(whole):
        read(row)
        own |= dict.fromkeys(row.content)
        total += 1
    new = {name: new_column(name, own) for name in predictor.columns(options)}
    output = Output(out, table, own, tuple(new.values()))
    output.check(shared.resume)
    before = output.whole_rows(total) if shared.resume else 0
    pace = Pace("rows", total - before)

    def fill_rows() -> "Iterator[Row]":
        rest = islice(table.rows(whole), before, None)
        while chunk := list(islice(rest, TOGETHER)):
            given = [(read(row), row.where) for row in chunk]
            for row, found in zip(chunk, predictions(predictor, options, given), strict=True):
                line, values = "", dict[str, Any].fromkeys(new)
                if isinstance(found, DataError):
                    skipped.append(found)
                elif out.suffix == ".npy":
                    values = dict.fromkeys(new, found.value)
                else:
                    line, values = one_line(found.cell()), found.columns()
                columns = {name: values[own] for own, name in new.items()}
                yield replace(row, content=row.content | columns, line=line)
            pace.add(len(chunk))

    output.write(fill_rows(), before)
    resumed = f" ({before:,} of them by an earlier process)" if before else ""
    sys.stderr.write(f"{out}: {total:,} rows{resumed}\n")
    report_skipped(len(skipped))


def predictions(
    predictor: "Predictor[Any]",
    options: "Options",
    given: Sequence[tuple[Any, str]],
    first: int = 1,
) -> "Iterator[Prediction | DataError]":
    """The predictions of inputs, each with its place in words; `first`: the number of the first.

    An input that cannot be read has its error instead of a prediction, if `options` skip it.
    """
    parsed = list[Any]()
    for number, (one, where) in enumerate(given, first):
        try:
            parsed.append(predictor.parse(one, options, where, number))
        except DataError as error:
            if not options.skips:
                raise
            parsed.append(error)
    good = [one for one in parsed if not isinstance(one, DataError)]
    found = filter(None, predictor.predict(good, options, predictor.whole))
    for one in parsed:
        yield one if isinstance(one, DataError) else next(found)
    for note in dict.fromkeys(one.note for one in good if one.note):
        sys.stderr.write(f"{note}\n")


def report_skipped(n: int) -> None:
    """Say how many files could not be read, if any."""
    if n:
        sys.stderr.write(f"left out: {amount(n, 'file')} that cannot be read\n")
