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

from abc import ABC
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from glassformer.core.errors import ConfigError, brief

Files = Callable[[str, Any], Any]
"""Reads the file of a kind at an address, or writes one and returns its address."""


class RequestInputs(ABC):
    """The inputs of a processor, as requests have them."""

    name: ClassVar[str]
    """Name of the kind of input in a recipe."""

    def media(self) -> Mapping[str, Any]:
        """The processors of images and audio, by medium."""
        return {}

    def from_request(self, value: Any, read: Files) -> Any:
        """Return the input of a request as `encode` takes it.

        ConfigError: no input, or one that the model does not read.
        """
        part = partial(self.part_from_request, read=read)
        match value:
            case str() | {"text": _}:
                return part(value)
            case dict():
                return [part(value)]
            case [] | None:
                raise ConfigError("The input is empty; give at least a word, or a file.")
            case [str() as only]:
                return (only,)
            case [_, _] if all(isinstance(side, str) or _are_ids(side) for side in value):
                return tuple(value)
            case [list() as parts, str() as answer]:
                return [*map(part, parts)], answer
            case list():
                return value if _are_ids(value) else [*map(part, value)]
        raise ConfigError(
            f"{brief(value)} is no input; give a text, a list of texts and parts, or of token ids."
        )

    def part_from_request(self, value: Any, read: Files) -> Any:
        """Return a text, or a file by its kind; ConfigError: the model does not read it."""
        media = self.media()
        forms = ["a text"] if self.name not in media else []
        match [*value.items()] if isinstance(value, dict) else [("text", value)]:
            case [("text", str() as text)] if forms:
                return text
            case [(kind, str() as where)] if kind in media:
                return {kind: read(kind, where)}
        forms += [f'{{"{kind}": "data:{kind}/...;base64,..."}}' for kind in media]
        known = " or ".join(forms)
        raise ConfigError(f"{brief(value)} is no part that this model reads; give {known}.")

    def to_request(self, given: Any, write: Files) -> Any:
        """Return an input as a request has it; ConfigError: it is none."""
        match given:
            case str() | int():
                return given
            case {**parts} if len(parts) == 1:
                ((kind, thing),) = parts.items()
                return {kind: thing if kind == "text" else write(str(kind), thing)}
            case list() | tuple():
                return [RequestInputs.to_request(self, one, write) for one in given]
        if hasattr(given, "tolist"):  # ids as an array or a tensor
            return self.to_request(given.tolist(), write)
        raise ConfigError(f"{brief(given)} is no input; give what gf.look takes.")


def _are_ids(value: Any) -> bool:
    """Whether a value is a list of token ids; ConfigError: a number that is none."""
    if not isinstance(value, list) or not value or not all(type(i) is int for i in value):
        return False
    if not all(0 <= i < 1 << 31 for i in value):
        raise ConfigError(
            f"A token id is a number from 0, and the input holds {min(value)} to {max(value)}."
        )
    return True
