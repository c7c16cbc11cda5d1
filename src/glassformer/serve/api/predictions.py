"""Micro-batches of predictions, and their inputs.

Each is a micro-batch: inputs of several requests for the same model and options are computed
together, step by step: a step of a search, or a few sequences. Texts are tokenized beside it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Work
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.models import Served
from glassformer.serve.api.service import Service
from glassformer.serve.inputs import decode_all


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
    """The inputs of a request."""
    given = asked.model_dump(include={"input"}, exclude_none=True)["input"]
    return decode_all(served.run, given)
