"""Constant data of the pages: style sheet, shades, styles of tags."""

from pathlib import Path


def read_file(name: str) -> str:
    """The text of a file of this folder."""
    return (Path(__file__).parent / name).read_text("utf-8")


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of a file of tab-separated values by the names of its first line."""
    head, *rows = (line.split("\t") for line in read_file(name).splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]
