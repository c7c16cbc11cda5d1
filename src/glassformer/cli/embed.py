"""`glassformer embed`: texts to vectors, and what vectors are good for.

lines                    {"text": ..., "vector": [...]} each, null if empty; or a row of --out
--near FILE              for each line the nearest of the file: text <TAB> similarity
--analogy                lines such as `king - man + woman`: word <TAB> similarity
--word bank              lines with that word: how alike its vectors in them are, layer by layer
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cli.lines import Lines, chunks, one_line
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError, DataError, counted
from glassformer.files import replacing, write_text
from glassformer.generate.embed import embed as vectors_of
from glassformer.inspect.contextual import Contexts
from glassformer.inspect.similarity import nearest
from glassformer.inspect.vectorfiles import lines_of, read_array, read_named
from glassformer.inspect.wordvectors import model_words, read_words
from glassformer.pages.word_contexts import contexts_html
from glassformer.run import Run, load

TOGETHER = 1024
"""Lines that are computed together, if they are there already."""
TOP = 10
MATRIX = 12
"""The terminal shows every similarity of at most so many occurrences."""
MODES = {
    "near": {"pool", "layer", "top_k", "json"},
    "analogy": {"vectors", "top_k", "json"},
    "word": {"html", "json"},
    "": {"pool", "no_normalize", "layer", "out", "json"},
}
"""What each mode may be told; that without a name writes vectors."""


@dataclass(frozen=True)
class Wanted:
    """The options of the command line, None or False where they were not given."""

    pool: str | None = None
    no_normalize: bool = False
    layer: int | None = None
    out: Path | None = None
    near: Path | None = None
    analogy: bool = False
    vectors: Path | None = None
    word: str | None = None
    html: Path | None = None
    top_k: int | None = None
    json: bool = False

    def mode(self) -> str:
        """Which of MODES is meant. ConfigError: more than one, or an option that has no place in
        it."""
        given = [
            name for name, value in vars(self).items() if value is not None and value is not False
        ]
        modes = [name for name in given if name in MODES]
        if len(modes) > 1:
            raise ConfigError(
                f"--{modes[0]} and --{modes[1]} are two different questions; leave one of them out."
            )
        mode = modes[0] if modes else ""
        for name in given:
            if name != mode and name not in MODES[mode]:
                homes = " or ".join(
                    f"--{home}" for home, own in MODES.items() if home and name in own
                )
                place = f"beside --{mode}" if mode else f"without {homes}"
                raise ConfigError(f"--{name.replace('_', '-')} has no use {place}; leave it out.")
        self._check_files()
        return mode

    def _check_files(self) -> None:
        if self.out is not None and self.json:
            raise ConfigError(
                "--out writes a table and nothing is printed, so --json has no use; leave one "
                "of them out."
            )
        for name, path, suffix in (("out", self.out, ".npy"), ("html", self.html, ".html")):
            if path is not None and path.suffix.lower() != suffix:
                raise ConfigError(f"--{name} writes {suffix}, not {path.name!r}; name such a file.")


def embed(folder: Path | None, wanted: Wanted, device: str) -> None:
    """Answer the lines of standard input in the way that is wanted."""
    mode = wanted.mode()
    if (folder is None) != (wanted.vectors is not None):
        raise ConfigError(
            "Give the folder of a run, or the vectors of words with --analogy --vectors FILE."
            if folder is None
            else "--vectors has the words' vectors itself and needs no run; leave one of them out."
        )
    run = None if folder is None else load(folder, device)
    if mode == "analogy":
        _analogies(run, wanted)
    elif run is not None:
        {"near": _near, "word": _word, "": _vectors}[mode](run, wanted)


def _vectors(run: Run, wanted: Wanted) -> None:
    """A vector for each line, printed as it comes or gathered in a file."""
    rows = [np.zeros((0, run.model.config.d_model), np.float32)]
    for lines, vectors in _embedded(run, wanted):
        if wanted.out is not None:
            rows.append(vectors)
            continue
        for line, vector in zip(lines, vectors, strict=True):
            print_json({"text": line, "vector": _shortest(vector) if vector.any() else None})
        sys.stdout.flush()
    if wanted.out is not None:
        with replacing(wanted.out) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(rows))


def _embedded(run: Run, wanted: Wanted) -> Iterator[tuple[list[str], np.ndarray]]:
    """Lines of standard input with their vectors, as they come."""
    _of(run, [], wanted)  # what the model cannot do is said before a line is waited for
    number, progress = 0, Lines()
    for lines in chunks(TOGETHER):
        yield lines, _of(run, lines, wanted)
        number += len(lines)
        progress.tell(number)
    progress.tell(number, last=True)


def _of(run: Run, lines: Sequence[str], wanted: Wanted) -> np.ndarray:
    pool, normalize = wanted.pool or "mean", not wanted.no_normalize
    return vectors_of(run.model, run.reader, lines, pool, wanted.layer, normalize, empty="zeros")


def _shortest(vector: np.ndarray) -> list[float]:
    """Numbers with the nine digits that tell every float32 from its neighbours."""
    return [float(f"{value:.9g}") for value in vector.tolist()]


def _near(run: Run, wanted: Wanted) -> None:
    """For each line the texts of --near that are nearest to it."""
    assert wanted.near is not None
    texts, vectors = _known(run, wanted.near, wanted)
    blocks = Blocks()
    for lines, queries in _embedded(run, wanted):
        indices, similarities = nearest(queries, vectors, wanted.top_k or TOP)
        for line, query, own, alike in zip(lines, queries, indices, similarities, strict=True):
            pairs = zip(own.tolist(), alike.tolist(), strict=True) if query.any() else ()
            found = [(texts[i] if texts else f"row {i + 1}", s) for i, s in pairs]
            blocks.show(line, found, wanted.json)
        sys.stdout.flush()


def _known(run: Run, path: Path, wanted: Wanted) -> tuple[list[str], np.ndarray]:
    """The texts and vectors of a file that `embed` wrote (a .npy has no texts), or of the lines of
    any other."""
    if path.suffix in (".npy", ".jsonl"):
        texts, vectors = ([], read_array(path)) if path.suffix == ".npy" else read_named(path)
    else:
        texts = [line for _, line in lines_of(path)]
        vectors = _of(run, texts, wanted)
    if not len(vectors):
        raise DataError(
            f"{path} is empty, so that nothing in it is near to anything; give a file with lines."
        )
    if vectors.shape[1] != run.model.config.d_model:
        raise DataError(
            f"The vectors of {path} have {counted(vectors.shape[1], 'number')} and those of "
            f"{run.folder} "
            f"{run.model.config.d_model}; they are of another model."
        )
    return texts, vectors


def _analogies(run: Run | None, wanted: Wanted) -> None:
    """For each line the words nearest to what it says."""
    words = read_words(wanted.vectors) if wanted.vectors is not None else None
    if run is not None:
        words = model_words(run.model, run.reader.tokenizer, str(run.folder))
    assert words is not None, "either of the two is there"
    number, blocks = 0, Blocks()
    for lines in chunks(TOGETHER):
        for line in lines:
            number += 1
            try:
                found = words.analogy(line, wanted.top_k or TOP) if line.strip() else []
            except DataError as error:
                raise DataError(f"Line {number}: {error}") from None
            blocks.show(line, found, wanted.json)
        sys.stdout.flush()


class Blocks:
    """Prints what was found for each line: a block of its own, or a line of JSON."""

    def __init__(self) -> None:
        self._any = False

    def show(self, line: str, found: Sequence[tuple[str, float]], as_json: bool) -> None:
        """What was found for a line, the best first."""
        if as_json:
            rows = [
                {"text": text, "similarity": round(similarity, 6)} for text, similarity in found
            ]
            print_json({"text": line, "near": rows})
        elif found:
            blocks = [f"{one_line(text)}\t{similarity:.4f}" for text, similarity in found]
            print("\n".join([""] * self._any + blocks))
            self._any = True


def _word(run: Run, wanted: Wanted) -> None:
    """One word in all the lines."""
    assert wanted.word is not None
    look = run.contexts(wanted.word, [line for lines in chunks(TOGETHER) for line in lines])
    if wanted.html is not None:
        write_text(wanted.html, contexts_html(look, run.folder.name))
        sys.stderr.write(
            f"{look.word!r} in {counted(len(look.occurrences), 'context')}: {wanted.html}\n"
        )
    if wanted.json:
        print_json(_values(look))
    else:
        _print(look, run.folder.name)


def _values(look: Contexts) -> dict[str, Any]:
    layers = [
        {
            "layer": layer,
            "mean": float(look.pairs[layer].mean()),
            "similarities": np.round(table, 6).tolist(),
        }
        for layer, table in enumerate(look.similarities)
    ]
    return {
        "word": look.word,
        "occurrences": [vars(one) for one in look.occurrences],
        "layers": layers,
    }


def _print(look: Contexts, name: str) -> None:
    print(
        f"{look.word!r} in {counted(len(look.occurrences), 'context')}, cosine similarities in "
        f"{name}\n"
    )
    width = shutil.get_terminal_size().columns - 6
    for number, one in enumerate(look.occurrences, 1):
        print(f"{number:4}  {_around(one.text, one.begin, one.end, width)}")
    print(f"\n{'layer':>5} {'least':>7} {'mean':>7} {'most':>7}")
    for layer in range(len(look.vectors)):
        pairs = look.pairs[layer]
        print(
            f"{layer:5} {pairs.min():7.3f} {pairs.mean():7.3f} "
            f"{pairs.max():7.3f}{'' if layer else '  static'}"
        )
    if len(look.occurrences) > MATRIX:
        return
    for layer, table in enumerate(look.similarities):
        print(f"\nlayer {layer}{'' if layer else ', the static embedding'}")
        print(" " * 4 + "".join(f"{number:7}" for number in range(1, len(table) + 1)))
        for number, row in enumerate(table, 1):
            print(f"{number:4}" + "".join(f"{value:7.3f}" for value in row))


def _around(text: str, begin: int, end: int, width: int) -> str:
    """A word in brackets with what stands around it, as much as fits into a line."""
    room = max(0, width - (end - begin) - 4) // 2
    left, right = one_line(text[:begin]), one_line(text[end:])
    left = left if len(left) <= room else f"…{left[len(left) - room :]}"
    right = right if len(right) <= room else f"{right[:room]}…"
    return f"{left}[{text[begin:end]}]{right}"
