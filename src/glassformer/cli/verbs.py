"""Verbs of the commands that predict, and the flags that several of them have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.options import AtStep, Compile, Device, Force, Json, Quantize, RunFolder

READ = "Read this file: .txt, .jsonl, .csv, .tsv, .parquet; tag also .conllu, .conll."
FILES = "Images or audio files, also in archives: a.zip/b.png."


@dataclass(frozen=True)
class Shared:
    """Flags of the commands of several verbs: inputs, files, how the run is opened."""

    run: RunFolder
    names: Annotated[list[str] | None, Argument(help=FILES, metavar="FILE")] = None
    text: Annotated[
        list[str] | None, Option("--text", help="Text with blanks; may be repeated.")
    ] = None
    prompt: Annotated[
        list[str] | None,
        Option(
            help="Text to continue; default: standard input, or an empty line; may be repeated."
        ),
    ] = None
    image: Annotated[str | None, Option(help="Image that the prompts are about.")] = None
    audio: Annotated[str | None, Option(help="Audio file that the prompts are about.")] = None
    system: Annotated[str | None, Option(help="System message.")] = None
    stream: Annotated[
        bool, Option("--stream", help="Print text as it is generated (the default on a terminal).")
    ] = False
    inp: Annotated[Path | None, Option("--in", help=READ)] = None
    out: Annotated[
        Path | None, Option("--out", help="Write its rows with the predictions to this file.")
    ] = None
    field: Annotated[
        list[str] | None,
        Option("--field", help="Column of the input in --in; of two texts, given twice."),
    ] = None
    resume: Annotated[bool, Option("--resume", help="Continue an --out that was not finished.")] = (
        False
    )
    force: Force = False
    batch_size: Annotated[
        int | None, Option("--batch-size", min=1, help="Inputs computed together.")
    ] = None
    show_attention: Annotated[
        Path | None,
        Option(help="Draw the first line's cross-attention in this .html or .png file."),
    ] = None
    checkpoint: AtStep = None
    quantize: Quantize = None
    compile: Compile = False
    device: Device = "cpu"
    json: Json = False


ALL = ("run", "inp", "out", "field", "resume", "force", "checkpoint", "quantize", "device", "json")


@dataclass(frozen=True)
class Verb:
    """Help of a command, and which flags beside those of all it has."""

    help: str
    shared: tuple[str, ...] = ()
    whole: str = ""
    """Suffix of an --out that holds the values of lines or prompts."""


VERBS = {
    "generate": Verb(
        "Continue a prompt; answer it about an --image or --audio.",
        ("prompt", "image", "audio", "stream", "compile"),
    ),
    "chat": Verb(
        """Talk with a model that was trained on messages.

        On a terminal, Ctrl-C stops an answer; /reset begins again, /system TEXT changes the system
        message, /quit ends. From a pipe, each line is a message and each answer a line.
        """,
        ("prompt", "system", "compile"),
    ),
    "translate": Verb(
        "Translate each line of standard input, by any text-to-text model; empty lines stay empty.",
        ("show_attention", "batch_size", "compile"),
    ),
    "score": Verb("Print log p of each token of a text, or of --targets.", ("prompt",)),
    "choose": Verb("Print the likeliest label of each text, by examples.", ("prompt",)),
    "draw": Verb("Draw what a text says, into --out FILE.png.", ("prompt",), ".png"),
    "fill": Verb(
        "Print the likeliest words for each blank of --text, of lines of standard input, or of the "
        "rows of --in. A blank is ___, [MASK], <mask>, or the model's own mask symbol; several "
        "blanks of a text are filled independently.",
        ("text",),
    ),
    "embed": Verb("Embed lines of standard input, or rows of --in.", whole=".npy"),
    "classify": Verb(
        """Print the class of each line or file, or write those of the rows of --in, in order.

        A line of standard input is a text; two texts and a TAB for a model of pairs; the name of a
        file for a model of images or audio; a JSON list of parts for a multimodal model, [{"image":
        "a.png"}, {"text": "What is it?"}].
        """,
        ("names", "batch_size"),
    ),
    "tag": Verb(
        "Tag the words of each line of standard input, or of each row of --in. Words are separated "
        "by spaces; a line may have any length."
    ),
}
"""The commands that predict."""
