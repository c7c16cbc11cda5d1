"""Uses of vectors: nearest texts, analogies, a word in its contexts.

`near RUN FILE < lines`       for each line the nearest of the file: text <TAB> similarity.
`analogy RUN < lines`         lines such as `king - man + woman`: word <TAB> similarity.
`contexts RUN bank < lines`   similarity of the vectors of a word, layer by layer.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from glassformer.cli.options import Count, Device, Force, Json, RunFolder, check_output
from glassformer.cli.terminal import chunks, number_groups, print_json
from glassformer.core.errors import ConfigError, DataError, amount, one_line

if TYPE_CHECKING:
    import numpy as np

    from glassformer.inspect.contextual import Contexts
    from glassformer.inspect.vectors import WordVectors

    Vectors = Callable[[Sequence[str]], np.ndarray]

Near = tuple[str, Sequence[tuple[str, float]]]
"""A line, and the texts that are near to it with their similarities."""
TOGETHER = 1024
"""Lines that are computed together, if they are there already."""
MATRIX = 12
"""The terminal shows every similarity of at most this many occurrences."""
KNOWN = "A text in each line, or what embed wrote: .jsonl or .npy."


def near(
    run: RunFolder,
    file: Annotated[Path, Argument(help=KNOWN, metavar="FILE")],
    pool: str | None = None,
    layer: int | None = None,
    prompt: str | None = None,
    top: Count = 10,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Find the texts of a file that are nearest to each line of standard input.

    pool: mean, first, or last (for decoders); default: the model's own, or mean.
    layer: Layer of the vectors; 0: the static embedding; default: the last.
    prompt: Name of the prompt of a sentence model, a text before each text.
    top: Number of texts.
    """
    from glassformer.run import load
    from glassformer.tasks.options import EmbedOptions

    options = EmbedOptions.parse({"pool": pool, "layer": layer, "prompt": prompt})
    predictor = load(run, device).predictor("embed")
    predictor.check(options)

    def embed(texts: Sequence[str]) -> "np.ndarray":
        found = predictor.predict_each(texts, options)  # a blank text has a vector of zeros
        return predictor.gather([one.value for one in found])

    _print_near(_nearest(embed, file, top, str(run)), json)


