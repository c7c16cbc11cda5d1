"""Predictions: a route for each verb, whose request is made from its choices.

Each request is a micro-batch: inputs of several requests for the same model and choices are
computed together, in steps. They are encoded beside it.
"""

from base64 import b64encode
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from pydantic import AliasChoices, Field, create_model

from glassformer.serve.api import replies
from glassformer.serve.api.engine_thread import Steps
from glassformer.serve.api.fields import MOST_NAMES, MOST_STOPS, ModelRequest
from glassformer.serve.api.models import EMBEDDINGS, Served
from glassformer.serve.api.predictions import Batch, inputs_of
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import (
    MOST_TOP,
    EmbeddingRequest,
    File,
    Inputs,
    several,
)
from glassformer.tasks.options import OPTIONS, EmbedOptions, Options, is_local, plain_fields
from glassformer.tasks.predictors.predictor import STEP, Parsed, Predictor

MOST = {"top": MOST_TOP, "beams": 16, "n_best": 16}
"""Largest values of choices that cost the server."""
LONGEST = {"stop": MOST_STOPS, "layer": MOST_NAMES, "head": MOST_NAMES}
"""Lengths of lists that do."""
ALIASES = {"max_new_tokens": AliasChoices("max_new_tokens", "max_tokens")}


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


def options_of(verb: str, asked: ModelRequest) -> Options:
    """The choices that a request makes; ConfigError: they do not fit together."""
    record = OPTIONS[verb]
    return record.parse(asked.model_dump(include={*record.model_fields}, exclude_none=True))


def reader_of(verb: str) -> Callable[[Served, Any], Batch]:
    """Return a function that reads the requests of a verb as micro-batches."""

    def read(served: Served, asked: Any) -> Batch:
        predictor, options = served.run.predictor(verb), options_of(verb, asked)
        predictor.check(options)
        inputs = [
            predictor.parse(one, options, f"input {number}", number)
            for number, one in enumerate(inputs_of(served, asked), 1)
        ]

        work = partial(_rows, predictor, options, lambda one: one.json())
        return Batch(served, (verb, options.model_dump_json()), work, inputs)

    read.__name__, read.__doc__ = verb, OPTIONS[verb].__doc__
    return read


def _rows(
    predictor: Predictor[Any],
    options: Options,
    form: Callable[[Any], dict[str, Any]],
    parsed: list[Parsed],
) -> Steps[list[dict[str, Any]]]:
    """Compute predictions step by step, and give them this form."""
    rows = list[dict[str, Any]]()
    for one in predictor.predict(parsed, options, STEP):
        if one is None:
            yield  # the turn of other requests
        else:
            rows.append(form(one))
    return rows


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
    form = _base64 if asked.encoding_format == "base64" else np.ndarray.tolist
    shown = lambda one: {"object": "embedding", "embedding": form(one.vector)}
    work = partial(_rows, predictor, options, shown)
    return Batch(served, ("embed", form), work, parsed, sum(one.about for one in parsed))


def _base64(row: np.ndarray) -> str:
    """float32, the lowest byte first, in base64."""
    return b64encode(row.astype("<f4").tobytes()).decode()


ROUTES: dict[str, tuple[type[ModelRequest], Any, Callable[[Served, Any], Batch]]] = {
    verb: (request_of(verb), replies.Predictions, reader_of(verb))
    for verb in ("tag", "classify", "fill", "generate", "translate", "score", "draw")
}
"""The request and the reply of each route, and how a request is read."""
ROUTES[EMBEDDINGS] = EmbeddingRequest, replies.Embeddings, embeddings
