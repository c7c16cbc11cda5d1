"""`glassformer embed`: texts to vectors, and uses of vectors.

lines                    {"text": ..., "vector": [...]} each, null if empty; or a row of --out
--near FILE              for each line the nearest of the file: text <TAB> similarity
--analogy                lines such as `king - man + woman`: word <TAB> similarity
--word bank              lines with that word: similarity of its vectors in them, layer by layer
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from glassformer.cli.lines import chunks, numbered, one_line
from glassformer.cli.options import Device, Json, OptionalCount, given
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.predictions import Field, Files, In, Resume, predict_file
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError, DataError, counted

if TYPE_CHECKING:
    import numpy as np

    from glassformer.data.table_output import Predicted
    from glassformer.inspect.contextual import Contexts
    from glassformer.run import Run

    Vectors = Callable[[Sequence[str]], np.ndarray]

Near = tuple[str, Sequence[tuple[str, float]]]
"""A line, and the texts that are near to it with their similarities."""
TOGETHER = 1024
"""Lines that are computed together, if they are there already."""
MATRIX = 12
"""The terminal shows every similarity of at most so many occurrences."""
MODES = {
    "near": {"pool", "layer", "prompt", "top_k", "json"},
    "analogy": {"vectors", "top_k", "json"},
    "word": {"html", "force", "json"},
    "": {
        *("pool", "no_normalize", "layer", "prompt"),
        *("in", "field", "out", "resume", "force", "json"),
    },
}
"""Options of each mode; the one without a name writes vectors."""


def embed(
    run: Annotated[Path | None, Argument(help="A run folder.", metavar="RUN")] = None,
    pool: str | None = None,
    no_normalize: bool = False,
    layer: int | None = None,
    prompt: str | None = None,
    inp: In = None,
    out: Path | None = None,
    field: Field = None,
    resume: Resume = False,
    near: Path | None = None,
    analogy: bool = False,
    vectors: Path | None = None,
    word: str | None = None,
    html: Path | None = None,
    force: Force = False,
    top_k: OptionalCount = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Embed lines of standard input, or rows of --in. Or find nearest texts, solve analogies,
    compare one word's vectors in context.

    pool: mean, first, or last (for decoders); default: the model's own, or mean.
    no_normalize: Do not scale vectors to length 1.
    prompt: Name of the prompt of a sentence model that stands before each text.
    layer: Layer of the vectors; 0: the static embedding; default: the last.
    out: Write the vectors to this .npy file instead, or the rows of --in with them to a table.
    near: Find the nearest lines of this file: texts, or the output of embed.
    analogy: Solve lines such as: king - man + woman.
    vectors: Words with vectors for --analogy, instead of a RUN's own.
    word: Compare this word's vectors in all lines, layer by layer.
    html: Also draw the comparison of --word in this .html file.
    top_k: Number of results; default 10.
    """
    options = {"run": run, "pool": pool, "no_normalize": no_normalize, "layer": layer, "in": inp}
    options |= {"near": near, "analogy": analogy, "vectors": vectors, "word": word, "html": html}
    options |= {"field": field, "out": out, "resume": resume, "top_k": top_k, "json": json}
    options |= {"prompt": prompt}
    _check(given(options))
    files = _files(inp, out, html, field, resume, force, json)
    opened = None if run is None else _opened(run, device)
    if opened is None or analogy:
        _print_near(_analogies(opened, vectors, top_k or 10), json)
    elif word is not None:
        _word(opened, word, html, json)
    else:
        how = _how(opened, pool, layer, not no_normalize, prompt)
        _texts(opened, how, near, top_k or 10, files, out, json)


def _how(
    run: "Run", pool: str | None, layer: int | None, normalize: bool, prompt: str | None
) -> dict[str, Any]:
    """How vectors are made, where nothing is asked for as the model was trained to."""
    unit = run.task.normalizes and normalize
    return {"pool": pool or run.task.pool, "layer": layer, "normalize": unit, "prompt": prompt}


