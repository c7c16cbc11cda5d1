"""Inputs of requests: JSON to what processors encode, and back.

    "the cat sat"                                       a text
    ["a dog runs", "ein Hund läuft"]                    a source and its target; or a pair of texts
    [12, 7, 3]      [[12, 7, 3], "ein Hund"]            token ids; also of a source, a target, both
    {"image": ADDRESS}     {"audio": ADDRESS}           one image or audio clip
    [{"image": ADDRESS}, "what is it?"]                 parts in their order
    [{"text": "a dog"}, "runs"]                         parts, not a source and its target
    [[{"image": ADDRESS}, "what is it?"], "a dog"]      parts, and the answer so far

ADDRESS is a file as the server reads and writes it.
"""

from collections.abc import Callable, Collection
from typing import Any

from glassformer.core.errors import ConfigError, brief

FileReader = Callable[[str, str], Any]
"""Kind and address of a file to its content: pixels, or samples and their rate."""
FileWriter = Callable[[str, Any], str]
"""Kind and content of a file, or its path, to its address."""


def decode(value: Any, part: Callable[[Any], Any]) -> Any:
    """Return the input of a request, each part decoded by `part`; ConfigError: it is none."""
    match value:
        case str() | {"text": _}:
            return part(value)
        case dict():
            return [part(value)]
        case [] | None:
            raise ConfigError("The input is empty; give at least a word, or a file.")
        case [str() as only]:
            return (only,)
        case [first, second] if _is_side(first) and _is_side(second):
            return first, second
        case [list() as parts, str() as answer]:
            return [*map(part, parts)], answer
        case list():
            return value if _are_ids(value) else [*map(part, value)]
    raise ConfigError(
        f"{brief(value)} is no input; give a text, a list of texts and parts, or of token ids."
    )


def decode_part(value: Any, media: Collection[str], read: FileReader, text: bool = True) -> Any:
    """Return a text (unless `text` is off), or a file of one of the `media` by its kind.

    ConfigError: it is neither.
    """
    match [*value.items()] if isinstance(value, dict) else [("text", value)]:
        case [("text", str() as own)] if text:
            return own
        case [(kind, str() as where)] if kind in media:
            return {kind: read(kind, where)}
    forms = [f'{{"{kind}": "data:{kind}/...;base64,..."}}' for kind in media]
    known = " or ".join(["a text", *forms] if text else forms)
    raise ConfigError(f"{brief(value)} is no part that this model reads; give {known}.")


def to_json(given: Any, write: FileWriter) -> Any:
    """Return an input as a request has it; ConfigError: it is none."""
    match given:
        case str() | int():
            return given
        case {**parts} if len(parts) == 1:
            ((kind, thing),) = parts.items()
            return {kind: thing if kind == "text" else write(str(kind), thing)}
        case list() | tuple():
            return [to_json(one, write) for one in given]
    if hasattr(given, "tolist"):  # ids as an array or a tensor
        return to_json(given.tolist(), write)
    raise ConfigError(f"{brief(given)} is no input; give what gf.look takes.")


def _is_side(value: Any) -> bool:
    """Whether a value is one side of a pair: a text, or token ids."""
    return isinstance(value, str) or (isinstance(value, list) and _are_ids(value))


def _are_ids(value: list[Any]) -> bool:
    """Whether a list holds token ids; ConfigError: a number that is none."""
    if not value or not all(type(i) is int for i in value):
        return False
    if not all(0 <= i < 1 << 31 for i in value):
        raise ConfigError(
            f"A token id is a number from 0, and the input holds {min(value)} to {max(value)}."
        )
    return True
