"""`glassformer translate`: lines in, lines out, in order, whatever the task: translation,
summaries, answers.

    text                          by default
    score <TAB> text <TAB> 0-0    with --scores and --alignments
    0 ||| text ||| score          with --n-best (the format of Moses)

An empty line stays an empty line.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.lines import chunks, numbered
from glassformer.cli.options import (
    Compile,
    Device,
    Json,
    MaxNewTokens,
    MinNewTokens,
    NoRepeat,
    OptionalCount,
    RunFolder,
    given,
    refuse,
)
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError, DataError, one_line

if TYPE_CHECKING:
    from glassformer.run import Run
    from glassformer.runtime.config import GenerateConfig
    from glassformer.tasks.predictors.text import Text

BATCHES = 8
"""Lines of so many batches are sorted by length together, if they are there already."""


def translate(
    run: RunFolder,
    beams: OptionalCount = None,
    n_best: OptionalCount = None,
    length_penalty: float | None = None,
    max_new_tokens: MaxNewTokens = None,
    no_repeat_ngram_size: NoRepeat = None,
    min_new_tokens: MinNewTokens = None,
    temperature: float | None = None,
    seed: int | None = None,
    window: bool = False,
    scores: bool = False,
    alignments: bool = False,
    layer: list[int] | None = None,
    head: list[int] | None = None,
    targets: Path | None = None,
    show_attention: Path | None = None,
    force: Force = False,
    batch_size: OptionalCount = None,
    device: Device = "cpu",
    compile: Compile = False,
    json: Json = False,
) -> None:
    """Translate each line of standard input, by any text-to-text model; empty lines stay empty.

    beams: Beam width; 1: greedy.
    n_best: Print the N best of each line.
    length_penalty: α in the score Σ log p / lengthᵅ.
    temperature: Sample at this temperature instead of searching.
    seed: Random seed of --temperature; the same seed gives the same text.
    window: Split a line longer than the context into pieces of whole words.
    scores: Print the score before each line.
    alignments: Print the word alignment after each line, as 0-0 1-2.
    layer: Decoder layer for --alignments, from 0; may be repeated.
    head: Head for --alignments, from 0; may be repeated.
    targets: Score the lines of this file as targets instead of translating.
    show_attention: Draw the first line's cross-attention in this .html or .png file.
    batch_size: Lines translated together.
    """
    options = {"beams": beams, "n_best": n_best, "length_penalty": length_penalty}
    options |= {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
    options |= {"min_new_tokens": min_new_tokens, "no_repeat_ngram_size": no_repeat_ngram_size}
    options |= {"overflow": "window" if window else None}
    printed = {"scores": scores, "alignments": alignments, "show_attention": show_attention}
    _check(given(options), printed | {"batch_size": batch_size}, layer or head, targets, force)
    opened, config = _opened(run, device, compile, given(options))
    align = partial(_alignment, opened, layer, head) if alignments else None
    write = partial(_translate, opened, config, batch_size or 32, scores, align, show_attention)
    return write(json) if targets is None else _score(opened, targets, json)


def _opened(
    folder: Path, device: str, compile: bool, options: dict[str, Any]
) -> tuple["Run", "GenerateConfig"]:
    """The run and how it searches or samples; ConfigError: another task, or options without use."""
    from glassformer.run import load

    run = load(folder, device, compile=compile)
    config = run.options(**options)
    if "seed" in options and config.beams:
        raise ConfigError(
            f"--seed is for sampling, and beams={config.beams} searches; add --temperature or "
            "leave it out."
        )
    run.transduced([], config, 1)  # another task is refused before a line is waited for
    return run, config


def _check(
    options: dict[str, Any],
    printed: dict[str, Any],
    heads: list[int] | None,
    targets: Path | None,
    force: bool,
) -> None:
    """ConfigError: options that do not fit together, or a file that is there."""
    check_output("--show-attention", printed["show_attention"], (".html", ".png"), force)
    if heads and not printed["alignments"]:
        raise ConfigError(
            "--layer and --head choose what --alignments reads; add --alignments or leave them out."
        )
    if printed["alignments"] and options.get("n_best", 1) > 1:
        raise ConfigError(
            "--alignments belong to the best translation, so --n-best has no place beside it."
        )
    if targets is not None:
        refuse({**options, **printed}, "--targets scores what is given")


def _translate(
    run: "Run",
    config: "GenerateConfig",
    batch_size: int,
    scores: bool,
    align: Callable[[str, str], str] | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Translate standard input; the first line's attention is drawn in the file `picture`."""
    for number, lines in numbered(chunks(batch_size * BATCHES)):
        results = run.transduced(lines, config, batch_size, number)
        for at, (source, found) in enumerate(zip(lines, results, strict=True), number - 1):
            alignment = [] if align is None else [align(source, found[0].text)]
            if as_json:
                also = {"alignment": alignment[0]} if alignment else {}
                print_json({**_values(source, found), **also})
            elif config.n_best > 1:
                for one in found:
                    print(f"{at} ||| {one_line(one.text)} ||| {one.score:.4f}")
            elif source.strip():
                score = [f"{found[0].score:.4f}"] if scores else []
                print("\t".join([*score, one_line(found[0].text), *alignment]))
            else:
                print()
            if picture is not None and source.strip():
                _draw(run, source, found[0].text, picture)
                picture = None
    if picture is not None:
        raise DataError(
            f"There was no line to draw, so {picture} was not written; give a sentence."
        )


def _alignment(
    run: "Run", layers: Sequence[int] | None, heads: Sequence[int] | None, source: str, target: str
) -> str:
    """Word alignment as 0-0 1-2."""
    from glassformer.inspect.alignment import aligned, pharaoh

    return pharaoh(aligned(run.model, run.task.pair, source, target, layers, heads))


def _values(source: str, found: "list[Text]") -> dict[str, Any]:
    rows = [
        {"text": one.text, "score": one.score, "finish": one.finish, "tokens": len(one.ids)}
        for one in found
    ]
    return {"source": source, **rows[0], **({"n_best": rows} if len(rows) > 1 else {})}


def _draw(run: "Run", source: str, target: str, picture: Path) -> None:
    from glassformer.core.files import write_text
    from glassformer.pages.attention import attention_html, attention_png

    attention = run.cross_attention(source, target)
    if picture.suffix.lower() == ".html":
        write_text(picture, attention_html(attention, run.folder.name))
    else:
        attention_png(attention, picture)
    sys.stderr.write(f"attention of {source!r}: {picture}\n")


def _score(run: "Run", file: Path, as_json: bool) -> None:
    """Print log p of each line of a file given its source, and a token's mean."""
    try:
        targets = [line.rstrip("\r") for line in file.read_bytes().decode("utf-8").split("\n")]
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
    for (source, target), log_probs in zip(pairs, run.score_pairs(pairs), strict=True):
        total = sum(log_probs)
        if as_json:
            scores = {"log_prob": total, "log_probs": log_probs}
            print_json({"source": source, "target": target, **scores})
        else:
            print(f"{total:.4f}\t{total / len(log_probs):.4f}\t{target}")
