"""Inputs as they come over the wire, as what `Run.look` takes; and back, for addresses of pictures
and sounds.

    "the cat sat"                                       a text
    ["a dog runs", "ein Hund läuft"]                    a source and its target; or a pair of texts
    [12, 7, 3]      [[12, 7, 3], "ein Hund"]            token ids; also of a source, of a target, or of both
    {"image": PICTURE}     {"audio": SOUND}             one of them alone
    [{"image": PICTURE}, "what is it?"]                 parts in their order
    [[{"image": PICTURE}, "what is it?"], "a dog"]      parts, and the answer that is being written

PICTURE and SOUND are files as addresses, `data:image/png;base64,...`, or `example:3`, which the run
has itself. Never the path of a file: a page that is opened from a link must not read what it likes
from the disk.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.data.pictures import decode
from glassformer.errors import ConfigError
from glassformer.media.wav import read_wav
from glassformer.serve.explorer.requests import brief

MOST_PARTS = 64
EXAMPLE = "example:"
Sensed = np.ndarray | tuple[np.ndarray, int]
"""Pixels uint8 [H, W, C], or samples and their rate."""


def given(value: Any, examples: Mapping[str, Sequence[Sensed]], alone: str = "") -> Any:
    """What an input is for `Run.look`; `examples` by their kinds, `alone` the kind of a model that
    reads nothing else.

    ConfigError: no input, or one that such a model does not read; DataError: no such file.
    """
    if alone and not (isinstance(value, dict) and value.keys() == {alone}):
        raise ConfigError(
            f'This model reads one {alone}, and {brief(value)} is none; give {{"{alone}": '
            f"ADDRESS}}."
        )
    match value:
        case str():
            return value
        case dict():
            (part,) = _parts([value], examples)
            return part if isinstance(part, str) else next(iter(part.values()))
        case [] | None:
            raise ConfigError("The input is empty; give at least a word, or a picture.")
        case [first, second] if _side(first) and _side(second):
            return first, second
        case [list() as parts, str() as answer] if len(parts) <= MOST_PARTS:
            return _parts(parts, examples), answer
        case list() if _ids(value) is not None:
            return value
        case list() if len(value) <= MOST_PARTS:
            return _parts(value, examples)
        case list():
            raise ConfigError(
                f"The input has {len(value)} parts, more than {MOST_PARTS}; give fewer."
            )
    raise ConfigError(
        f"{brief(value)} is no input; give a text, a list of texts and parts, or of token ids."
    )


def _side(value: Any) -> bool:
    """Whether this is one side of a pair: a text, or token ids."""
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and _ids(value) is not None
    )


def _ids(value: list[Any]) -> list[int] | None:
    """Token ids, if there is nothing else among them; ConfigError: a number that is none."""
    if not all(type(i) is int for i in value):
        return None
    if not all(0 <= i < 1 << 31 for i in value):
        raise ConfigError(
            f"A token id is a number from 0, and the input holds {min(value)} to {max(value)}."
        )
    return value


def _parts(
    values: list[Any], examples: Mapping[str, Sequence[Sensed]]
) -> list[str | dict[str, Sensed]]:
    found: list[str | dict[str, Sensed]] = []
    for value in values:
        match value:
            case str():
                found.append(value)
            case {"text": str(words), **others} if not others:
                found.append(words)
            case {"image": str(where), **others} if not others:
                found.append({"image": _sensed("image", where, examples)})
            case {"audio": str(where), **others} if not others:
                found.append({"audio": _sensed("audio", where, examples)})
            case _:
                raise ConfigError(
                    f'{brief(value)} is no part; give a text, {{"image": ADDRESS}} or '
                    f'{{"audio": ADDRESS}}.'
                )
    return found


def _sensed(kind: str, where: str, examples: Mapping[str, Sequence[Sensed]]) -> Sensed:
    if where.startswith(EXAMPLE):
        own, number = examples.get(kind, ()), where.removeprefix(EXAMPLE)
        if not (
            number.isascii() and number.isdigit() and len(number) < 6 and int(number) < len(own)
        ):
            there = f"its examples are 0 to {len(own) - 1}" if own else "it has none"
            raise ConfigError(f"There is no {brief(where)} of kind {kind} in this run; {there}.")
        return own[int(number)]
    head, comma, body = where.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise ConfigError(
            f'{brief(where)} is no file; give it as "data:{kind}/...;base64,...", or as '
            f'"example:0".'
        )
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(
            f"The {kind} is not whole base64 ({error}); send the file again."
        ) from None
    if kind == "image":
        return decode(raw, "the picture")
    samples, rate = read_wav(raw, "the recording")
    return samples.mean(axis=1, dtype=np.float32), rate
