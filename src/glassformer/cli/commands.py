"""The commands that train and use models, in the order of `--help`, and their arguments.

Heavy imports stand inside the commands, so that `--help` answers at once.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="glassformer",
    help="The whole Transformer as one tool: train it, run it, and see inside it.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: name.replace(
            "_", "-"
        ),  # --max_new_tokens is --max-new-tokens
    },
)
RunFolder = Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes such as train.steps=500.", metavar="KEY=VALUE")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, mps.")]


@app.command()
def demo(
    name: Annotated[
        str, typer.Argument(help="Which demo: lm, translate, tag, classify, vision, vqa, audio.")
    ] = "lm",
    run: Annotated[
        Path | None, typer.Option("--run", help="Run folder; default runs/demo-NAME.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Fewer or more steps.", min=1)
    ] = None,
    json_output: Json = False,
) -> None:
    """Train a small model on data that every machine has, and show what it learned (minutes)."""
    from glassformer.cli.demo import demo as call

    call(name, run, steps, json_output)


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A YAML recipe; see recipes/.", metavar="RECIPE")
    ] = None,
    overrides: Overrides = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of the run; default runs/NAME of the recipe."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on at the newest checkpoint.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Train a model by a recipe."""
    from glassformer.cli.train import train as call

    call(recipe, overrides or [], run, resume, json_output)


