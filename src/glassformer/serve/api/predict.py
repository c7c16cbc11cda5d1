"""Predictions: a route for each verb, whose request is made from its choices.

Each request is a micro-batch: inputs of several requests for the same model and choices are
computed together, in steps. They are encoded beside it.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from pydantic import AliasChoices, Field, create_model

from glassformer.serve.api import replies
from glassformer.serve.api.models import Served
from glassformer.serve.api.predictions import Batch, inputs_of
from glassformer.serve.api.requests import MOST_TOP, File, Inputs, ModelRequest
from glassformer.tasks.options import OPTIONS, Options, is_local, plain_fields
from glassformer.tasks.predict.gradually import Steps
from glassformer.tasks.predictors.predictor import STEP, Parsed

MOST = {"top": MOST_TOP, "beams": 16, "n_best": 16}
"""Largest values of choices that cost the server."""
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
    """What reads the requests of a verb as micro-batches."""

    def read(served: Served, asked: Any) -> Batch:
        predictor, options = served.run.predictor(verb), options_of(verb, asked)
        predictor.check(options)
        inputs = [
            predictor.parse(one, options, f"input {number}", number)
            for number, one in enumerate(inputs_of(served, asked), 1)
        ]

        def work(parsed: list[Parsed]) -> Steps[list[dict[str, Any]]]:
            rows = list[dict[str, Any]]()
            for one in predictor.predict(parsed, options, STEP):
                if one is None:
                    yield  # the turn of other requests
                else:
                    rows.append(one.json())
            return rows

        return Batch(served, (verb, options.model_dump_json()), work, inputs)

    read.__name__, read.__doc__ = verb, OPTIONS[verb].__doc__
    return read


VERBS = ("tag", "classify", "generate", "translate", "score", "draw")
"""Those with a route of their own."""
ROUTES = {verb: (request_of(verb), replies.Predictions, reader_of(verb)) for verb in VERBS}
"""The request and the reply of each route, and how a request is read."""
