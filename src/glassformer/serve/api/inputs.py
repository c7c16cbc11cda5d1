"""Inputs of predictions as a run reads them; files come by their content, never by a path."""

import binascii
from base64 import b64decode
from typing import Any

from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import File


def inputs_of(served: Served, given: Any) -> list[Any]:
    """The inputs of a request: one text or file, or a list of inputs. ApiError: a file that is
    none; DataError: it cannot be decoded."""
    several = given if isinstance(given, list) else [given]
    return [_input(served, one) for one in several]


def texts_in(given: Any) -> list[str]:
    """All texts of a request's input."""
    match given:
        case str():
            return [given]
        case File():
            return [given.text or ""]
        case _:
            return [text for one in given for text in texts_in(one)]


def _input(served: Served, given: str | File | list[str | File]) -> Any:
    """One input; a text for a model of images would be a path, and is refused."""
    processor = served.run.processor
    if processor.medium:
        if isinstance(given, File) and given.text is None:
            return _file(served, given)[processor.medium]
        form = f'{{"{processor.medium}": "data:...;base64,..."}}'
        raise ApiError(400, f"input: the model {served.id!r} reads {form}.", "input")
    if isinstance(given, list):
        return tuple(_part(served, one) for one in given)
    part = _part(served, given)
    return part if isinstance(part, str) else (part,)


def _part(served: Served, given: str | File) -> str | dict[str, Any]:
    """A text, or a file as the run takes it."""
    if isinstance(given, str):
        return given
    return _file(served, given) if given.text is None else given.text


def _file(served: Served, given: File) -> dict[str, Any]:
    media = served.run.processor.media()
    kind, held = ("image", given.image) if given.image is not None else ("audio", given.audio)
    if kind not in media or held is None:
        known = " and ".join(("text", *media))
        raise ApiError(400, f"input: the model {served.id!r} reads {known}, not {kind}.", "input")
    head, comma, body = held.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise ApiError(
            400, f'input: {kind} is given as "data:{kind}/...;base64,...", its content.', "input"
        )
    try:
        raw = b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"input: the {kind} is not valid base64.", "input") from None
    return {kind: media[kind].from_file(raw)}
