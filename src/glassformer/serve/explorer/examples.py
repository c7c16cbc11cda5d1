"""Example inputs of a run, from what its folder keeps of the validation data, else neutral ones.

    running text   the beginnings of documents in tokens/         pairs      tokens/validation.jsonl
    tags, classes  the samples of training                       pictures   pixels/validation.npy, sounds clips/

Only the run folder is read: the data may have moved, or be large.
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
from glassformer.serve.explorer.decode_input import EXAMPLE, Sensed, decode_input
from glassformer.training.history import read_metrics

MOST, TOKENS = 6, 48
"""Examples of a run, and tokens of one from running text."""
SENTENCES = (
    "The chicken didn't cross the road because it was too tired.",
    "The chicken didn't cross the road because it was too wide.",
    "a dog runs",
    "a dog",
)
"""Note 001's, where the last word decides what "it" is; shorter ones for short models."""
FILE_NAMES = re.compile(r"\[[^\[\]]*\]")
STARTS = (re.compile(r"\n\s*\n\s*"), re.compile(r"[.!?][\"'”’)]*\s+"), re.compile(r"\s+"))
"""Where a piece of running text may begin, the best first: a paragraph, a sentence, a word."""
SPLITS = ("validation", "train")
FOLDERS = {"image": "pixels", "audio": "clips"}
RATE = 8000


def capabilities(run: Run) -> frozenset[str]:
    """What a run reads and answers with: generates, masked, tags, classes, pair, parts, image,
    audio, draws."""
    head = {"lm": "generates", "masked_lm": "masked", "tag": "tags", "classify": "classes"}
    found = {head.get(run.model.config.head, "vectors"), *run.readers}
    if run.senses is not None:
        found.add("audio" if isinstance(run.senses, AudioReader) else "image")
    present = {"pair": run.pair, "parts": run.readers or None, "draws": run.palette}
    return frozenset(found | {name for name, value in present.items() if value is not None})


def sole_medium(has: frozenset[str]) -> str:
    """The medium of a model that reads one image or recording and nothing else, else ""."""
    return "" if "parts" in has else next((name for name in FOLDERS if name in has), "")


def reads_running_text(has: frozenset[str]) -> bool:
    """Whether a model reads a stretch of running text, and nothing else."""
    other = {"pair", "parts", "draws", *FOLDERS}
    return bool(has & {"generates", "masked"}) and not has & other


def media_of(run: Run) -> dict[str, list[Sensed]]:
    """The example images and recordings by medium: `example:0`, `example:1`, ..."""
    found: dict[str, list[Sensed]] = {}
    for kind in capabilities(run) & FOLDERS.keys():
        array = _array(run.folder / FOLDERS[kind])
        reader = run.senses or run.readers.get(kind)
        if array is not None:
            rate = reader.config.rate if isinstance(reader, AudioReader) else None
            rows = [np.array(row) for row in array[:MOST]]
            found[kind] = [row if rate is None else (row, rate) for row in rows]
    return found


def examples(run: Run) -> list[Any]:
    """Example inputs as requests have them, at least one; the model can read all of them."""
    has = capabilities(run)
    if kind := sole_medium(has):
        count = len(media_of(run).get(kind, ()))
        return [{kind: f"{EXAMPLE}{i}"} for i in range(count)] or [_blank(kind)]
    if "parts" in has:
        return _mixtures(run)
    if "pair" in has:
        return _fitting(run, _pairs(run)) or _fitting(run, [["A dog runs.", ""], ["a", ""]])
    own = _beginnings(run) if reads_running_text(has) else _sampled(run)
    return _fitting(run, own) or _fitting(run, SENTENCES)[:2] or ["a"]


def first(run: Run) -> Any:
    """The first example as `Run.look` takes it."""
    return decode_input(examples(run)[0], media_of(run), sole_medium(capabilities(run)))


def _fitting(run: Run, inputs: Iterable[str | list[str]]) -> list[Any]:
    """Inputs that are neither too long for the model nor empty."""
    found: list[Any] = []
    for one in inputs:
        with suppress(GlassformerError):
            fed(run, one if isinstance(one, str) else tuple(one))
            found.append(one)
    return found


def _beginnings(run: Run) -> list[str]:
    """The first tokens of documents; of a few long ones, from a paragraph, sentence or word."""
    most = min(TOKENS, run.model.config.max_length)
    with suppress(GlassformerError):
        store = Store.open(run.folder / "tokens", tokens.KIND)
        for name in SPLITS:
            split = tokens.tokens_of(store, name)
            if len(split.document_ends) >= MOST:
                begins = [0, *split.document_ends[: MOST - 1].tolist()]
                found = [_decoded(run, split.tokens[begin : begin + most]) for begin in begins]
            else:
                spread = np.linspace(0, max(0, len(split.tokens) - 4 * most), MOST).astype(int)
                found = [_from_start(run, split.tokens, int(begin), most) for begin in spread]
            if texts := [text for text in dict.fromkeys(map(str.strip, found)) if text]:
                return texts
    return []


def _decoded(run: Run, ids: np.ndarray) -> str:
    return run.tokenizer.decode(ids.tolist())


def _from_start(run: Run, ids: np.ndarray, begin: int, most: int) -> str:
    """A text of `most` tokens from the first good start at or after `begin`."""
    text = _decoded(run, ids[begin : begin + 4 * most])
    if begin:
        half = len(text) // 2
        starts = (found.end() for start in STARTS if (found := start.search(text, 0, half)))
        text = text[next(starts, 0) :]
    return _decoded(run, run.tokenizer.encode(text)[:most])


def _pairs(run: Run) -> list[list[str]]:
    with suppress(GlassformerError):
        store = Store.open(run.folder / "tokens", pair_split.KIND)
        texts = pair_split.pairs_of(store, "validation").texts()
        fitting = [pair for pair in texts if 0 < len(pair.source) <= 200]
        return [[pair.source, pair.target] for pair in fitting[:MOST]]
    return []


def _sampled(run: Run) -> list[Any]:
    """The texts of the latest samples in metrics.jsonl."""
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
        if run.palette is not None:  # a text, and its picture, two rows of pixels in a line
            found = sample.splitlines()[:: 1 + -(-run.palette.config.dims[0] // 2)]
        else:  # word/TAG word/TAG[not TAG]
            tagged = (re.findall(r"(\S+)/\S+", line) for line in sample.splitlines())
            found = [" ".join(words) for words in tagged if words]
    return found[:MOST]


def _mixtures(run: Run) -> list[Any]:
    """A picture or recording of the run, and a question from its samples."""
    own = media_of(run)
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
    """The run's validation images or recordings, else those of training."""
    for name in SPLITS:
        with suppress(GlassformerError):
            array = Store.open(folder, "arrays").array(name, "arrays")
            if len(array):
                return array
    return None


def _blank(kind: str) -> dict[str, str]:
    """A black image, or silence, for a run whose folder keeps none."""
    if kind == "image":
        return {kind: images.png(np.zeros((8, 8, 1), np.uint8))}
    silence = write_wav(np.zeros(RATE // 10, np.float32), RATE)
    return {kind: f"data:audio/wav;base64,{base64.b64encode(silence).decode()}"}
