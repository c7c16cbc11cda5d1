"""The commands that look without training: tokens, rows of data, costs, equations."""

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.errors import ConfigError
from glassformer.tokenizers.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.verify import Row

READ = {"image.json": "patches of pictures", "audio.json": "patches of recordings"}
"""What a model reads that has this file in its folder."""


def tokenize(
    where: str, overrides: list[str], text: str | None, report: bool, as_json: bool
) -> None:
    """`glassformer tokenize`: the pieces of each line, or a report over the whole text."""
    from glassformer.tokenizers.report import report as make_report
    from glassformer.tokenizers.train import train_tokenizer

    recipe = _recipe_of(where, overrides) if where.endswith((".yaml", ".yml")) else None
    if recipe is None:
        _check_reads_text(where)
        tokenizer = Tokenizer.load(where)
    else:
        tokenizer = train_tokenizer(recipe.processor.tokenizer, _training_texts(recipe))
    if text is None and not (recipe and (sys.stdin is None or sys.stdin.isatty())):
        text = read_stdin()
    if (
        not text and recipe is not None
    ):  # no text was given: a report on the beginning of the recipe's own
        text, report = "\n".join(islice(_training_texts(recipe), 1000))[: 1 << 20], True
    text = text or ""
    if report:
        _print_report(make_report(tokenizer, text), as_json)
        return
    for line in re.findall("[^\n]*\n|[^\n]+", text):
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        if as_json:
            print_json({"text": line, "ids": ids, "pieces": pieces})
        else:
            print("|".join(pieces))
            print(" ".join(str(i) for i in ids))


def _check_reads_text(where: str) -> None:
    """Raise ConfigError for the folder of a model of patches alone, which has no tokenizer."""
    for file, read in READ.items():
        if (Path(where) / file).is_file() and not (Path(where) / "tokenizer.json").is_file():
            raise ConfigError(
                f"{where} reads {read}, not text; see them by `glassformer data show {where} "
                f"--html FILE`."
            )


def _training_texts(recipe: Any) -> Iterator[str]:
    """The texts that the recipe's tokenizer is made from; of two, that of the targets."""
    from glassformer.tasks.catalogue import kinds_of

    _, inputs = kinds_of(recipe)
    return inputs.training_texts(recipe.processor, recipe.data)


def _recipe_of(where: str, overrides: list[str]) -> Any:
    """The recipe of a YAML file or of a run folder; imported here because `tokenize RUN` needs
    nothing of training."""
    from glassformer.recipe.recipe import read_recipe

    path = Path(where)
    return read_recipe(path / "recipe.yaml" if path.is_dir() else path, overrides)


def _print_report(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        if isinstance(value, list):
            pieces = "  ".join(
                f"'{row['piece']}' {row.get('count', row.get('bytes'))}" for row in value
            )
            print(f"{name.replace('_', ' '):16} {pieces}")
        else:
            print(
                f"{name.replace('_', ' '):16} "
                f"{f'{value:.4f}' if isinstance(value, float) else value}"
            )


def data_show(
    where: str,
    overrides: list[str],
    rows: int,
    step: int,
    width: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """`glassformer data show`: every line of a row is one element as the model is fed it; pictures
    are drawn."""
    from glassformer.files import write_text
    from glassformer.tasks.encoded_batch import batch_page, encoded_rows
    from glassformer.training.run_folder import temporary_task

    with temporary_task(_recipe_of(where, overrides)) as task:
        if html is not None:
            title = f"What the model of {Path(where).stem} reads"
            write_text(html, batch_page(task, rows, step, title))
            return
        for number, row in enumerate(encoded_rows(task, rows, step)):
            if as_json:
                print_json(row.as_json())
            else:
                print(row.as_text(number, width, on_terminal()))


def plan(where: str, overrides: list[str], as_json: bool) -> None:
    """`glassformer plan`."""
    from glassformer.training.plan import make_plan

    made = make_plan(_recipe_of(where, overrides))
    if as_json:
        print_json(made.as_json())
    else:
        print(made.as_text())


def verify(run: Path | None, text: str | None, html: Path | None, as_json: bool) -> None:
    """`glassformer verify`: exit code 1 if a row fails."""
    from glassformer import verify as checks
    from glassformer.files import write_text
    from glassformer.pages.verification import verification_html

    if run is None and text is not None:
        raise ConfigError(
            "--text needs a RUN whose model reads it; leave it out to check the equations alone."
        )
    if run is None:
        title, rows = "The equations of the notes", list(checks.notes_rows())
    else:
        title, rows = f"The equations of the notes on {run.name}", _rows_of_run(run, text)
    if html is not None:
        write_text(html, verification_html(checks.as_json(rows), checks.summary(rows), title))
    if as_json:
        print_json(checks.as_json(rows))
    else:
        print(checks.table(rows))
    if not all(row.passed for row in rows):
        sys.exit(1)


def _rows_of_run(run: Path, text: str | None) -> "list[Row]":
    from glassformer import verify as checks
    from glassformer.run import load

    opened = load(run)
    if text is not None and (medium := opened.task.processor.medium):
        raise ConfigError(
            f"{run} reads one {medium} and no text, got --text {text!r}; leave it out to check an "
            f"{medium} input that the run keeps."
        )
    batch = opened.task.batch_to_check(opened.model, text)
    return list(checks.model_rows(opened.model, batch))
