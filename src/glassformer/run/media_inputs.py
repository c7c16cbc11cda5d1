"""Pictures and recordings as a user gives them, files or arrays, as patches for a model; and rows
of parts with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.axes import Float, Tensor
from glassformer.data.example import Example
from glassformer.data.formats.contents import content, source_at
from glassformer.data.pictures import decode
from glassformer.data.recordings import sound
from glassformer.data.sources import Source
from glassformer.errors import DataError, suggest
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.processors.parts import TEXT, PartsTokenizer

Sensed = str | Path | np.ndarray | tuple[np.ndarray, int]
"""A file (also a member of a zip archive); pixels uint8 [H, W, C]; or samples float [T] and their
number a second."""
Given = str | Mapping[str, Sensed]
"""A part: a text, or {"text": TEXT}, {"image": FILE or pixels}, {"audio": FILE or (samples,
rate)}."""


def patches_of(
    reader: ImageReader | AudioReader, things: Sequence[Sensed]
) -> Float[Tensor, "N T P"]:
    """The patches of pictures or recordings; DataError: a file that cannot be read, or something of
    another kind."""
    if isinstance(reader, ImageReader):
        pixels = np.stack([reader.fit(*_pixels(thing)) for thing in things])
        return reader.patches(reader.normalized(pixels))
    clips = np.stack([reader.clip(*_samples(thing)) for thing in things])
    return reader.patches(reader.spectrogram(clips))


def example_of(
    tokenizer: PartsTokenizer,
    readers: Mapping[str, ImageReader | AudioReader],
    parts: Sequence[Given],
) -> Example:
    """The sequence of parts; DataError: a part of a kind that the model does not read, or one that
    cannot be read."""
    found: list[tuple[str, str | np.ndarray]] = []
    for kind, thing in map(part_of, parts):
        if kind not in (TEXT, *readers):
            raise DataError(f"a part was given as {kind}; {suggest(kind, (TEXT, *readers))}")
        found.append(
            (kind, thing if kind == TEXT else patches_of(readers[kind], [thing])[0].numpy())
        )
    return tokenizer.example(found)


def part_of(given: Any) -> tuple[str, Any]:
    """A part's kind, and its text or what it is read from; DataError: it is no part."""
    if isinstance(given, str):
        return TEXT, given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise DataError(
            f"a part is a text, or one {{KIND: VALUE}} by itself, not {given!r:.60}; give each "
            f"alone"
        )
    ((kind, thing),) = given.items()
    if kind == TEXT and not isinstance(thing, str):
        raise DataError(f"a part of kind {TEXT} is a text, not {thing!r:.60}; change it")
    return kind, thing


def _pixels(thing: Sensed) -> tuple[np.ndarray, str]:
    if isinstance(thing, tuple):
        raise DataError(
            "this model reads pictures, and samples of sound were given; give a file or pixels"
        )
    if isinstance(thing, np.ndarray):
        if (
            thing.dtype != np.uint8
            or thing.ndim != 3
            or thing.shape[2] not in (1, 3)
            or not thing.size
        ):
            raise DataError(
                f"pixels are uint8 [H, W, 1 or 3], not {thing.dtype} {list(thing.shape)}; "
                f"change the array"
            )
        return thing, "the picture"
    return decode(content(_source(thing)), str(thing)), str(thing)


def _samples(thing: Sensed) -> tuple[np.ndarray, int]:
    if isinstance(thing, np.ndarray):
        raise DataError(
            "this model hears recordings, and an array alone has no rate; give a file or "
            "(samples, rate)"
        )
    if not isinstance(thing, tuple):
        return sound(_source(thing))
    samples, rate = np.asarray(thing[0]), thing[1]
    if samples.ndim != 1 or samples.dtype.kind != "f" or rate < 1:
        found = f"{samples.dtype} {list(samples.shape)} with the rate {rate}"
        raise DataError(
            f"samples are float [T] from -1 to 1 with a rate above 0, not {found}; change them"
        )
    return samples, rate


def _source(thing: str | Path) -> Source:
    return source_at(str(Path(thing).expanduser().absolute()))
