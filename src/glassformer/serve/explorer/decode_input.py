"""Inputs of requests as `Run.look` takes them.

    "the cat sat"                                       a text
    ["a dog runs", "ein Hund läuft"]                    a source and its target; or a pair of texts
    [12, 7, 3]      [[12, 7, 3], "ein Hund"]            token ids; also of a source, a target, both
    {"image": PICTURE}     {"audio": SOUND}             one of them alone
    [{"image": PICTURE}, "what is it?"]                 parts in their order
    [[{"image": PICTURE}, "what is it?"], "a dog"]      parts, and the answer so far

PICTURE and SOUND are files as addresses, `data:image/png;base64,...`, or `example:3` of the run.
Never the path of a file: a page that is opened from a link must not read the disk.
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
Examples = Mapping[str, Sequence[Sensed]]


def decode_input(value: Any, examples: Examples, medium: str = "") -> Any:
    """An input for `Run.look`; `examples` by medium, `medium` the only one that the model reads.

    ConfigError: no input, or one that such a model does not read; DataError: no such file.
    """
    if medium and not (isinstance(value, dict) and value.keys() == {medium}):
        raise ConfigError(
            f'This model reads one {medium}, and {brief(value)} is none; give {{"{medium}": '
            f"ADDRESS}}."
        )
    match value:
        case str():
            return value
        case dict():
            part = _part(value, examples)
            return part if isinstance(part, str) else next(iter(part.values()))
        case [] | None:
            raise ConfigError("The input is empty; give at least a word, or a picture.")
        case [first, second] if _side(first) and _side(second):
            return first, second
        case [list() as parts, str() as answer] if len(parts) <= MOST_PARTS:
            return [_part(one, examples) for one in parts], answer
        case list() if _ids(value):
            return value
        case list():
            return _parts(value, examples)
    raise ConfigError(
        f"{brief(value)} is no input; give a text, a list of texts and parts, or of token ids."
    )


def _parts(values: list[Any], examples: Examples) -> list[str | dict[str, Sensed]]:
    if len(values) > MOST_PARTS:
        raise ConfigError(f"The input has {len(values)} parts, more than {MOST_PARTS}; give fewer.")
    return [_part(one, examples) for one in values]


def _side(value: Any) -> bool:
    """Whether this is one side of a pair: a text, or token ids."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and _ids(value))


def _ids(value: list[Any]) -> bool:
    """Whether these are token ids; ConfigError: a number that is none."""
    if not all(type(i) is int for i in value):
        return False
    if not all(0 <= i < 1 << 31 for i in value):
        raise ConfigError(
            f"A token id is a number from 0, and the input holds {min(value)} to {max(value)}."
        )
    return True


def _part(value: Any, examples: Examples) -> str | dict[str, Sensed]:
    match value:
        case str():
            return value
        case {"text": str(words), **others} if not others:
            return words
        case {"image": str(where), **others} if not others:
            return {"image": _medium("image", where, examples)}
        case {"audio": str(where), **others} if not others:
            return {"audio": _medium("audio", where, examples)}
    raise ConfigError(
        f'{brief(value)} is no part; give a text, {{"image": ADDRESS}} or {{"audio": ADDRESS}}.'
    )


def _medium(kind: str, where: str, examples: Examples) -> Sensed:
    if where.startswith(EXAMPLE):
        own, number = examples.get(kind, ()), where.removeprefix(EXAMPLE)
        digits = number.isascii() and number.isdigit() and len(number) < 6
        if not (digits and int(number) < len(own)):
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
