"""Files of rows in, the same with predictions out: for the commands with --in and --out."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.lines import Pace
from glassformer.cli.outputs import check_output
from glassformer.core.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.data.table_output import Predicted
    from glassformer.data.tables import InputTable, Row
    from glassformer.run import Run

    Predict = Callable[[Sequence[Any]], Predicted]

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
    def checked(
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
        for name, given in (("in", inp), ("field", fields), ("resume", resume), ("force", force)):
            if given and out is None:
                raise ConfigError(f"--{name} needs --out, the file to write; add it.")
        if out is None:
            return None
        from glassformer.data.table_output import FORMS

        forms = [suffix for suffix in FORMS if suffix != ".npy" or vectors]
        check_output("--out", out, forms, force or resume)
        if inp is None:
            raise ConfigError("--out needs --in, the file to read; add it.")
        if inp.exists() and out.exists() and inp.samefile(out):
            raise ConfigError(f"--out {out} is the file that --in reads; name another.")
        return cls(inp, out, tuple(fields or ()), resume, force)

    def table(self, run: "Run", settings: Sequence[str]) -> "InputTable":
        """The file of --in as a table with the inputs of these settings."""
        from glassformer.data.formats.delimited import default_of
        from glassformer.data.formats.records import RECORDS
        from glassformer.data.sources import Source, resolve
        from glassformer.data.tables import input_table

        learned = run.task.recipe.data
        config = learned.model_copy(update={"format": "auto", "root": None})
        sources = resolve(str(self.inp), config)
        if len(sources) != 1:
            raise ConfigError(f"--in {self.inp} is {len(sources)} files; give one.")
        if self.fields and len(self.fields) != len(settings):
            raise ConfigError(
                f"--field names {len(self.fields)} columns, and {run.folder} reads "
                f"{len(settings)}; give as many."
            )
        given = learned.train.path or ""
        before = Source(given if isinstance(given, str) else given[0], config=learned).kind
        kind = sources[0].kind
        if kind != before and not {kind, before} <= {*RECORDS}:  # whose columns have other names
            words = ("word_field", "tag_field")
            config = config.model_copy(update={name: default_of(name) for name in words})
        return input_table(replace(sources[0], config=config), tuple(settings), self.fields)


def predict_file(
    table: "InputTable",
    files: Files,
    read: Callable[[Sequence[Any], str], Any],
    predict: "Predict",
) -> None:
    """Predict every row of a table, and write them to a file with their columns.

    `read` makes the input of a row's values; all rows are read once before the first prediction, so
    that a bad one is reported at once. A file that is continued has the first rows already.
    """
    from glassformer.data.table_output import Output, new_column

    first, own, total = predict([]), dict.fromkeys(table.columns()), 0
    whole = files.out.suffix != ".parquet"
    for row in table.rows(whole):
        read(row.values, row.where)
        own |= dict.fromkeys(row.content)
        total += 1
    new = tuple(new_column(name, own) for name in first.columns)
    output = Output(files.out, table, own, new)
    output.check(files.resume)
    before = output.whole_rows(total) if files.resume else 0
    pace = Pace("rows", total - before)

    def predict_rows() -> "Iterator[Row]":
        rest = islice(table.rows(whole), before, None)
        while chunk := list(islice(rest, TOGETHER)):
            found = predict([read(row.values, row.where) for row in chunk])
            columns = zip(*found.columns.values(), strict=True)
            for row, values, line in zip(
                chunk, columns, found.lines or [""] * len(chunk), strict=True
            ):
                content = row.content | dict(zip(new, values, strict=True))
                yield replace(row, content=content, line=line)
            pace.add(len(chunk))

    output.write(predict_rows(), before)
    resumed = f" ({before:,} of them by an earlier process)" if before else ""
    sys.stderr.write(f"{files.out}: {total:,} rows{resumed}\n")
