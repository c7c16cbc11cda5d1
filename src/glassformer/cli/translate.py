"""`glassformer translate`: lines in, lines out, in order, whatever the task: translation,
summaries, answers.

    text                          by default
    score <TAB> text <TAB> 0-0    with --scores and --alignments
    0 ||| text ||| score          with --n-best (the format of Moses)

An empty line stays an empty line.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError, DataError
from glassformer.files import write_text
from glassformer.generate import GenerateConfig, Transduction
from glassformer.inspect.alignment import pharaoh
from glassformer.pages.attention import attention_html, attention_png
from glassformer.run import Run, load

BATCHES = 8
"""Lines of so many batches are sorted by length together, if they are there already."""


@dataclass(frozen=True)
class Wanted:
    """What is printed for each line."""

    scores: bool = False
    alignments: bool = False
    as_json: bool = False
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None


def translate(
    folder: Path,
    options: dict[str, Any],
    wanted: Wanted,
    targets: Path | None,
    picture: Path | None,
    batch_size: int,
    device: str,
) -> None:
    """Translate standard input; with `targets`, score those lines instead; with `picture`, draw the
    first line's."""
    if picture is not None and picture.suffix.lower() not in (".html", ".png"):
        raise ConfigError(
            f"--show-attention writes .html or .png, not {picture.name!r}; name such a file."
        )
    if (wanted.layers is not None or wanted.heads is not None) and not wanted.alignments:
        raise ConfigError(
            "--layer and --head choose what --alignments reads; add --alignments or leave them out."
        )
    if wanted.alignments and options.get("n_best", 1) > 1:
        raise ConfigError(
            "--alignments belong to the best translation, so --n-best has no place beside it."
        )
    if targets is not None:
        _refuse_beside_targets(options, wanted, picture)
    run = load(folder, device)
    config = run.options(**options)
    run.transduced(
        [], config, batch_size
    )  # a model that does not translate is refused before a line is waited for
    if targets is not None:
        return _score(run, targets, wanted.as_json)
    number, progress = 0, Lines()
    for chunk in chunks(batch_size * BATCHES):
        found = run.transduced(chunk, config, batch_size, first=number + 1)
        for source, best in zip(chunk, found, strict=True):
            _print(run, number, source, best, wanted, config)
            if picture is not None and source.strip():
                _draw(run, source, best[0].text, picture)
                picture = None
            number += 1
        sys.stdout.flush()
        progress.tell(number)
    progress.tell(number, last=True)
    if picture is not None:
        raise DataError(
            f"There was no line to draw, so {picture} was not written; give a sentence."
        )
    return None


def _refuse_beside_targets(options: dict[str, Any], wanted: Wanted, picture: Path | None) -> None:
    also = {
        "scores": wanted.scores,
        "alignments": wanted.alignments,
        "show_attention": picture is not None,
    }
    asked = [*options, *(name for name, given in also.items() if given)]
    if asked:
        name = asked[0].replace("overflow", "window").replace("_", "-")
        raise ConfigError(f"--targets scores what is given, so --{name} has no use; leave it out.")


def _print(
    run: Run,
    number: int,
    source: str,
    found: list[Transduction],
    wanted: Wanted,
    config: GenerateConfig,
) -> None:
    best, alignment = found[0], None
    text = one_line(best.text)
    if wanted.alignments:
        attention = (
            run.cross_attention(source, best.text) if _whole(run, source, best.text) else None
        )
        alignment = (
            "" if attention is None else pharaoh(attention.align(wanted.layers, wanted.heads))
        )
    if wanted.as_json:
        print_json(_values(source, found, alignment))
    elif config.n_best > 1:
        for one in found:
            print(f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}")
    elif not source.strip():
        print()
    else:
        shown = [f"{best.score:.4f}"] if wanted.scores else []
        print("\t".join([*shown, text, *([] if alignment is None else [alignment])]))


def _whole(run: Run, source: str, target: str) -> bool:
    """Whether there are words on both sides that the model can read at once; a line that was cut
    has no alignment."""
    pair, most = run.task.pair, run.model.config.max_length
    if not (source.strip() and target.strip()):
        return False
    return max(len(pair.source_ids(source)), len(pair.target_ids(target))) <= most


def _values(source: str, found: list[Transduction], alignment: str | None) -> dict[str, Any]:
    rows = [
        {"text": one.text, "score": one.score, "finish": one.finish, "tokens": len(one.ids)}
        for one in found
    ]
    values: dict[str, Any] = {"source": source, **rows[0]}
    if len(rows) > 1:
        values["n_best"] = rows
    return values | ({} if alignment is None else {"alignment": alignment})


def _draw(run: Run, source: str, target: str, picture: Path) -> None:
    attention = run.cross_attention(source, target)
    if picture.suffix.lower() == ".html":
        write_text(picture, attention_html(attention, run.folder.name))
    else:
        attention_png(attention, picture)
    sys.stderr.write(f"attention of {source!r}: {picture}\n")


def _score(run: Run, targets: Path, as_json: bool) -> None:
    """log p of each given target, and a token's mean."""
    try:
        wanted = [line.rstrip("\r") for line in targets.read_bytes().decode("utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {targets} ({error}); give a UTF-8 text file with a line for each source"
        ) from None
    wanted = wanted[:-1] if wanted[-1] == "" else wanted
    sources = [line for chunk in chunks(1 << 10) for line in chunk]
    if len(sources) != len(wanted):
        raise DataError(
            f"There are {len(sources)} sources and {len(wanted)} lines in {targets}; give one "
            f"for each."
        )
    for (source, target), log_probs in zip(
        zip(sources, wanted, strict=True),
        run.score_pairs(list(zip(sources, wanted, strict=True))),
        strict=True,
    ):
        total = sum(log_probs)
        if as_json:
            print_json(
                {"source": source, "target": target, "log_prob": total, "log_probs": log_probs}
            )
        else:
            print(f"{total:.4f}\t{total / len(log_probs):.4f}\t{target}")
