"""Predictions: a route for each verb, whose request is made from its choices.

request ─ read ─> Batch: inputs, encoded ─ computed ─> a row of the reply for each

Inputs of several requests for the same model and choices are computed together, in steps: a step
of a search, or a few sequences. They are encoded beside it.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AliasChoices, Field, create_model, model_validator

from glassformer.core.errors import ConfigError
from glassformer.serve.api import replies
from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Steps
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import (
    MOST_NAMES,
    MOST_STOPS,
    MOST_TEXTS,
    MOST_TOP,
    Base,
    EmbeddingRequest,
    ModelRequest,
    several,
)
from glassformer.serve.api.service import EMBEDDINGS, Served, Service
from glassformer.serve.inputs import RunInputs
from glassformer.tasks.options import OPTIONS, EmbedOptions, Options, is_local, plain_fields
from glassformer.tasks.predictors.predictor import STEP, Parsed, Predictor

MOST = {"top": MOST_TOP, "beams": 16, "n_best": 16}
"""Largest values of choices that cost the server."""
LONGEST = {"stop": MOST_STOPS, "layer": MOST_NAMES, "head": MOST_NAMES}
"""Lengths of lists that do."""
ALIASES = {"max_new_tokens": AliasChoices("max_new_tokens", "max_tokens")}


class File(Base):
    """A file by its content."""

    image: str | None = Field(None, description="data:image/png;base64,...")
    audio: str | None = Field(None, description="data:audio/wav;base64,...")
    text: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "File":
        if sum(one is not None for one in (self.image, self.audio, self.text)) != 1:
            raise ValueError("a part has one of text, image, audio")
        return self


Parts = Annotated[list[str | File], Field(fail_fast=True, min_length=1, max_length=64)]
Input = str | File | Parts
Inputs = Annotated[list[Input], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]


def request_of(verb: str) -> type[ModelRequest]:
    """The request of a verb: its inputs, and a field for each choice that is not local."""
    found: dict[str, Any] = {}
    for name, kind, choice in plain_fields(OPTIONS[verb]):
        if is_local(choice):
            continue
        field = copy(choice)
        field.default, field.validation_alias = None, ALIASES.get(name)
        if name in MOST:
            field.metadata = [*choice.metadata, *Field(le=MOST[name]).metadata]
        if name in LONGEST:
            field.metadata = [*choice.metadata, *Field(max_length=LONGEST[name]).metadata]
        found[name] = (kind | None, field)
    about = "An input, or a list of inputs: texts, files, lists of words or parts."
    found["input"] = (str | File | Inputs, Field(description=about))
    name, about = f"{verb.title()}Request", f"POST /v1/{verb}."
    return create_model(name, __base__=ModelRequest, __doc__=about, **found)


@dataclass(frozen=True)
class Batch:
    """Inputs to be computed together with those of others with the same key.

    `form`: a row of the reply from a prediction. `n_tokens`: those that are read, where the reply
    says it.
    """

    served: Served
    predictor: Predictor[Any]
    options: Options
    form: Callable[[Any], dict[str, Any]]
    inputs: list[Parsed]
    n_tokens: int | None = None
    weight: int = 1

    async def value(self, service: Service, call: Admitted, facts: Facts) -> dict[str, Any]:
        """Compute the reply, with a row for each input."""
        key = self.served.id, self.predictor.name, self.options.model_dump_json(), self.form
        found = await asyncio.wrap_future(service.engine.batch(key, self._rows, self.inputs))
        data = [{"index": i, **one} for i, one in enumerate(found)]
        reply = {"object": "list", "data": data, "model": self.served.id}
        if self.n_tokens is None:
            return reply
        facts.prompt_tokens = n = self.n_tokens
        return reply | {"usage": {"prompt_tokens": n, "total_tokens": n}}

    def _rows(self, inputs: list[Parsed]) -> Steps[list[dict[str, Any]]]:
        """Compute predictions step by step."""
        rows = list[dict[str, Any]]()
        for one in self.predictor.predict(inputs, self.options, STEP):
            if one is None:
                yield  # the turn of other requests
            else:
                rows.append(self.form(one))
        return rows


def reader_of(verb: str) -> Callable[[Served, Any], Batch]:
    """Return a function that reads the requests of a verb as micro-batches."""
    record = OPTIONS[verb]

    def read(served: Served, asked: Any) -> Batch:
        predictor = served.run.predictor(verb)
        options = record.parse(asked.model_dump(include={*record.model_fields}, exclude_none=True))
        predictor.check(options)
        inputs = [
            predictor.parse(one, options, f"input {number}", number)
            for number, one in enumerate(_inputs(served, asked), 1)
        ]
        return Batch(served, predictor, options, _as_json, inputs)

    read.__name__, read.__doc__ = verb, record.__doc__
    return read


def _inputs(served: Served, asked: Any) -> list[Any]:
    """The inputs of a request, with their files; ApiError 400: they are none of this model."""
    given = asked.model_dump(include={"input"}, exclude_none=True)["input"]
    processor, files = served.run.processor, RunInputs(served.run, examples_known=False)
    try:
        every = given if isinstance(given, list) else [given]
        return [processor.from_request(one, files.read) for one in every]
    except ConfigError as error:
        raise ApiError(400, f"input: {error}", "input") from None


def _as_json(one: Any) -> dict[str, Any]:
    return one.json()


def embeddings(served: Served, asked: EmbeddingRequest) -> Batch:
    """Vectors of texts."""
    predictor, options = served.run.predictor("embed"), EmbedOptions()
    width, size = served.run.model.config.d_model, served.run.model.config.vocab_size
    if asked.dimensions not in (None, width):
        raise ApiError(
            400,
            f"dimensions: this model's vectors have {width}, not {asked.dimensions}.",
            "dimensions",
        )
    parsed = list[Parsed]()
    for number, given in enumerate(several(asked.input)):
        if not isinstance(given, str) and max(given) >= size:
            raise ApiError(400, f"input: there is no token {max(given)} of {size}.", "input")
        parsed.append(predictor.parse(given, options))
        if not parsed[-1].windows:
            raise ApiError(400, f"input: text {number} has no tokens; leave it out.", "input")
    form = _in_base64 if asked.encoding_format == "base64" else _as_list
    return Batch(served, predictor, options, form, parsed, sum(one.about for one in parsed))


def _as_list(one: Any) -> dict[str, Any]:
    return {"object": "embedding", "embedding": one.vector.tolist()}


def _in_base64(one: Any) -> dict[str, Any]:
    """float32, the lowest byte first, in base64."""
    raw = one.vector.astype("<f4").tobytes()
    return {"object": "embedding", "embedding": b64encode(raw).decode()}


VERBS = ("tag", "classify", "fill", "generate", "translate", "score", "draw")
ROUTES: dict[str, tuple[type[ModelRequest], Any, Callable[[Served, Any], Batch]]] = {
    verb: (request_of(verb), replies.Predictions, reader_of(verb)) for verb in VERBS
}
"""The request and the reply of each route, and how a request is read."""
ROUTES[EMBEDDINGS] = EmbeddingRequest, replies.Embeddings, embeddings
