"""`glassformer demo lm`: a language model on Python's own documentation.

Every Python installation has this text: the language reference and the standard library's
docstrings.
"""

import hashlib
import inspect
import math
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from glassformer.demos.kit import Shown, table
from glassformer.run import Run

PROMPT = "Return a new"
SMOOTHING = 8
"""Pseudo-counts of the unigram distribution in that of bigrams."""
LEFT_OUT = re.compile(
    r".*test|\.|config-|(idlelib|lib2to3|turtledemo|ensurepip|pydoc_data|(site|dist)-packages)$"
)
# A triple-quoted string at the top of a file or right after a line that ends in a colon. Python's
# own parser finds the same strings in ten times the time (10 s for the whole library).
_DOCSTRING = re.compile(
    r"(?:\A(?:[ \t]*(?:#[^\n]*)?\n)*|:[ \t]*(?:#[^\n]*)?\n\s*)"
    r"[rRuU]?(\"\"\"|''')((?:[^\\]|\\.)*?)\1",
    re.DOTALL,
)


def write_documents(folder: Path) -> None:
    """Write each document as a text file into FOLDER/documents."""
    (folder / "documents").mkdir()
    for number, (name, text) in enumerate(python_documents()):
        path = folder / "documents" / f"{number:04}-{name}.txt"
        path.write_text(text, encoding="utf-8", newline="")


def python_documents() -> list[tuple[str, str]]:
    """Name and text of every document: one per topic of the language reference and one per module
    with docstrings.

    Sorted by a hash of the name, which mixes topics and modules, so that the last documents
    (validation) are like the others.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave it out
        found = []
    else:
        found = [(f"topic/{name}", inspect.cleandoc(text)) for name, text in topics.items()]
    found += _modules()
    found.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    return [(name.replace("/", "-"), text) for name, text in found]


def docstrings(source: str) -> list[str]:
    """The docstrings of a module's source in order, without indentation, escapes as written."""
    return [inspect.cleandoc(found[2]) for found in _DOCSTRING.finditer(source)]


def _modules() -> Iterator[tuple[str, str]]:
    """The modules of the standard library that have docstrings; none without sources."""
    library = Path(sysconfig.get_path("stdlib"))
    for file in library.rglob("*.py"):
        names = file.relative_to(library).with_suffix("").parts
        if any(LEFT_OUT.match(name) for name in names):
            continue
        with suppress(OSError, UnicodeDecodeError):
            found = docstrings(file.read_text(encoding="utf-8"))
            if text := "\n\n".join(filter(None, found)):
                yield f"module/{'.'.join(names)}", text


def bits_per_byte(
    train: np.ndarray, test: np.ndarray, n_bytes: int, vocab_size: int
) -> dict[str, float]:
    """Bits per byte of three guesses at each token of `test` but the first.

    Uniform: 1 / V. Unigram: p(b) = (N(b) + 1) / (N + V). Bigram: p(b | a) = (N(ab) + K p(b)) /
    (N(a) + K), K = 8 (Dirichlet smoothing), N counts of the training tokens.
    """
    counts = np.bincount(train, minlength=vocab_size)
    pairs = Counter(pairwise(train.tolist()))
    seen = np.array([pairs[pair] for pair in pairwise(test.tolist())])
    unigram = ((counts + 1.0) / (counts.sum() + vocab_size))[test[1:]]
    bigram = (seen + SMOOTHING * unigram) / (counts[test[:-1]] + SMOOTHING)
    return {
        "a uniform guess": len(seen) * math.log2(vocab_size) / n_bytes,
        "a unigram guess": float(-np.log2(unigram).sum()) / n_bytes,
        "a bigram guess": float(-np.log2(bigram).sum()) / n_bytes,
    }


def show(run: Run) -> Shown:
    """Bits per byte beside n-gram baselines, and a text."""
    assert run.recipe is not None
    stored = run.processor.load_stored(run.recipe.data, run.folder)
    train, test = stored["train"], stored["validation"]
    bits = bits_per_byte(train.tokens, test.tokens, test.n_bytes, run.model.config.vocab_size)
    bits["this model"] = run.evaluate()["bits_per_byte"]
    text = PROMPT + run.generate(PROMPT)
    lines = [
        "bits per byte of held-out text:",
        *table(bits, "6.3f"),
        f"\n{PROMPT!r} continued:\n",
        "    " + text.strip().replace("\n", "\n    "),
    ]
    return Shown({"bits_per_byte": bits, "text": text}, lines)
