"""Inputs to begin with: from what a run folder keeps of the run's own validation data, else neutral
ones.

    running text   the beginnings of documents in tokens/         pairs      tokens/validation.jsonl
    tags, classes  the samples that training wrote               pictures   pixels/validation.npy, sounds clips/

Nothing but the run folder is read: its data may have moved, or be large.
"""

import base64
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import pair_split, tokens
from glassformer.data.store import Store
from glassformer.errors import GlassformerError
from glassformer.media.audio import AudioReader
from glassformer.media.wav import write_wav
from glassformer.pages import images
from glassformer.run import Run
from glassformer.run.encode_input import fed
from glassformer.serve.explorer.decode_input import EXAMPLE, Sensed, given
from glassformer.training.history import read_metrics

MOST, TOKENS = 6, 48
"""Examples of a run, and tokens of one that is cut out of running text."""
SENTENCES = (
    "The chicken didn't cross the road because it was too tired.",
    "The chicken didn't cross the road because it was too wide.",
    "a dog runs",
    "a dog",
)
"""Note 001's, where what "it" is changes with the last word; and shorter ones for models that read
little."""
FILE_NAMES = re.compile(r"\[[^\[\]]*\]")
SPLITS = ("validation", "train")
RATE = 8000


def family(run: Run) -> str:
    """What kind of model it is: lm, masked, tag, classify, translate, image, audio, mixture,
    depiction, vectors."""
    if run.senses is not None:
        return "audio" if isinstance(run.senses, AudioReader) else "image"
    named = {
        "depiction": run.palette is not None,
        "mixture": bool(run.readers),
        "translate": run.pair is not None,
    }
    heads = {"lm": "lm", "masked_lm": "masked", "tag": "tag", "classify": "classify"}
    return next(
        (name for name, so in named.items() if so), heads.get(run.model.config.head, "vectors")
    )


def sensed(run: Run) -> dict[str, list[Sensed]]:
    """The pictures and recordings among the examples, by kind: `example:0`, `example:1`, ..."""
    found: dict[str, list[Sensed]] = {}
    for kind in (family(run), *run.readers):
        array = _array(run.folder / {"image": "pixels", "audio": "clips"}.get(kind, "none"))
        reader = run.senses or run.readers.get(kind)
        if array is not None and reader is not None:
            rate = reader.config.rate if isinstance(reader, AudioReader) else None
            rows = [np.array(row) for row in array[:MOST]]
            found[kind] = [row if rate is None else (row, rate) for row in rows]
    return found


def examples(run: Run) -> list[Any]:
    """Inputs as requests have them, at least one, all of which the model can read."""
    kind = family(run)
    if kind in ("image", "audio"):
        return [{kind: f"{EXAMPLE}{i}"} for i in range(len(sensed(run).get(kind, ())))] or [
            _blank(kind)
        ]
    if kind == "mixture":
        return _mixtures(run)
    if kind == "translate":
        return _fitting(run, _pairs(run)) or _fitting(run, [["A dog runs.", ""], ["a", ""]])
    own = _beginnings(run) if kind in ("lm", "masked") else _sampled(run)
    return _fitting(run, own) or _fitting(run, SENTENCES)[:2] or ["a"]


def first(run: Run) -> Any:
    """The first example as `Run.look` takes it."""
    return given(examples(run)[0], sensed(run), family(run) if run.senses is not None else "")


def _fitting(run: Run, inputs: Iterable[str | list[str]]) -> list[Any]:
    """Those that are not too long for the model, nor nothing to it."""
    found: list[Any] = []
    for one in inputs:
        with suppress(GlassformerError):
            fed(run, one if isinstance(one, str) else tuple(one))
            found.append(one)
    return found


def _beginnings(run: Run) -> list[str]:
    """The first tokens of documents; of one long document, of pieces that are spread over it."""
    most = min(TOKENS, run.model.config.max_length)
    with suppress(GlassformerError):
        store = Store.open(run.folder / "tokens", tokens.KIND)
        for name in SPLITS:
            split = tokens.tokens_of(store, name)
            begins = [0, *split.document_ends[: MOST - 1].tolist()]
            if len(split.document_ends) < MOST:
                begins = np.linspace(0, max(0, len(split.tokens) - most), MOST).astype(int).tolist()
            pieces = [split.tokens[begin : begin + most] for begin in begins]
            found = [run.tokenizer.decode(piece.tolist()).strip() for piece in pieces]
            if texts := [text for text in dict.fromkeys(found) if text]:
                return texts
    return []


def _pairs(run: Run) -> list[list[str]]:
    with suppress(GlassformerError):
        store = Store.open(run.folder / "tokens", pair_split.KIND)
        texts = pair_split.pairs_of(store, "validation").texts()
        fitting = [pair for pair in texts if 0 < len(pair.source) <= 200]
        return [[pair.source, pair.target] for pair in fitting[:MOST]]
    return []


def _sampled(run: Run) -> list[Any]:
    """The texts among the samples that training wrote into metrics.jsonl."""
    lines = [line for line in read_metrics(run.folder) if line.get("samples") or line.get("sample")]
    if not lines:
        return []
    rows, found = lines[-1].get("samples") or [], []
    for row in rows if isinstance(rows, list) else ():
        text = row.get("text", row.get("source")) if isinstance(row, dict) else None
        if isinstance(text, str) and text.strip():
            left, mark, right = text.partition(" / ")
            paired = bool(mark) and run.model.config.n_token_types > 1
            found.append([left, right] if paired else text)
    if not found and isinstance(sample := lines[-1].get("sample"), str):
        if (
            run.palette is not None
        ):  # a text, and its picture in characters, two rows of pixels in a line
            found = sample.splitlines()[:: 1 + -(-run.palette.config.dims[0] // 2)]
        else:  # word/TAG word/TAG[not TAG]
            tagged = (re.findall(r"(\S+)/\S+", line) for line in sample.splitlines())
            found = [" ".join(words) for words in tagged if words]
    return found[:MOST]


def _mixtures(run: Run) -> list[Any]:
    """A picture or recording of the run, and a question from its samples."""
    own = sensed(run)
    texts = [
        FILE_NAMES.sub("", text).strip() for text in _sampled(run) if isinstance(text, str)
    ] or ["What is it?"]
    found = []
    for i in range(max(1, min((len(rows) for rows in own.values()), default=1))):
        parts = {
            kind: f"{EXAMPLE}{i}" if own.get(kind) else _blank(kind)[kind] for kind in run.readers
        }
        found.append(
            [
                part if isinstance(part, str) else dict(part)
                for part in run.ordered(texts[i % len(texts)], parts)
            ]
        )
    return found


def _array(folder: Path) -> np.ndarray | None:
    """What the run kept of its validation pictures or recordings, else of its training ones."""
    for name in SPLITS:
        with suppress(OSError, ValueError):
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            if len(array):
                return array
    return None


def _blank(kind: str) -> dict[str, str]:
    """A black picture, or silence: for a run whose folder keeps none."""
    if kind == "image":
        return {kind: images.png(np.zeros((8, 8, 1), np.uint8))}
    silence = write_wav(np.zeros(RATE // 10, np.float32), RATE)
    return {kind: f"data:audio/wav;base64,{base64.b64encode(silence).decode()}"}