@app.command()
def evaluate(
    run: RunFolder,
    data: Annotated[
        str | None, typer.Option("--data", help="Another text, all of it (file, folder, glob, -).")
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="Of its own data: train, validation, test.")
    ] = "validation",
    targets: Annotated[
        str | None, typer.Option("--targets", help="The targets of --data's sources, line by line.")
    ] = None,
    beams: Annotated[
        int | None,
        typer.Option("--beams", help="How an encoder-decoder's output is searched for.", min=1),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Score a model on a whole split.

    Loss, perplexity and bits per byte of text; BLEU, chrF and exact match of what it writes;
    accuracy and F1 of classes and tags, one by one.
    """
    from glassformer.cli.use import evaluate as call

    call(run, data, targets, split, beams, device, json_output)


@app.command()
def generate(
    run: RunFolder,
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", help="What to go on from; may be repeated.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="A picture that the prompts are about.")
    ] = None,
    audio: Annotated[
        str | None, typer.Option("--audio", help="A recording that the prompts are about.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="At most this many.", min=1)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="0: always the likeliest token.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Only the K likeliest tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Only the likeliest that reach P.")
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option("--min-p", help="Only those at least P times as likely as the likeliest."),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option("--repetition-penalty", help="Above 1: less of what was there.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same text.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="End before this text; may be repeated.")
    ] = None,
    window: Annotated[
        bool,
        typer.Option("--window", help="Go on from the last part of a prompt that is too long."),
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print text as it comes (as on a terminal).")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Score the prompt's tokens instead.")
    ] = False,
    to_image: Annotated[
        Path | None,
        typer.Option("--to-image", help="Draw what the prompt says into this .png file."),
    ] = None,
    device: Device = "cpu",
    json_output: Json = False,
) -> None:
    """Write on from a prompt; without --prompt, from standard input if it is piped, else from a new
    line.

    With --image or --audio, write what a model of sequences of parts answers to them and the
    prompt.
    """
    from glassformer.cli.paint import paint
    from glassformer.cli.use import generate as call

    options = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": stop,
        "overflow": "window" if window else None,
    }
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    files = {kind: file for kind, file in (("image", image), ("audio", audio)) if file is not None}
    if to_image is not None:
        unused = {
            **files,
            **{name: True for name, used in (("stream", stream), ("score", score)) if used},
        }
        paint(run, prompt or [], to_image, unused, given, device, json_output)
        return
    call(run, prompt, files, given, stream, score, device, json_output)


@app.command()
def translate(
    run: RunFolder,
    beams: Annotated[
        int | None, typer.Option("--beams", help="Hypotheses kept; 1: greedy.", min=1)
    ] = None,
    n_best: Annotated[
        int | None, typer.Option("--n-best", help="Print the N best of each line.", min=1)
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="α in the score Σ log p / lengthᵅ.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="At most this many.", min=1)
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", help="Sample at this temperature instead of searching."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of sampling: same seed, same text.")
    ] = None,
    window: Annotated[
        bool,
        typer.Option("--window", help="Cut a line that is too long into pieces of whole words."),
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Put each line's score in front of it.")
    ] = False,
    alignments: Annotated[
        bool,
        typer.Option("--alignments", help="Put the word alignment behind each line, as 0-0 1-2."),
    ] = False,
    layer: Annotated[
        list[int] | None,
        typer.Option("--layer", help="Of --alignments: a decoder layer, from 0; may be repeated."),
    ] = None,
    head: Annotated[
        list[int] | None,
        typer.Option("--head", help="Of --alignments: a head, from 0; may be repeated."),
    ] = None,
    targets: Annotated[
        Path | None,
        typer.Option("--targets", help="Score the lines of this file instead of writing any."),
    ] = None,
    show_attention: Annotated[
        Path | None,
        typer.Option(
            "--show-attention", help="Draw the first line's cross-attention: .html or .png."
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Lines translated together.", min=1)
    ] = 32,
    device: Device = "cpu",
    json_output: Json = False,
) -> None:
    """Turn each line of standard input into what the model makes of it, in order; an empty line
    stays empty."""
    from glassformer.cli.translate import Wanted
    from glassformer.cli.translate import translate as call

    options = {
        "beams": beams,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "seed": seed,
        "overflow": "window" if window else None,
    }
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    wanted = Wanted(scores, alignments, json_output, layer, head)
    call(run, given, wanted, targets, show_attention, batch_size, device)


@app.command()
def tag(
    run: RunFolder,
    columns: Annotated[
        bool,
        typer.Option("--columns", help="A line for each word with its tag behind a TAB (CoNLL)."),
    ] = False,
    top_k: Annotated[
        int, typer.Option("--top-k", help="With --json: the K likeliest tags, or all.", min=1)
    ] = 1,
    punctuation: Annotated[
        bool,
        typer.Option("--punctuation", help="Raw text: punctuation marks are words of their own."),
    ] = False,
    device: Device = "cpu",
    json_output: Json = False,
) -> None:
    """Tag the words of each line of standard input, which stand apart by spaces; lines may be of
    any length."""
    from glassformer.cli.tag import tag as call

    call(run, columns, top_k, punctuation, device, json_output)


@app.command()
def classify(
    run: RunFolder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pictures or recordings, also in archives: a.zip/b.png.", metavar="FILE"
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Put each class's probability in front of it.")
    ] = False,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", help="The K likeliest classes, or all, as columns.", min=1),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Of any number of classes: those at least so probable; 0.5.",
            min=0,
            max=1,
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on where a file cannot be read, and count those.")
    ] = False,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Lines or files classified together.", min=1)
    ] = 256,
    device: Device = "cpu",
    json_output: Json = False,
) -> None:
    """Print the class of each line of standard input, or of each file, in order.

    Of a model of pairs, a line is two texts and a TAB; of one of pictures or recordings, the name
    of a file; of one of sequences of parts, a JSON list of them, [{"image": "a.png"}, {"text":
    "What is it?"}].
    """
    from glassformer.cli.classify import Wanted
    from glassformer.cli.classify import classify as call

    call(
        run,
        files or [],
        Wanted(scores, top_k, threshold, json_output, skip_bad),
        batch_size,
        device,
    )


def version(value: bool) -> bool:
    """Print the version and stop."""
    if value:
        from glassformer import __version__

        typer.echo(f"glassformer {__version__}")
        raise typer.Exit
    return value


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """The whole Transformer as one tool: train it, run it, and see inside it."""
