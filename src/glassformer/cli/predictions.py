"""Files of rows in, the same with predictions out: for the commands with --in and --out."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.lines import Pace
from glassformer.cli.outputs import check_output
from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.data.table_output import Predicted
    from glassformer.data.tables import InputTable
    from glassformer.run import Run

    Predict = Callable[[Sequence[Any]], Predicted]

In = Annotated[
    Path | None,
    Option("--in", help="Read this file: .txt, .jsonl, .csv, .tsv, .parquet, .conllu, .conll."),
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
    def checked(
        cls,
        inp: Path | None,
        out: Path | None,
        fields: Sequence[str] | None,
        resume: bool,
        force: bool,
        more: Sequence[str] = (),
    ) -> "Files | None":
        """The files; None without --in and --out.

        `more`: suffixes that --out may have beside those of rows. ConfigError: one of the two
        alone, other options without them, or a file that cannot be written.
        """
        for name, given in (("in", inp), ("field", fields), ("resume", resume), ("force", force)):
            if given and out is None:
                raise ConfigError(f"--{name} needs --out, the file to write; add it.")
        if out is None:
            return None
        from glassformer.data.table_output import SUFFIXES

        check_output("--out", out, (*SUFFIXES, *more), force)
        if inp is None:
            raise ConfigError("--out needs --in, the file to read; add it.")
        if inp.exists() and out.exists() and inp.samefile(out):
            raise ConfigError(f"--out {out} is the file that --in reads; name another.")
        return cls(inp, out, tuple(fields or ()), resume, force)

    def table(self, run: "Run", settings: Sequence[str]) -> "InputTable":
        """The file of --in as a table with the inputs of these settings."""
        from glassformer.data.formats.column_lines import is_column
        from glassformer.data.formats.delimited import default_of
        from glassformer.data.sources import Source, resolve
        from glassformer.data.tables import InputTable

        config = run.task.recipe.data.model_copy(update={"format": "auto", "root": None})
        sources = resolve(str(self.inp))
        if len(sources) != 1:
            raise ConfigError(f"--in {self.inp} is {len(sources)} files; give one.")
        if self.fields and len(self.fields) != len(settings):
            raise ConfigError(
                f"--field names {len(self.fields)} columns, and {run.folder} reads "
                f"{len(settings)}; give as many."
            )
        kind = sources[0].format(config)
        columns = ("word_field", "tag_field")
        given = run.task.recipe.data.train.path or ""
        learned = Source(given if isinstance(given, str) else given[0])
        other = learned.format(run.task.recipe.data) != kind  # whose numbers are of other columns
        foreign = [
            name
            for name in columns
            if not is_column(field := getattr(config, name), kind)
            or (other and str(field).isdecimal())
        ]
        config = config.model_copy(update={name: default_of(name) for name in foreign})
        return InputTable(sources[0], config, tuple(settings), self.fields).with_fields()


def predict_file(
    run: "Run",
    table: "InputTable",
    files: Files,
    options: Mapping[str, Any],
    read: Callable[[Sequence[Any], str], Any],
    predict: "Predict",
) -> None:
    """Predict every row of a table, and write them to a file with their columns.

    `read` makes the input of a row's values; all rows are read once before the first prediction, so
    that a bad one is reported at once. `options`: what predictions depend on beside the model.
    """
    from glassformer.data.table_output import PredictedRows, PredictionLog, columns_of, writer_of
    from glassformer.data.tables import chunks
    from glassformer.files import replacing
    from glassformer.manifest import digest

    write, first = writer_of(files.out, table), predict([])
    columns, total = columns_of(table, first, files.out), 0
    for row in table.rows():
        read(row.values, row.where)
        total += 1
    file = Path(table.source.file)
    about = {
        "input": {"bytes": file.stat().st_size, "sha256": digest(file)},
        "model": run.fingerprint,
        "options": {**options, "fields": list(table.fields), "form": files.out.suffix},
    }
    log = PredictionLog(files.out, about, files.resume, files.force)
    before, pace = log.rows, Pace("rows", total - log.rows)
    try:
        for chunk in chunks(islice(table.rows(), before, None), TOGETHER):
            log.add(predict([read(row.values, row.where) for row in chunk]))
            pace.add(len(chunk))
        if log.rows != total:
            raise DataError(f"{file} changed while it was read; give a file that stays as it is")
        with replacing(files.out) as temporary:
            write(PredictedRows(table, log, columns, first.per_word), temporary)
    except Exception:
        if not log.rows:
            log.remove()
        raise
    log.remove()
    resumed = f" ({before:,} of them by an earlier process)" if before else ""
    sys.stderr.write(f"{files.out}: {total:,} rows{resumed}\n")
