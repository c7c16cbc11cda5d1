"""Prompts, sources with their targets, and pictures.

glassformer generate RUN --prompt TEXT           grows on a terminal, and with --stream
glassformer score RUN --targets FILE < sources
glassformer draw RUN --prompt TEXT --out a.png
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import given
from glassformer.cli.terminal import chunks, on_terminal, print_json, read_stdin
from glassformer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.cli.verbs import Shared
    from glassformer.run.run import Run
    from glassformer.tasks.predictors.predictor import Prediction, Predictor

SIDE = 256
"""Pixels of the longer side of an enlarged image, about."""


def prompts_of(predictor: "Predictor[Any]", shared: "Shared") -> list[Any]:
    """The inputs of all prompts, or of standard input as one prompt."""
    texts = shared.prompt
    if texts is None:
        texts = [read_stdin(piped=True) or predictor.first]
    files = given({"image": shared.image, "audio": shared.audio})
    return [predictor.about(text if predictor.continues else text.strip(), files) for text in texts]


def pairs_of(file: str | None) -> list[tuple[str, str]]:
    """Lines of standard input, the sources, each with the line of a file that is its target."""
    if file is None:
        raise ConfigError("A target is scored given its source; name the targets: --targets FILE.")
    try:
        text = Path(file).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {file} ({error}); give a UTF-8 text file with a line for each source"
        ) from None
    targets = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    sources = [line for chunk in chunks(1 << 10) for line in chunk]
    if len(sources) != len(targets):
        raise DataError(
            f"There are {len(sources)} sources and {len(targets)} lines in {file}; give one for "
            "each."
        )
    return list(zip(sources, targets, strict=True))


def is_streamed(predictor: "Predictor[Any]", shared: "Shared") -> bool:
    """Whether the text is shown as it grows; ConfigError: it was requested, and cannot be."""
    files, n = given({"image": shared.image, "audio": shared.audio}), len(shared.prompt or "1")
    if not shared.stream:
        watched = predictor.continues and on_terminal()
        return watched and n == 1 and not (shared.json or files)
    if files:
        raise ConfigError(
            f"--stream shows text that continues a text, so --{min(files)} has no use; leave it "
            "out."
        )
    if n > 1:
        raise ConfigError(f"--stream shows one text as it grows, not {n}; give one --prompt.")
    if not predictor.streams:
        raise ConfigError(
            f"{predictor.task.folder} gives its answers as a whole; leave out --stream."
        )
    return True


def stream(predictor: Any, options: Any, prompt: Any, as_json: bool) -> None:
    """Print the text as it grows; with --json a line for each piece, the last with why it ended."""
    one = predictor.parse(prompt, options)
    before = prompt if predictor.continues and prompt.strip() and not as_json else ""
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


def save_picture(found: "Prediction", values: dict[str, Any], out: Path, as_json: bool) -> None:
    """Write an image as a PNG file, enlarged by a whole number to about `SIDE` pixels."""
    from PIL import Image

    from glassformer.pages.images import write_png

    pixels = found.picture()
    assert pixels is not None
    height, width, _ = pixels.shape
    factor = max(1, SIDE // max(height, width))
    write_png(Image.fromarray(pixels.repeat(factor, 0).repeat(factor, 1)), out)
    if as_json:
        print_json({**values, "image": str(out), "pixels": pixels.tolist()})
    else:
        print(f"{out}: {height} x {width} pixels, {factor} times enlarged")


def save_attention(run: "Run", source: str, target: str, file: Path) -> None:
    """Draw the cross-attention of a pair in a file."""
    from glassformer.core.files import write_text
    from glassformer.pages.attention import attention_html, attention_png

    attention = run.cross_attention(source, target)
    if file.suffix.lower() == ".html":
        write_text(file, attention_html(attention, run.folder.name))
    else:
        attention_png(attention, file)
    sys.stderr.write(f"attention of {source!r}: {file}\n")
