"""Files of rows in, the same with predictions out: for the commands with --in and --out."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.lines import Pace
from glassformer.cli.outputs import check_output
from glassformer.core.errors import ConfigError, DataError, amount, one_line

if TYPE_CHECKING:
    from glassformer.data.config import DataConfig
    from glassformer.data.tables import InputTable, Row
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Prediction, Predictor
    from glassformer.tasks.task import Task

In = Annotated[
    Path | None,
    Option(
        "--in", help="Read this file: .txt, .jsonl, .csv, .tsv, .parquet; tag also .conllu, .conll."
    ),
]
Out = Annotated[
    Path | None, Option("--out", help="Write its rows with the predictions to this file.")
]
Field = Annotated[
    list[str] | None,
    Option("--field", help="Column of the input in --in; of two texts, given twice."),
]
Resume = Annotated[bool, Option("--resume", help="Continue an --out that was not finished.")]
TOGETHER = 256
"""Rows that are predicted together."""


@dataclass(frozen=True)
class Files:
    """The files of --in and --out, and the options beside them."""

    inp: Path
    out: Path
    fields: tuple[str, ...]
    resume: bool
    force: bool

    @classmethod
    def check(
        cls,
        inp: Path | None,
        out: Path | None,
        fields: Sequence[str] | None,
        resume: bool,
        force: bool,
        vectors: bool = False,
    ) -> "Files | None":
        """The files; None without --in and --out.

        `vectors`: whether --out may be .npy. ConfigError: one of the two without the other, other
        options without them, or a file that cannot be written.
        """
        if out is None:
            beside = {"in": inp, "field": fields, "resume": resume, "force": force}
            for name, given in beside.items():
                if given:
                    raise ConfigError(f"--{name} needs --out, the file to write; add it.")
            return None
        from glassformer.data.table_output import FORMS

        forms = [suffix for suffix in FORMS if suffix != ".npy" or vectors]
        if vectors and out.suffix == ".txt":
            raise ConfigError(f"--out {out} cannot hold vectors; write .npy or .jsonl.")
        check_output("--out", out, forms, force or resume)
        if inp is None:
            raise ConfigError("--out needs --in, the file to read; add it.")
        if inp.exists() and out.exists() and inp.samefile(out):
            raise ConfigError(f"--out {out} is the file that --in reads; name another.")
        return cls(inp, out, tuple(fields or ()), resume, force)

    def table(
        self, task: "Task", settings: Sequence[str], learned: "DataConfig | None" = None
    ) -> "InputTable":
        """The file of --in as a table with the inputs of these settings; `learned`: how the data
        of the run were read, or None: of its recipe."""
        from glassformer.data.formats.delimited import default_of
        from glassformer.data.formats.records import RECORDS
        from glassformer.data.sources import Source, resolve
        from glassformer.data.tables import input_table

        learned = learned or task.recipe.data
        config = learned.model_copy(update={"format": "auto", "root": None})
        sources = resolve(str(self.inp), config)
        if len(sources) != 1:
            raise ConfigError(f"--in {self.inp} is {len(sources)} files; give one.")
        if self.fields and len(self.fields) != len(settings):
            raise ConfigError(
                f"--field names {len(self.fields)} columns, and {task.folder} reads "
                f"{len(settings)}; give as many."
            )
        given = learned.train.path or ""
        before = Source(given if isinstance(given, str) else given[0], config=learned).kind
        kind = sources[0].kind
        if kind != before and not {kind, before} <= {*RECORDS}:  # whose columns have other names
            words = ("word_field", "tag_field")
            config = config.model_copy(update={name: default_of(name) for name in words})
        return input_table(replace(sources[0], config=config), tuple(settings), self.fields)


def predict_file(predictor: "Predictor[Any]", options: "Options", files: Files) -> None:
    """Write the rows of a file with their predictions.

    All inputs are read once before the first prediction, and a bad one is reported then. A
    file that is continued has the first rows already.
    """
    from glassformer.data.table_output import Output, new_column

    table, total = files.table(predictor.task, predictor.input_columns, predictor.data), 0
    folder, within = os.path.dirname(table.source.file), predictor.processor.within

    def read(row: "Row") -> Any:
        return within(predictor.from_values(row.values, row.where), folder)

    skipped = list[DataError]()
    own, whole = dict.fromkeys(table.columns()), files.out.suffix != ".parquet"
    for row in table.rows(whole):
        read(row)
        own |= dict.fromkeys(row.content)
        total += 1
    new = {name: new_column(name, own) for name in predictor.columns(options)}
    output = Output(files.out, table, own, tuple(new.values()))
    output.check(files.resume)
    before = output.whole_rows(total) if files.resume else 0
    pace = Pace("rows", total - before)

    def predict_rows() -> "Iterator[Row]":
        rest = islice(table.rows(whole), before, None)
        while chunk := list(islice(rest, TOGETHER)):
            given = [(read(row), row.where) for row in chunk]
            for row, found in zip(chunk, predictions(predictor, options, given), strict=True):
                line, values = "", dict[str, Any].fromkeys(new)
                if isinstance(found, DataError):
                    skipped.append(found)
                elif files.out.suffix == ".npy":
                    values = dict.fromkeys(new, found.value)
                else:
                    line, values = one_line(found.cell()), found.columns()
                columns = {name: values[own] for own, name in new.items()}
                yield replace(row, content=row.content | columns, line=line)
            pace.add(len(chunk))

    output.write(predict_rows(), before)
    resumed = f" ({before:,} of them by an earlier process)" if before else ""
    sys.stderr.write(f"{files.out}: {total:,} rows{resumed}\n")
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
