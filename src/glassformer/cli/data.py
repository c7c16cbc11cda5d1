"""`glassformer tokenize` and `glassformer data show`: texts and rows as a model reads them."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from glassformer.cli.options import Count, Index, Json, Overrides
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.recipe import recipe_of
from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.core.errors import ConfigError

READ = {"image.json": "patches of images", "audio.json": "patches of audio"}
"""What a model reads that has this file in its folder."""


def tokenize(
    where: Annotated[
        str, Argument(help="A run, a tokenizer.json or a recipe.", metavar="RUN|TOKENIZER|RECIPE")
    ],
    overrides: Overrides = None,
    text: str | None = None,
    report: bool = False,
    json: Json = False,
) -> None:
    """Show how a text is cut into tokens.

    text: The text; default: standard input, or the recipe's.
    report: Report tokens per byte, unknowns, frequent pieces.
    """
    from glassformer.recipe.init_from import with_init_from
    from glassformer.recipe.named import is_name
    from glassformer.tokenizers.report import report as make_report
    from glassformer.tokenizers.text import Tokenizer
    from glassformer.tokenizers.train import train_tokenizer

    named = where.endswith((".yaml", ".yml")) or is_name(where)
    recipe = recipe_of(where, overrides) if named else None
    if recipe is None and overrides:
        raise ConfigError(f"{overrides[0]} changes a recipe, and {where} is none; leave it out.")
    if recipe is None:
        _check_reads_text(where)
        tokenizer = Tokenizer.load(where)
    else:
        recipe = with_init_from(recipe)
        tokenizer = train_tokenizer(recipe.processor.tokenizer, _training_texts(recipe))
    if text is None:
        text = read_stdin(piped=recipe is not None)
    if not text and recipe is not None:  # a report on the beginning of the recipe's own texts
        text, report = "\n".join(islice(_training_texts(recipe), 1000))[: 1 << 20], True
    if report:
        _print_report(make_report(tokenizer, text), json)
        return
    for line in re.findall("[^\n]*\n|[^\n]+", text):
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        if json:
            print_json({"text": line, "ids": ids, "pieces": pieces})
        else:
            print("|".join(pieces), " ".join(map(str, ids)), sep="\n")


def _check_reads_text(where: str) -> None:
    """Raise ConfigError for a model that reads only patches: it has no tokenizer."""
    for file, read in READ.items():
        if (Path(where) / file).is_file() and not (Path(where) / "tokenizer.json").is_file():
            raise ConfigError(
                f"{where} reads {read}, not text; see them by `glassformer data show {where} "
                "--html FILE`."
            )


def _training_texts(recipe: Any) -> Iterator[str]:
    """The texts that the recipe's tokenizer is made from; of two, that of the targets."""
    from glassformer.data.usual_columns import with_usual_columns
    from glassformer.tasks.catalogue import kinds_of

    _, inputs = kinds_of(recipe)
    data, _ = with_usual_columns(recipe.data, inputs.columns)
    return inputs.training_texts(recipe.processor, data)


def _print_report(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        if isinstance(value, list):
            value = "  ".join(
                f"'{row['piece']}' {row.get('count', row.get('bytes'))}" for row in value
            )
        shown = f"{value:.4f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):16} {shown}")


def data_show(
    recipe: Annotated[str, Argument(help="A recipe or a run folder.", metavar="RECIPE|RUN")],
    overrides: Overrides = None,
    rows: Count = 2,
    step: Index = 0,
    width: Count = 24,
    html: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show rows as the model reads them. Ids, positions, mask, shifted targets, loss mask.

    Images and audio are shown as patches in their order, after augmentation.

    rows: Number of rows.
    step: Training step.
    width: Number of elements shown of each row.
    html: Write an HTML page with drawings to this file instead.
    """
    from glassformer.core.files import write_text
    from glassformer.run.encoded_batch import batch_page, encoded_rows
    from glassformer.training.loop.prepare import temporary_task

    check_output("--html", html, (".html",), force)
    with temporary_task(recipe_of(recipe, overrides)) as task:
        if html is not None:
            title = f"What the model of {Path(recipe).stem} reads"
            write_text(html, batch_page(task, rows, step, title))
            return
        for number, row in enumerate(encoded_rows(task, rows, step)):
            if json:
                print_json(row.as_json())
            else:
                print(row.as_text(number, width, on_terminal()))
