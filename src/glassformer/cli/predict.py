"""The commands that predict: inputs in, the prediction of each out, in order.

glassformer tag RUN < lines          a line for each, or JSON with --json
glassformer tag RUN --in FILE --out FILE      rows of a file with their predictions
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.chat import talk
from glassformer.cli.files import Field, Files, In, Out, Resume, predict_file, predictions
from glassformer.cli.lines import chunks, numbered
from glassformer.cli.options import (
    AboutAudio,
    AboutImage,
    AtStep,
    Compile,
    Device,
    Json,
    Prompts,
    Quantize,
    RunFolder,
    Streamed,
)
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.prompts import (
    Attention,
    answer_prompts,
    draw_file,
    score_targets,
)
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.run.run import Run
    from glassformer.tasks.predictors.predictor import Predictor


FILES = "Images or audio files, also in archives: a.zip/b.png."


@dataclass(frozen=True)
class Shared:
    """What commands of several verbs have: inputs, files, how the run is opened."""

    run: RunFolder
    names: Annotated[list[str] | None, Argument(help=FILES, metavar="FILE")] = None
    text: Annotated[list[str] | None, Option("--text", help="An input; may be repeated.")] = None
    prompt: Prompts = None
    image: AboutImage = None
    audio: AboutAudio = None
    system: Annotated[str | None, Option("--system", help="System message.")] = None
    stream: Streamed = False
    inp: In = None
    out: Out = None
    field: Field = None
    resume: Resume = False
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
    "draw": Verb("Draw what a text says, into --out FILE.png.", ("prompt",)),
    "tag": Verb(
        "Tag the words of each line of standard input, or of each row of --in. Words are separated "
        "by spaces; a line may have any length."
    ),
}
"""The commands that predict."""


def predict(verb: str, shared: Shared, own: dict[str, Any]) -> None:
    """Print the predictions of a run, or write them beside the rows of a file."""
    from glassformer.run import load
    from glassformer.tasks.options import OPTIONS, refuse

    options = OPTIONS[verb].parse({name: value for name, value in own.items() if value is not None})
    picture = shared.out if verb == "draw" and shared.inp is None else None
    check_output("--out", picture, (".png",), shared.force)
    check_output("--show-attention", shared.show_attention, (".html", ".png"), shared.force)
    out, force = None if picture else shared.out, shared.force and not shared.show_attention
    files = Files.checked(shared.inp, out, shared.field, shared.resume, force and not picture)
    if files:
        named = ("json", "prompt", "image", "audio", "stream", "show_attention")
        refuse({name: getattr(shared, name) for name in named})
    options.check("table" if files else "json" if shared.json else "line")
    opening = {"quantize": shared.quantize, "compile": shared.compile}
    run = load(shared.run, shared.device, shared.checkpoint, **opening)
    predictor = run.predictor(verb)  # another task is refused before a line is waited for
    if shared.batch_size is not None:
        predictor.resize(shared.batch_size)
    options = _drafted(run, options)
    predictor.check(options)
    if files:
        return predict_file(predictor, options, files)
    if verb == "chat":
        return talk(run, predictor, options, shared)
    if picture:
        return draw_file(predictor, options, shared, picture)
    if verb == "score" and predictor.lines:
        return score_targets(predictor, options, own["targets"], shared.json)
    if shared.prompt is not None or not predictor.lines:
        return answer_prompts(predictor, options, shared)
    attention = Attention(run, shared.show_attention)
    for number, lines in _groups(predictor, shared):
        given = [
            (predictor.from_values([line], f"{predictor.noun} {n}"), f"{predictor.noun} {n}")
            for n, line in enumerate(lines, number)
        ]
        found = predictions(predictor, options, given, number)
        for line, (one, _), prediction in zip(lines, given, found, strict=True):
            if shared.json:
                values = predictor.values(line if one is None else one)
                print_json({**values, **prediction.json()})
            else:
                print(prediction.line())
            attention.see(line, prediction.value)
    attention.check()


def _drafted(run: "Run", options: Any) -> Any:
    """Choices with what proposes tokens in place of the name of its run."""
    named, ahead = getattr(options, "draft", None), getattr(options, "draft_tokens", None)
    if named is None and ahead is None:
        return options
    from glassformer.run import load
    from glassformer.run.drafting import NGRAM, drafts_in

    if named == "":
        raise ConfigError("--draft is empty; give a run with the same tokenizer, or ngram.")
    device = next(run.model.parameters()).device.type
    draft = named if named in (None, NGRAM) else load(named, device)
    return options.model_copy(update={"draft": drafts_in(run, draft, ahead)})


def _groups(predictor: "Predictor[Any]", shared: Shared) -> Iterator[tuple[int, Sequence[str]]]:
    """Inputs that are computed together, each group with the number of its first."""
    size = predictor.together
    if named := shared.names or shared.text:
        return numbered(named[at : at + size] for at in range(0, len(named), size))
    return numbered(chunks(size))
