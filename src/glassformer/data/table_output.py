"""Rows with their predictions as a file: written in parts, which a later process continues.

    .tmp-NAME/about.json             what is read and by what: compared before work goes on
    .tmp-NAME/000000000-000001024    the rows from one number to another, as the file has them
    NAME                             all parts, joined when the last is there

A part is whole or absent.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.sources import FORMATS
from glassformer.data.table_forms import FORMS, Form, Predicted
from glassformer.data.tables import COLUMN_FILES, InputTable, Row
from glassformer.errors import ConfigError
from glassformer.files import read_json, replacing, write_json, writing

PART_ROWS, PART_BYTES = 1024, 1 << 25
"""A part ends with the chunk of rows that reaches one of them."""
ABOUT = "about.json"
PART = re.compile(r"(\d{9,})-(\d{9,})")
ARRAY, LINES = ".npy", ".txt"
SUFFIXES = (LINES, *FORMATS)
"""Suffixes of files with rows."""


def form_of(out: Path, table: InputTable) -> Form:
    """The form of an output file by its name. ConfigError: it cannot hold the rows."""
    kind = table.kind
    suffix = out.suffix.lower()
    form = "npy" if suffix == ARRAY else "text" if suffix == LINES else FORMATS[suffix]
    if form in ("text", *COLUMN_FILES) and form != kind:
        only = "lines" if form == "text" else form
        raise ConfigError(
            f"--out {out} would hold {only}, and --in has {kind}, whose columns would be lost; "
            "write .jsonl, .csv or .parquet"
        )
    return FORMS[form](table)


class TableOutput:
    """An output file that is being written; `rows` are there already.

    `about`: what the rows depend on. ConfigError: an unfinished file is there and `resume` is not
    set, or it was begun with another `about`.
    """

    def __init__(self, out: Path, form: Form, about: Mapping[str, Any], resume: bool, force: bool):
        self.out, self.folder, self.form = out, out.with_name(f".tmp-{out.name}"), form
        self.parts = self._whole_parts()
        if self.parts and not (resume or force):
            raise ConfigError(
                f"--out {out} was begun and not finished; add --resume to go on, or --force to "
                "begin anew."
            )
        if self.parts and resume:
            self._compare(about)
        else:
            with writing(out):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir()
            write_json(self.folder / ABOUT, dict(about))
            self.parts = []
        self.rows = self._held = self.parts[-1][1] if self.parts else 0

    def add(self, rows: Sequence[Row], predicted: Predicted) -> None:
        """Take the next rows with their predictions."""
        self.form.add(rows, predicted, first=self._held == 0)
        self._held += len(rows)
        if self._held - self.rows >= PART_ROWS or self.form.size >= PART_BYTES:
            self._end_part()

    def finish(self) -> None:
        """Join all parts to the file, and remove them."""
        if self.form.pieces:
            self._end_part()
        with replacing(self.out) as temporary:
            self.form.join([self._part(*part) for part in self.parts], temporary)
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        """Remove what was begun, if there is nothing to go on with."""
        if not self.parts:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_part(self) -> None:
        self.form.taken(self._part(self.rows, self._held))
        self.parts.append((self.rows, self._held))
        self.rows = self._held

    def _part(self, begin: int, end: int) -> Path:
        return self.folder / f"{begin:09}-{end:09}"

    def _whole_parts(self) -> list[tuple[int, int]]:
        """The parts that follow each other from the first row."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        names = (PART.fullmatch(file.name) for file in files)
        there = sorted((int(name[1]), int(name[2])) for name in names if name)
        whole: list[tuple[int, int]] = []
        for begin, end in there:
            if begin == (whole[-1][1] if whole else 0):
                whole.append((begin, end))
        return whole

    def _compare(self, about: Mapping[str, Any]) -> None:
        try:
            begun = read_json(self.folder / ABOUT)
        except (OSError, ValueError):
            begun = None
        begun = begun if isinstance(begun, dict) else {}
        for name, value in about.items():
            if begun.get(name) != value:
                raise ConfigError(
                    f"--out {self.out} was begun with another {name} ({begun.get(name)!r:.80}, now "
                    f"{value!r:.80}); leave out --resume and add --force to begin anew."
                )
