"""All rows of the notes: equations 1 to 19, the readings on which they disagree, and the numbers
they print."""

from collections.abc import Iterator

from glassformer.verify.row import Row
from glassformer.verify.rows_attention import attention_rows
from glassformer.verify.rows_golden import golden_rows
from glassformer.verify.rows_readings import reading_rows
from glassformer.verify.rows_stream import stream_rows
from glassformer.verify.rows_task import task_rows


def notes_rows() -> Iterator[Row]:
    """Every equation, reading and printed number of the notes, production in float64 against the
    reference."""
    yield from attention_rows()
    yield from stream_rows()
    yield from task_rows()
    yield from reading_rows()
    yield from golden_rows()
