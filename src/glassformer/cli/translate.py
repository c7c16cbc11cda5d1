"""`glassformer translate`: lines in, lines out, in order, whatever the task: translation, summaries, answers.

    text                          by default
    score <TAB> text <TAB> 0-0    with --scores and --alignments
    0 ||| text ||| score          with --n-best (the format of Moses)

An empty line stays an empty line. Knows: `Run`, lines. Does not know: how a line is translated.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError, DataError
from glassformer.files import write_text
from glassformer.generate import GenerateConfig, Transduction
from glassformer.inspect.alignment import pharaoh
from glassformer.inspect.picture import attention_html, attention_png
from glassformer.run import Run, load
from glassformer.train.progress import clock

BATCHES = 8
"""Lines of so many batches are sorted by length together, if they are there already."""
SAID_EVERY = 5.0


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
    """Translate standard input; with `targets`, score those lines instead; with `picture`, draw the first line's."""
    if picture is not None and picture.suffix.lower() not in (".html", ".png"):
        raise ConfigError(f"--show-attention writes .html or .png, not {picture.name!r}; name such a file.")
    if (wanted.layers is not None or wanted.heads is not None) and not wanted.alignments:
        raise ConfigError("--layer and --head choose what --alignments reads; add --alignments or leave them out.")
    if wanted.alignments and options.get("n_best", 1) > 1:
        raise ConfigError("--alignments belong to the best translation, so --n-best has no place beside it.")
    if targets is not None:
        _refuse_beside_targets(options, wanted, picture)
    run = load(folder, device)
    config = run.options(**options)
    run.transduced([], config, batch_size)  # a model that does not translate is refused before a line is waited for
    if targets is not None:
        return _score(run, targets, wanted.as_json)
    number, progress = 0, Lines()
    for chunk in _chunks(batch_size * BATCHES):
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
        raise DataError(f"There was no line to draw, so {picture} was not written; give a sentence.")
    return None


def _refuse_beside_targets(options: dict[str, Any], wanted: Wanted, picture: Path | None) -> None:
    also = {"scores": wanted.scores, "alignments": wanted.alignments, "show_attention": picture is not None}
    asked = [*options, *(name for name, given in also.items() if given)]
    if asked:
        name = asked[0].replace("overflow", "window").replace("_", "-")
        raise ConfigError(f"--targets scores what is given, so --{name} has no use; leave it out.")


class Lines:
    """Says on stderr how many lines are done, every few seconds and at the end of what took longer."""

    def __init__(self) -> None:
        self._begin = self._said = time.monotonic()
        self._number = 0

    def tell(self, number: int, last: bool = False) -> None:
        """`number` lines are done."""
        now = time.monotonic()
        due = now - self._said > SAID_EVERY or (last and now - self._begin > SAID_EVERY)
        if due and number > self._number:
            rate = number / (now - self._begin)
            sys.stderr.write(f"{number:,} lines in {clock(now - self._begin)}, {rate:.1f} lines/s\n")
            self._said, self._number = now, number


def _print(
    run: Run, number: int, source: str, found: list[Transduction], wanted: Wanted, config: GenerateConfig
) -> None:
    best, alignment = found[0], None
    text = one_line(best.text)
    if wanted.alignments:
        attention = run.cross_attention(source, best.text) if _whole(run, source, best.text) else None
        alignment = "" if attention is None else pharaoh(attention.align(wanted.layers, wanted.heads))
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
    """Whether there are words on both sides that the model can read at once; a line that was cut has no alignment."""
    pair, most = run.pair, run.model.config.max_length
    assert pair is not None, "checked before the first line"
    if not (source.strip() and target.strip()):
        return False
    return max(len(pair.source_ids(source)), len(pair.target_ids(target))) <= most


def _values(source: str, found: list[Transduction], alignment: str | None) -> dict[str, Any]:
    rows = [{"text": one.text, "score": one.score, "finish": one.finish, "tokens": len(one.ids)} for one in found]
    values: dict[str, Any] = {"source": source, **rows[0]}
    if len(rows) > 1:
        values["n_best"] = rows
    return values | ({} if alignment is None else {"alignment": alignment})


def one_line(text: str) -> str:
    """A text that a line can hold: whatever ends a line becomes a space."""
    return " ".join(text.splitlines()) if text else text


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
    sources = [line for chunk in _chunks(1 << 10) for line in chunk]
    if len(sources) != len(wanted):
        raise DataError(f"There are {len(sources)} sources and {len(wanted)} lines in {targets}; give one for each.")
    for (source, target), log_probs in zip(
        zip(sources, wanted, strict=True), run.score_pairs(list(zip(sources, wanted, strict=True))), strict=True
    ):
        total = sum(log_probs)
        if as_json:
            print_json({"source": source, "target": target, "log_prob": total, "log_probs": log_probs})
        else:
            print(f"{total:.4f}\t{total / len(log_probs):.4f}\t{target}")


def _chunks(most: int) -> Iterator[list[str]]:
    """Lines of standard input as they come: all that are there by now, at least one, at most `most`.

    A thread reads ahead, so that a program that writes one line and waits for its answer gets it, and a file is read
    in large chunks. DataError: a line that is not UTF-8.
    """
    if sys.stdin is None:
        return
    if sys.stdin.isatty():
        sys.stderr.write("type a line and press Enter; end with Ctrl-D\n")
    lines: queue.Queue[bytes | None] = queue.Queue(maxsize=2 * most)
    # a stream of its own: a thread that waits in sys.stdin when the program ends would abort it
    stream = open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115 - the thread closes it
    reader = threading.Thread(target=_read, args=(stream, lines), daemon=True)
    reader.start()
    number, ended = 0, False
    while not ended:
        chunk: list[str] = []
        raw = lines.get()
        while raw is not None:
            number += 1
            chunk.append(_text(raw, number))
            if len(chunk) == most:
                break
            try:
                raw = lines.get_nowait()
            except queue.Empty:
                break
        ended = raw is None
        if chunk:
            yield chunk


def _read(stream: BinaryIO, lines: "queue.Queue[bytes | None]") -> None:
    try:
        with stream:
            for raw in stream:
                lines.put(raw)
    finally:
        lines.put(None)


def _text(raw: bytes, number: int) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"Line {number} of standard input is not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start}); "
            "convert it first, for instance with iconv."
        ) from None