def analogy(
    run: Annotated[Path | None, Argument(help="A run folder.", metavar="RUN")] = None,
    vectors: Path | None = None,
    top: Count = 10,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Solve lines such as: king - man + woman.

    vectors: Words with vectors, instead of a RUN's own.
    top: Number of words.
    """
    from glassformer.inspect.vectors import model_words, read_words
    from glassformer.run import load

    if run is not None and vectors is not None:
        raise ConfigError(
            "--vectors has the words' vectors itself and needs no run; leave one of them out."
        )
    if run is not None:
        opened = load(run, device)
        words = model_words(opened.model, opened.reader.tokenizer, str(run))
    elif vectors is not None:
        words = read_words(vectors)
    else:
        raise ConfigError("Give the folder of a run, or the vectors of words with --vectors FILE.")
    _print_near(_analogies(words, top), json)


def contexts(
    run: RunFolder,
    word: Annotated[str, Argument(help="A word of all the lines.", metavar="WORD")],
    html: Path | None = None,
    force: Force = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Compare the vectors of a word in all lines of standard input, layer by layer.

    html: Also draw the comparison in this .html file.
    """
    from glassformer.core.files import write_text
    from glassformer.pages.word_contexts import contexts_html
    from glassformer.run import load

    check_output("--html", html, (".html",), force)
    opened = load(run, device)
    look = opened.contexts(word, [line for lines in chunks(TOGETHER) for line in lines])
    found = f"{look.word!r} in {amount(len(look.occurrences), 'context')}"
    if html is not None:
        write_text(html, contexts_html(look, run.name))
        sys.stderr.write(f"{found}: {html}\n")
    if not json:
        print(f"{found}, cosine similarities in {run.name}\n")
        _print_contexts(look)
        return
    layers = [
        {"layer": n, "mean": float(look.pairs[n].mean()), "similarities": table.round(6).tolist()}
        for n, table in enumerate(look.similarities)
    ]
    occurrences = [vars(one) for one in look.occurrences]
    print_json({"word": look.word, "occurrences": occurrences, "layers": layers})


def _print_near(found: Iterable[Near], as_json: bool) -> None:
    """Print the texts near each line, best first: a block, or a line of JSON."""
    between = ""
    for line, near in found:
        if as_json:
            rows = [{"text": text, "similarity": round(value, 6)} for text, value in near]
            print_json({"text": line, "near": rows})
        elif near:
            print(between + "\n".join(f"{one_line(text)}\t{value:.4f}" for text, value in near))
            between = "\n"


def _nearest(embed: "Vectors", path: Path, top: int, run: str) -> Iterator[Near]:
    """The texts of a file that are nearest to each line.

    The file is one that `embed` wrote (a .npy has no texts), or any other with a text in each line.
    """
    from glassformer.inspect.vectors import lines_of, nearest, read_array, read_named

    if path.suffix in (".npy", ".jsonl"):
        texts, vectors = ([], read_array(path)) if path.suffix == ".npy" else read_named(path)
    else:
        texts = [line for _, line in lines_of(path)]
        vectors = embed(texts)
    if not len(vectors):
        raise DataError(
            f"{path} is empty, so that nothing in it is near to anything; give a file with lines."
        )
    if vectors.shape[1] != (width := embed([]).shape[1]):
        raise DataError(
            f"The vectors of {path} have {amount(vectors.shape[1], 'number')} and those of "
            f"{run} {width}; they are of another model."
        )
    for _, lines in number_groups(chunks(TOGETHER)):
        queries = embed(lines)
        for line, query, indices, values in zip(
            lines, queries, *nearest(queries, vectors, top), strict=True
        ):
            pairs = zip(indices.tolist(), values.tolist(), strict=True) if query.any() else ()
            yield line, [(texts[i] if texts else f"row {i + 1}", value) for i, value in pairs]


def _analogies(words: "WordVectors", top: int) -> Iterator[Near]:
    """The words nearest to the expression of each line."""
    for first, lines in number_groups(chunks(TOGETHER)):
        for number, line in enumerate(lines, first):
            try:
                yield line, words.analogy(line, top) if line.strip() else []
            except DataError as error:
                raise DataError(f"Line {number}: {error}") from None


def _print_contexts(look: "Contexts") -> None:
    width = shutil.get_terminal_size().columns - 6
    for number, one in enumerate(look.occurrences, 1):
        print(f"{number:4}  {_around(one.text, one.begin, one.end, width)}")
    print(f"\n{'layer':>5} {'least':>7} {'mean':>7} {'most':>7}")
    for layer in range(len(look.vectors)):
        pairs = look.pairs[layer]
        static = "" if layer else "  static"
        print(f"{layer:5} {pairs.min():7.3f} {pairs.mean():7.3f} {pairs.max():7.3f}{static}")
    if len(look.occurrences) > MATRIX:
        return
    for layer, table in enumerate(look.similarities):
        print(f"\nlayer {layer}{'' if layer else ', the static embedding'}")
        print(" " * 4 + "".join(f"{number:7}" for number in range(1, len(table) + 1)))
        for number, row in enumerate(table, 1):
            print(f"{number:4}" + "".join(f"{value:7.3f}" for value in row))


def _around(text: str, begin: int, end: int, width: int) -> str:
    """A word in brackets with as much of its context as fits into a line."""
    room = max(0, width - (end - begin) - 4) // 2
    left, right = one_line(text[:begin]), one_line(text[end:])
    left = left if len(left) <= room else f"…{left[len(left) - room :]}"
    right = right if len(right) <= room else f"{right[:room]}…"
    return f"{left}[{text[begin:end]}]{right}"
