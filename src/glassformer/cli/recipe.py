"""`glassformer recipe`, `plan`, `data show` and `tokenize`: fields, what a training would cost, and
texts and rows as a model reads them."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from glassformer.cli.options import (
    Count,
    Figures,
    Force,
    Index,
    Json,
    OptionalCount,
    Overrides,
    check_output,
    refuse,
)
from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.core.errors import ConfigError


def recipe_of(where: str, overrides: list[str] | None) -> Any:
    """Return the recipe of a name, a YAML file or a run folder."""
    from glassformer.recipe.named import is_name
    from glassformer.recipe.reading import read_recipe

    if not is_name(where) and Path(where).is_dir():
        where = str(Path(where) / "recipe.yaml")
    return read_recipe(where, overrides or [])


def recipe_show(
    where: Annotated[str, Argument(help="A recipe, or a run folder.", metavar="RECIPE|RUN")],
    overrides: Overrides = None,
    json: Json = False,
) -> None:
    """Print a recipe with every default filled in."""
    from glassformer.recipe.init_from import with_init_from

    recipe = recipe_of(where, overrides)
    if not Path(where).is_dir():  # a run's own recipe has taken it over
        recipe = with_init_from(recipe)
    if json:
        print_json(recipe.values())
    else:
        print(recipe.yaml(), end="")


def recipe_list(json: Json = False) -> None:
    """Print the names of the recipes that come with the package."""
    from glassformer.recipe.named import about, recipe_names

    for name in recipe_names():
        if json:
            print_json({"recipe": name, "about": about(name)})
        else:
            print(f"{name:18} {about(name)}")


def recipe_copy(
    recipe: Annotated[str, Argument(help="A name of `recipe list`.", metavar="RECIPE")],
    file: Annotated[Path, Argument(help="The new YAML file.", metavar="FILE")],
    force: Force = False,
) -> None:
    """Copy a recipe into a file of your own, to change it."""
    from glassformer.core.files import write_text
    from glassformer.recipe.named import recipe_file

    source = recipe_file(recipe)
    check_output("FILE", file, (".yaml", ".yml"), force)
    write_text(file, source.read_text(encoding="utf-8"))
    print(f"next: glassformer train {file}")


def recipe_fields(
    section: Annotated[
        str | None, Argument(help="A section, such as train or train.optimizer; default: all.")
    ] = None,
    task: str | None = None,
    json: Json = False,
) -> None:
    """Print every field of a recipe with its default and meaning.

    task: Only the fields that most recipes of this task set.
    """
    from glassformer.recipe.fields import field_rows, show, task_rows

    if section is not None:
        refuse({"task": task}, f"Only the section {section} is printed")
    for row in field_rows(section) if task is None else task_rows(task):
        if json:
            print_json({**vars(row), "default": show(row.default)})
        else:
            print(f"{row.path:36} {show(row.default):14} {row.description}")


def plan(
    recipe: Annotated[str, Argument(help="A recipe.", metavar="RECIPE")],
    overrides: Overrides = None,
    target: str | None = None,
    nodes: OptionalCount = None,
    gpus_per_node: OptionalCount = None,
    hardware: Figures = None,
    json: Json = False,
) -> None:
    """Estimate size, memory and time before training. Parameters by matrix, operations,
    memory, time and disk on this machine.

    target: Also tell whether the model can be exported: transformers, onnx, gguf or
    ctranslate2.
    nodes: Plan for so many machines instead, by stated figures, without measuring.
    gpus_per_node: GPUs of each machine (8).
    """
    own, export = recipe_of(recipe, overrides), None
    if nodes is not None:
        refuse({"target": target}, "--nodes plans a training")
        made = _cluster(own, nodes, gpus_per_node or 8, hardware or [])
    else:
        others = {"gpus_per_node": gpus_per_node, "hardware": hardware}
        refuse(others, "Without --nodes, this machine is measured")
        from glassformer.training.plan.plan import make_plan, plan_without_data

        made = (make_plan if own.data.train.path else plan_without_data)(own)
    if target is not None:
        from glassformer.recipe.init_from import with_init_from
        from glassformer.run.export import plan_export

        export = plan_export(with_init_from(own), target)
    if json:
        print_json(made.as_json() | ({} if export is None else {"export": asdict(export)}))
        return
    print(made.as_text())
    if export is not None and export.differences:
        print(f"no export to {target}; the nearest class, {export.name}, differs in:")
        print("\n".join(f"  {one}" for one in export.differences))
    elif export is not None:
        print(f"exports to {target} as {export.name}")


def _cluster(recipe: Any, nodes: int, gpus_per_node: int, figures: list[str]) -> Any:
    from glassformer.training.plan.cluster import Hardware, plan_cluster

    pairs = (figure.partition("=") for figure in figures)
    hardware = Hardware.parse({name: value for name, _, value in pairs})
    return plan_cluster(recipe, nodes, gpus_per_node, hardware)


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
