"""Inputs of `gf.look` as plain values, the inverse of `decode_input`: files become addresses.

    ("a dog", "ein")                   ["a dog", "ein"]
    [{"image": "cat.png"}, "what?"]    [{"image": "data:image/png;..."}, "what?"]

A path is read here, unlike in a request.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.formats.contents import content, source_at
from glassformer.errors import ConfigError
from glassformer.media.wav import write_wav
from glassformer.pages import images
from glassformer.run import Run
from glassformer.serve.explorer.requests import brief

ADDRESSES = ("data:", "example:")


def encode_input(given: Any, run: Run) -> Any:
    """An input as plain values. ConfigError: it is no input; DataError: no such file."""
    kind = run.processor.medium
    if kind and not isinstance(given, Mapping):
        return {kind: _address(kind, given)}
    return _plain(given)


def _plain(given: Any) -> Any:
    match given:
        case str():
            return given
        case {**parts} if len(parts) == 1:
            ((kind, thing),) = parts.items()
            return {kind: thing if kind == "text" else _address(str(kind), thing)}
        case list() | tuple():
            return [_plain(one) for one in given]
        case int() | np.integer() if not isinstance(given, bool):
            return int(given)
    if hasattr(given, "tolist"):  # ids as an array or a tensor
        return _plain(given.tolist())
    raise ConfigError(f"{brief(given)} is no input; give what gf.look takes.")


def _address(kind: str, thing: Any) -> str:
    match thing:
        case str() if thing.startswith(ADDRESSES):
            return thing
        case str() | Path():
            file = Path(thing).expanduser().absolute()
            suffix = {"image": file.suffix.lstrip(".").lower() or "png", "audio": "wav"}.get(
                kind, "octet-stream"
            )
            return images.address(f"{kind}/{suffix}", content(source_at(str(file))))
        case np.ndarray() if kind == "image" and thing.dtype == np.uint8 and thing.ndim == 3:
            return images.png(thing)
        case (samples, int(rate)) if kind == "audio":
            return images.address("audio/wav", write_wav(np.asarray(samples, np.float32), rate))
    raise ConfigError(
        f"{brief(thing)} is no {kind}; give a file, pixels uint8 [H, W, C], or (samples, rate)."
    )
