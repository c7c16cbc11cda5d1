"""Micro-batches of predictions, and their inputs.

Each is a micro-batch: inputs of several requests for the same model and options are computed
together, step by step: a step of a search, or a few sequences. Texts are tokenized beside it.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Work
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.service import Service


@dataclass(frozen=True)
class Batch:
    """Inputs to be computed together with those of others with the same key; `n_tokens`: those that
    are read, where the reply says it."""

    served: Served
    key: tuple[Any, ...]
    work: Work
    inputs: Sequence[Any]
    n_tokens: int | None = None
    weight: int = 1

    async def value(self, service: Service, call: Admitted, facts: Facts) -> dict[str, Any]:
        """Compute the reply, with what `work` gives for each input."""
        key = self.served.id, *self.key
        found = await asyncio.wrap_future(service.engine.batch(key, self.work, self.inputs))
        data = [{"index": i, **one} for i, one in enumerate(found)]
        reply = {"object": "list", "data": data, "model": self.served.id}
        if self.n_tokens is None:
            return reply
        facts.prompt_tokens = n = self.n_tokens
        return reply | {"usage": {"prompt_tokens": n, "total_tokens": n}}


def inputs_of(served: Served, asked: Any) -> list[Any]:
    """The inputs of a request as a run reads them: one text or file, or a list of inputs.

    Files come by their content, never by a path: a text for a model of images would be one, and is
    refused. ApiError: a file that is none; DataError: it cannot be decoded.
    """
    several = asked.input if isinstance(asked.input, list) else [asked.input]
    return [_input(served, one) for one in several]


def _input(served: Served, given: Any) -> Any:
    medium, several = served.run.processor.medium, isinstance(given, list)
    parts = [_part(served, one) for one in (given if several else [given])]
    if medium and (several or isinstance(parts[0], str)):
        form = f'{{"{medium}": "data:...;base64,..."}}'
        raise ApiError(400, f"input: the model {served.id!r} reads {form}.", "input")
    if medium:
        return parts[0][medium]
    return tuple(parts) if several or not isinstance(parts[0], str) else parts[0]


def _part(served: Served, given: Any) -> Any:
    """A text, or a file as the run takes it."""
    if isinstance(given, str):
        return given
    if given.text is not None:
        return given.text
    media = served.run.processor.media()
    kind = "audio" if given.image is None else "image"
    if kind not in media:
        known = " and ".join(("text", *media))
        raise ApiError(400, f"input: the model {served.id!r} reads {known}, not {kind}.", "input")
    head, comma, body = getattr(given, kind).partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise ApiError(
            400, f'input: {kind} is given as "data:{kind}/...;base64,...", its content.', "input"
        )
    try:
        raw = b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"input: the {kind} is not valid base64.", "input") from None
    return {kind: media[kind].from_file(raw)}
