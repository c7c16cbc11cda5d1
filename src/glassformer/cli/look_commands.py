"""The commands that look at data and models, behind those that train and use them in `--help`."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.commands import Device, Json, Overrides, RunFolder, app

data_app = typer.Typer(help="Look at training data.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
recipe_app = typer.Typer(help="Look at recipes.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(recipe_app, name="recipe")


@app.command()
def embed(
    run: Annotated[Path | None, typer.Argument(help="A run folder.", metavar="RUN")] = None,
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="mean (the default), first, or last, the one for a decoder."),
    ] = None,
    no_normalize: Annotated[
        bool, typer.Option("--no-normalize", help="Leave vectors as long as they are.")
    ] = False,
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer", help="After this layer, 0: the static embedding; default: after the last."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the vectors to this .npy file instead.")
    ] = None,
    near: Annotated[
        Path | None,
        typer.Option(
            "--near", help="Find what is nearest among these lines, or in what embed wrote."
        ),
    ] = None,
    analogy: Annotated[
        bool, typer.Option("--analogy", help="Lines are such as: king - man + woman.")
    ] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors", help="Of --analogy: words with vectors, in place of a RUN's own."
        ),
    ] = None,
    word: Annotated[
        str | None,
        typer.Option("--word", help="Compare this word's vectors in all lines, layer by layer."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Of --word: also draw it, as .html.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Print so many, default 10.", min=1)
    ] = None,
    device: Device = "cpu",
    json_output: Json = False,
) -> None:
    """Turn each line of standard input into a vector; or find what is near, do analogies, see a
    word in contexts."""
    from glassformer.cli.embed import Wanted
    from glassformer.cli.embed import embed as call

    wanted = Wanted(
        pool, no_normalize, layer, out, near, analogy, vectors, word, html, top_k, json_output
    )
    call(run, wanted, device)


@app.command()
def tokenize(
    where: Annotated[
        str,
        typer.Argument(help="A run, a tokenizer.json or a recipe.", metavar="RUN|TOKENIZER|RECIPE"),
    ],
    overrides: Overrides = None,
    text: Annotated[
        str | None,
        typer.Option("--text", help="The text; default: standard input, or the recipe's."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Tokens per byte, unknowns, frequent pieces.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Show how a text is cut into tokens."""
    from glassformer.cli.show import tokenize as call

    call(where, overrides or [], text, report, json_output)


@data_app.command("show")
def data_show(
    recipe: Annotated[str, typer.Argument(help="A recipe or a run folder.", metavar="RECIPE|RUN")],
    overrides: Overrides = None,
    rows: Annotated[int, typer.Option("--rows", help="How many rows.", min=1)] = 2,
    step: Annotated[int, typer.Option("--step", help="Of which training step.", min=0)] = 0,
    width: Annotated[
        int, typer.Option("--width", help="How many elements of each row.", min=1)
    ] = 24,
    html: Annotated[
        Path | None, typer.Option("--html", help="Draw them on this page instead.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show rows exactly as they are fed: ids, positions, mask, shifted targets, which tokens bear
    loss.

    Of pictures and recordings: their patches, in the order in which they enter, after all that
    changes them.
    """
    from glassformer.cli.show import data_show as call

    call(recipe, overrides or [], rows, step, width, html, json_output)


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="A recipe.", metavar="RECIPE")],
    overrides: Overrides = None,
    json_output: Json = False,
) -> None:
    """Parameters by matrix, operations, memory, time and disk on this machine, before training."""
    from glassformer.cli.show import plan as call

    call(recipe, overrides or [], json_output)


@app.command()
def verify(
    run: Annotated[
        Path | None, typer.Argument(help="Check this run's own weights.", metavar="RUN")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="The text to run through it.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a readable page.")] = None,
    json_output: Json = False,
) -> None:
    """Hold every equation of the notes against an independent float64 computation."""
    from glassformer.cli.show import verify as call

    call(run, text, html, json_output)


@app.command()
def inspect(
    run: RunFolder,
    port: Annotated[
        int | None, typer.Option("--port", help="Default: the first free one from 8420.", min=0)
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address at which it listens.")
    ] = "127.0.0.1",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    device: Device = "cpu",
) -> None:
    """See and touch a model from inside, in the browser: its attention, its stream, its choices;
    Ctrl-C ends it."""
    from glassformer.cli.inspect import inspect as call

    call(run, port, host, not no_browser, device)


@recipe_app.command("show")
def recipe_show(
    where: Annotated[str, typer.Argument(help="A recipe, or a run folder.", metavar="RECIPE|RUN")],
    overrides: Overrides = None,
    json_output: Json = False,
) -> None:
    """Print a recipe with every default filled in."""
    from glassformer.cli.recipe import show as call

    call(where, overrides or [], json_output)


@recipe_app.command("fields")
def recipe_fields(
    section: Annotated[
        str | None,
        typer.Argument(help="A section, such as train or train.optimizer; default: all."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only the fields that most recipes of this task set.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print docs/recipe.md, all sections.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Print every field of a recipe with its default and meaning."""
    from glassformer.cli.recipe import fields as call

    call(section, task, markdown, json_output)
