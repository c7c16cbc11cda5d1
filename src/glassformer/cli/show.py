"""The commands that look without training: tokens, rows of data, costs, equations.

Knows: what is to be printed. Does not know: how it is found out.
"""

import json
import sys
from pathlib import Path
from typing import Any

from glassformer.cli.train import recipe_of
from glassformer.errors import ConfigError
from glassformer.tokens.text import Tokenizer


def tokenize(where: str, overrides: list[str], text: str | None, report: bool, as_json: bool) -> None:
    """`glassformer tokenize`: the pieces of each line, or a report over the whole text."""
    from glassformer.data.split import texts_for_tokenizer
    from glassformer.tokens.report import report as make_report
    from glassformer.tokens.train import train_tokenizer

    recipe = recipe_of(where, overrides) if where.endswith((".yaml", ".yml")) else None
    if recipe is None:
        tokenizer = Tokenizer.load(where)
    else:
        tokenizer = train_tokenizer(recipe.tokenizer, texts_for_tokenizer(recipe.data))
    if text is None and not (recipe and sys.stdin.isatty()):
        text = sys.stdin.read()
    if not text and recipe is not None:  # no text was given: a report on the beginning of the recipe's own
        text, report = next(iter(texts_for_tokenizer(recipe.data)))[: 1 << 20], True
    text = text or ""
    if report:
        _print_report(make_report(tokenizer, text), as_json)
        return
    for line in text.splitlines(keepends=True):
        ids = tokenizer.encode(line).tolist()
        pieces = [tokenizer.piece(i) for i in ids]
        if as_json:
            print(json.dumps({"text": line, "ids": ids, "pieces": pieces}, ensure_ascii=False))
        else:
            print("|".join(pieces))
            print(" ".join(str(i) for i in ids))


def _print_report(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(values, ensure_ascii=False))
        return
    for name, value in values.items():
        if isinstance(value, list):
            pieces = "  ".join(f"{row['piece']!r} {row.get('count', row.get('bytes'))}" for row in value)
            print(f"{name.replace('_', ' '):16} {pieces}")
        else:
            print(f"{name.replace('_', ' '):16} {f'{value:.4f}' if isinstance(value, float) else value}")


def data_show(where: str, overrides: list[str], rows: int, step: int, width: int, as_json: bool) -> None:
    """`glassformer data show`: every column of a row is one element as the model is fed it."""
    from glassformer.train.show import rows_as_fed

    for number, row in enumerate(rows_as_fed(recipe_of(where, overrides), rows, step)):
        if as_json:
            print(json.dumps(row.as_json(), ensure_ascii=False))
        else:
            print(row.as_text(number, width, sys.stdout.isatty()))


def plan(where: str, overrides: list[str], as_json: bool) -> None:
    """`glassformer plan`."""
    from glassformer.train.plan import make_plan

    made = make_plan(recipe_of(where, overrides))
    print(json.dumps(made.as_json()) if as_json else made.as_text())


def verify(run: Path | None, text: str | None, html: Path | None, as_json: bool) -> None:
    """`glassformer verify`: exit code 1 if a row fails."""
    from glassformer import verify as checks
    from glassformer.batch import Batch
    from glassformer.files import write_text

    if run is None and text is not None:
        raise ConfigError("--text needs a RUN whose model reads it; leave it out to check the equations alone.")
    if run is None:
        title, rows = "The equations of the notes", list(checks.notes_rows())
    else:
        title, rows = f"The equations of the notes on {run.name}", list(_model_rows(run, text, Batch))
    if html is not None:
        write_text(html, checks.page(rows, title))
    print(json.dumps(checks.as_json(rows)) if as_json else checks.table(rows))
    if not all(row.passed for row in rows):
        sys.exit(1)


def _model_rows(run: Path, text: str | None, batch_type: type) -> Any:
    import torch

    from glassformer import verify as checks
    from glassformer.run import load

    opened = load(run)
    context = opened.model.config.max_length
    if text is None:
        ids = opened.tokens("validation").tokens[: min(64, context)].tolist()
    else:
        ids = opened.tokenizer.encode(text).tolist()
    if not 2 <= len(ids) <= context:
        raise ConfigError(f"The text has {len(ids)} tokens; between 2 and the context of {context} are needed.")
    tokens = torch.tensor([ids])
    targets = torch.roll(tokens, -1, 1)
    return checks.model_rows(opened.model, batch_type(tokens, targets=targets))