def _texts(
    run: "Run",
    how: dict[str, Any],
    near: Path | None,
    top: int,
    files: Files | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the vectors of texts, or what is near to each."""
    of = partial(_vectors, run, *how.values())
    if near is not None:
        _print_near(_near(run, of, near, top), as_json)
    else:
        _write_vectors(run, of, files, out)


def _opened(run: Path, device: str) -> "Run":
    from glassformer.run import load

    return load(run, device)


def _check(options: dict[str, Any]) -> None:
    """ConfigError: more than one mode, or an option or file that does not fit it."""
    modes = [name for name in options if name in MODES]
    if len(modes) > 1:
        raise ConfigError(
            f"--{modes[0]} and --{modes[1]} are two different questions; leave one of them out."
        )
    mode = modes[0] if modes else ""
    own = {option for options in MODES.values() for option in options}
    for name in options:
        if name in own - MODES[mode]:
            homes = " or ".join(f"--{home}" for home in MODES if home and name in MODES[home])
            place = f"beside --{mode}" if mode else f"without {homes}"
            raise ConfigError(f"--{name.replace('_', '-')} has no use {place}; leave it out.")
    if ("run" in options) == ("vectors" in options):
        raise ConfigError(
            "--vectors has the words' vectors itself and needs no run; leave one of them out."
            if "run" in options
            else "Give the folder of a run, or the vectors of words with --analogy --vectors FILE."
        )


def _write_vectors(run: "Run", of: "Vectors", files: Files | None, out: Path | None) -> None:
    """Write the rows of a file with their vectors, or the vectors of lines."""
    if files is None:
        _print_vectors(of, out)
        return
    if files.out.suffix == ".txt":
        raise ConfigError(f"--out {files.out} cannot hold vectors; write .npy or .jsonl.")
    predict = partial(_predicted, of, zeros=files.out.suffix == ".npy")
    predict_file(files.table(run, ("text_field",)), files, _read_text, predict)


def _read_text(values: Sequence[Any], where: str) -> str:
    from glassformer.processors.processor import cell_text

    return "" if values[0] is None else cell_text(values[0], where)


def _predicted(of: "Vectors", texts: Sequence[str], zeros: bool) -> "Predicted":
    """The vectors of rows; of an empty text null, or zeros."""
    from glassformer.data.table_output import Predicted

    vectors = of(texts)
    return Predicted({"vector": [row if zeros or row.any() else None for row in vectors]})


def _files(
    inp: Path | None,
    out: Path | None,
    html: Path | None,
    fields: Sequence[str] | None,
    resume: bool,
    force: bool,
    as_json: bool,
) -> Files | None:
    """The files of --in and --out; None without --in, when --out is an array of the lines."""
    if out is not None and as_json:
        raise ConfigError(
            "--out writes a table and nothing is printed, so --json has no use; leave one of them "
            "out."
        )
    check_output("--html", html, (".html",), force)
    if inp is not None or fields or resume:
        return Files.checked(inp, out, fields, resume, force, vectors=True)
    check_output("--out", out, (".npy",), force)
    return None


def _vectors(
    run: "Run",
    how: str,
    layer: int | None,
    normalize: bool,
    prompt: str | None,
    texts: Sequence[str],
) -> "np.ndarray":
    from glassformer.tasks.predict.embed import embed as vectors_of

    _ = run.tokenizer
    reader = run.task.text_reader(prompt)
    return vectors_of(run.model, reader, texts, how, layer, normalize, empty="zeros")


def _print_vectors(of: "Vectors", out: Path | None) -> None:
    """Print a vector for each line as it comes, or gather them in a file."""
    import numpy as np

    from glassformer.core.files import replacing

    rows = [of([])]
    for lines, vectors in _embedded(of):
        if out is not None:
            rows.append(vectors)
            continue
        for line, vector in zip(lines, vectors, strict=True):
            # nine digits distinguish neighbouring float32
            exact = [float(f"{value:.9g}") for value in vector.tolist()]
            print_json({"text": line, "vector": exact if vector.any() else None})
    if out is not None:
        with replacing(out) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(rows))


def _embedded(of: "Vectors") -> "Iterator[tuple[Sequence[str], np.ndarray]]":
    """Lines of standard input with their vectors, as they come."""
    of([])  # a model that has no vectors is refused before a line is waited for
    for _, lines in numbered(chunks(TOGETHER)):
        yield lines, of(lines)


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


def _near(run: "Run", of: "Vectors", path: Path, top: int) -> Iterator[Near]:
    """The texts of a file that are nearest to each line.

    The file is one that `embed` wrote (a .npy has no texts), or any other with a text in each line.
    """
    from glassformer.inspect.vectors import lines_of, nearest, read_array, read_named

    if path.suffix in (".npy", ".jsonl"):
        texts, vectors = ([], read_array(path)) if path.suffix == ".npy" else read_named(path)
    else:
        texts = [line for _, line in lines_of(path)]
        vectors = of(texts)
    if not len(vectors):
        raise DataError(
            f"{path} is empty, so that nothing in it is near to anything; give a file with lines."
        )
    width = run.model.config.d_model
    if vectors.shape[1] != width:
        raise DataError(
            f"The vectors of {path} have {counted(vectors.shape[1], 'number')} and those of "
            f"{run.folder} {width}; they are of another model."
        )
    for lines, queries in _embedded(of):
        for line, query, indices, values in zip(
            lines, queries, *nearest(queries, vectors, top), strict=True
        ):
            pairs = zip(indices.tolist(), values.tolist(), strict=True) if query.any() else ()
            yield line, [(texts[i] if texts else f"row {i + 1}", value) for i, value in pairs]


def _analogies(run: "Run | None", file: Path | None, top: int) -> Iterator[Near]:
    """The words nearest to the expression of each line, by a run's vectors or those of a file."""
    from glassformer.inspect.vectors import model_words, read_words

    if run is not None:
        words = model_words(run.model, run.reader.tokenizer, str(run.folder))
    else:
        assert file is not None
        words = read_words(file)
    for first, lines in numbered(chunks(TOGETHER)):
        for number, line in enumerate(lines, first):
            try:
                yield line, words.analogy(line, top) if line.strip() else []
            except DataError as error:
                raise DataError(f"Line {number}: {error}") from None


def _word(run: "Run", word: str, html: Path | None, as_json: bool) -> None:
    """Compare the vectors of one word in all the lines."""
    from glassformer.core.files import write_text
    from glassformer.pages.word_contexts import contexts_html

    look = run.contexts(word, [line for lines in chunks(TOGETHER) for line in lines])
    found = f"{look.word!r} in {counted(len(look.occurrences), 'context')}"
    if html is not None:
        write_text(html, contexts_html(look, run.folder.name))
        sys.stderr.write(f"{found}: {html}\n")
    if not as_json:
        print(f"{found}, cosine similarities in {run.folder.name}\n")
        _print_contexts(look)
        return
    layers = [
        {"layer": n, "mean": float(look.pairs[n].mean()), "similarities": table.round(6).tolist()}
        for n, table in enumerate(look.similarities)
    ]
    occurrences = [vars(one) for one in look.occurrences]
    print_json({"word": look.word, "occurrences": occurrences, "layers": layers})


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
