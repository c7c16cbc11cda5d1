"""Files of rows in, the same with predictions out: for the commands with --in and --out."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from glassformer.cli.files import TOGETHER, Files
from glassformer.cli.lines import Pace

if TYPE_CHECKING:
    from glassformer.data.table_output import Predicted
    from glassformer.data.tables import InputTable

    Predict = Callable[[Sequence[Any]], Predicted]


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
    from glassformer.data.table_output import Output, PredictedRow, new_column

    first, own, total = predict([]), dict.fromkeys(table.columns()), 0
    whole = files.out.suffix != ".parquet"
    for row in table.rows(whole):
        read(row.values, row.where)
        own |= dict.fromkeys(row.content)
        total += 1
    new = tuple(new_column(name, own) for name in first.columns)
    output = Output(files.out, table, tuple(own), new)
    output.check(files.resume)
    before = output.whole_rows(total) if files.resume else 0
    pace = Pace("rows", total - before)

    def predict_rows() -> "Iterator[PredictedRow]":
        rest = islice(table.rows(whole), before, None)
        while chunk := list(islice(rest, TOGETHER)):
            found = predict([read(row.values, row.where) for row in chunk])
            columns = zip(*found.columns.values(), strict=True)
            for row, values, line in zip(
                chunk, columns, found.lines or [""] * len(chunk), strict=True
            ):
                yield PredictedRow(row, dict(zip(new, values, strict=True)), line)
            pace.add(len(chunk))

    output.write(predict_rows(), before)
    resumed = f" ({before:,} of them by an earlier process)" if before else ""
    sys.stderr.write(f"{files.out}: {total:,} rows{resumed}\n")
