"""All rows of the notes: equations 1 to 19, the readings on which they disagree, and the numbers
they print."""

from collections.abc import Iterator

from glassformer.verify import (
    rows_attention,
    rows_golden,
    rows_readings,
    rows_stream,
    rows_task,
)
from glassformer.verify.row import Row


def notes_rows() -> Iterator[Row]:
    """Every equation, reading and printed number of the notes, production in float64 against the
    reference."""
    for part in (rows_attention, rows_stream, rows_task, rows_readings, rows_golden):
        for group in part.GROUPS:
            yield from group()
