"""Inputs that are no lines: prompts, all of standard input, sources with targets; and pictures.

glassformer generate RUN --prompt TEXT           grows on a terminal, and with --stream
glassformer score RUN --targets FILE < sources
glassformer draw RUN --prompt TEXT --out a.png
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.files import predictions
from glassformer.cli.lines import chunks
from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.cli.predict import Shared
    from glassformer.run.run import Run
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Predictor

SIDE = 256
"""Pixels of the longer side of an enlarged image, about."""


def answer_prompts(predictor: "Predictor[Any]", options: "Options", shared: "Shared") -> None:
    """Print the predictions of all prompts, or of standard input as one."""
    files = {"image": shared.image, "audio": shared.audio}
    files = {kind: file for kind, file in files.items() if file is not None}
    if shared.stream:
        _check_stream(predictor, files, shared.prompt or ())
    prompts = shared.prompt
    if prompts is None:
        prompts = [read_stdin(piped=True) or predictor.first]
    if not predictor.continues:
        prompts = [prompt.strip() for prompt in prompts]
    given = [predictor.about(prompt, files) for prompt in prompts]
    watched = on_terminal() and not (shared.json or files) and predictor.continues
    if shared.stream or (watched and len(given) == 1):
        return _stream(predictor, options, given[0], shared.json)
    found = predictions(predictor, options, [(one, "The prompt") for one in given])
    for number, (one, prediction) in enumerate(zip(given, found, strict=True)):
        if shared.json:
            print_json({**predictor.values(one), **prediction.json()})
            continue
        if number and prediction.between is not None:
            print(prediction.between)
        print(prediction.line())


def _check_stream(
    predictor: "Predictor[Any]", files: dict[str, str], prompts: Sequence[str]
) -> None:
    """Raise ConfigError for what cannot be shown as it grows."""
    if files:
        raise ConfigError(
            f"--stream shows text that continues a text, so --{min(files)} has no use; leave it "
            "out."
        )
    if len(prompts) > 1:
        raise ConfigError(
            f"--stream shows one text as it grows, not {len(prompts)}; give one --prompt."
        )
    if not predictor.streams:
        raise ConfigError(
            f"{predictor.task.folder} gives its answers as a whole; leave out --stream."
        )


def _stream(predictor: Any, options: "Options", given: Any, as_json: bool) -> None:
    """Print the text as it grows; with --json a line for each piece, the last with why it ended."""
    one = predictor.parse(given, options)
    before = given if predictor.continues and given.strip() and not as_json else ""
    for delta in predictor.stream(one, options):  # a bad prompt is refused before it is printed
        if as_json:
            print_json({"text": delta.text, "finish": delta.finish})
        else:
            sys.stdout.write(before + delta.text)
        before = ""
        sys.stdout.flush()
    if not as_json:
        print(before)
    if one.note:
        sys.stderr.write(f"{one.note}\n")


def score_targets(
    predictor: "Predictor[Any]", options: "Options", file: str | None, as_json: bool
) -> None:
    """Print log p of each line of a file given its source, a line of standard input."""
    if file is None:
        raise ConfigError("A target is scored given its source; name the targets: --targets FILE.")
    try:
        targets = [
            line.rstrip("\r") for line in Path(file).read_bytes().decode("utf-8").split("\n")
        ]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {file} ({error}); give a UTF-8 text file with a line for each source"
        ) from None
    targets = targets[:-1] if targets[-1] == "" else targets
    sources = [line for chunk in chunks(1 << 10) for line in chunk]
    if len(sources) != len(targets):
        raise DataError(
            f"There are {len(sources)} sources and {len(targets)} lines in {file}; give one for "
            "each."
        )
    pairs = list(zip(sources, targets, strict=True))
    found = predictions(predictor, options, [(pair, "Pair") for pair in pairs])
    for pair, one in zip(pairs, found, strict=True):
        if as_json:
            print_json({**predictor.values(pair), **one.json()})
        else:
            print(one.line())


def draw_file(predictor: "Predictor[Any]", options: "Options", shared: "Shared", out: Path) -> None:
    """Draw one prompt into a PNG file, enlarged by a whole number to about `SIDE` pixels."""
    from PIL import Image

    from glassformer.pages.images import write_png

    prompts = shared.prompt or []
    if len(prompts) != 1:
        raise ConfigError(
            f"--out draws one image, of one --prompt, not of {len(prompts)}; give one."
        )
    (found,) = predictions(predictor, options, [(prompts[0], "The prompt")])
    pixels = found.picture()
    assert pixels is not None
    height, width, _ = pixels.shape
    factor = max(1, SIDE // max(height, width))
    write_png(Image.fromarray(pixels.repeat(factor, 0).repeat(factor, 1)), out)
    if shared.json:
        print_json({"prompt": prompts[0], "image": str(out), "pixels": pixels.tolist()})
    else:
        print(f"{out}: {height} x {width} pixels, {factor} times enlarged")


class Attention:
    """The picture of the first source that is no blank: its cross-attention, in a file."""

    def __init__(self, run: "Run", file: Path | None):
        self.run, self.file = run, file

    def see(self, source: Any, target: str) -> None:
        """Draw a source and its target, if nothing is drawn yet."""
        if self.file is None or not source.strip():
            return
        from glassformer.core.files import write_text
        from glassformer.pages.attention import attention_html, attention_png

        attention, file = self.run.cross_attention(source, target), self.file
        if file.suffix.lower() == ".html":
            write_text(file, attention_html(attention, self.run.folder.name))
        else:
            attention_png(attention, file)
        sys.stderr.write(f"attention of {source!r}: {file}\n")
        self.file = None

    def check(self) -> None:
        """Raise DataError if there was nothing to draw."""
        if self.file is not None:
            raise DataError(
                f"There was no line to draw, so {self.file} was not written; give a sentence."
            )
