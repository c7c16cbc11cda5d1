"""Predictions of single tasks: vectors, translations, tags, classes, answers to parts.

Each is a micro-batch: inputs of several requests for the same model and options are computed
together, step by step: a step of a search, or a few sequences. Texts are tokenized beside it.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.processors.text_reader import parts_of
from glassformer.serve.api import replies, requests
from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Work
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.models import EMBEDDINGS, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.service import Service
from glassformer.serve.inputs import decode_all
from glassformer.tasks.predict.embed import embed_steps
from glassformer.tasks.predict.gradually import Steps


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


def embeddings(served: Served, asked: requests.EmbeddingRequest) -> Batch:
    """Vectors of texts."""
    model, task = served.run.model, served.run.task
    width = model.config.d_model
    if asked.dimensions not in (None, width):
        raise ApiError(
            400,
            f"dimensions: this model's vectors have {width}, not {asked.dimensions}.",
            "dimensions",
        )
    inputs = requests.several(asked.input)
    windows = [_windows(served, number, one) for number, one in enumerate(inputs)]

    def work(given: list[Any]) -> Steps[list[Any]]:
        rows = yield from embed_steps(model, given, task.pool, task.normalizes)
        return [{"object": "embedding", "embedding": form(row)} for row in rows]

    form = _base64 if asked.encoding_format == "base64" else np.ndarray.tolist
    n = sum(len(part) for own in windows for part in own)
    return Batch(served, ("embed", form), work, windows, n)


def _windows(served: Served, number: int, given: str | list[int]) -> list[np.ndarray]:
    """The sequences of an input; ApiError: it has no token, or an id that the model lacks."""
    reader, size = served.run.task.text_reader(), served.run.model.config.vocab_size
    if isinstance(given, str):
        found = reader.windows(given)
    elif max(given) >= size:
        raise ApiError(400, f"input: there is no token {max(given)} of {size}.", "input")
    else:
        parts = parts_of(np.array(given, np.int32), reader.room)
        found = [reader.framed(part) for part in parts]
    if not found:
        raise ApiError(400, f"input: text {number} has no tokens; leave it out.", "input")
    return found


def _base64(row: np.ndarray) -> str:
    """float32, the lowest byte first, in base64."""
    return b64encode(row.astype("<f4").tobytes()).decode()


def inputs_of(served: Served, asked: Any) -> list[Any]:
    """The inputs of a request."""
    given = asked.model_dump(include={"input"}, exclude_none=True)["input"]
    return decode_all(served.run, given)


ROUTES = {
    EMBEDDINGS: (requests.EmbeddingRequest, replies.Embeddings, embeddings),
}
"""The request and the reply of each route, and how a request is read."""
