"""Routes of single tasks: vectors, translations, tags, classes, answers to parts.

Each is a micro-batch: inputs of several requests for the same model and options are computed
together, step by step: a step of a search, or a few sequences. Texts are tokenized beside it.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from glassformer.data.example import Example
from glassformer.generate import Steps
from glassformer.generate.embed import embed_steps
from glassformer.generate.tag import examples, tag_steps
from glassformer.inspect.alignment import aligned
from glassformer.processors.text_reader import parts_of
from glassformer.serve.api import replies
from glassformer.serve.api.answers import json_reply
from glassformer.serve.api.engine_thread import Work
from glassformer.serve.api.envelope import facts_of
from glassformer.serve.api.inputs import inputs_of, texts_in
from glassformer.serve.api.models import EMBEDDINGS, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import (
    ClassifyRequest,
    EmbeddingRequest,
    GenerateRequest,
    TagRequest,
    TranslateRequest,
)
from glassformer.serve.api.service import QueuedRoute, Service, Serving

ENDS = {"end": "stop", "stop": "stop", "length": "length"}
router = APIRouter(route_class=QueuedRoute)
LIKELY = 0.5
"""Probability from which a class is given, where an input may have several."""


@router.post("/v1/embeddings", response_model=replies.Embeddings)
async def embeddings(asked: EmbeddingRequest, request: Request, service: Serving) -> Response:
    """Vectors of texts."""
    served = service.find_model(request, asked, EMBEDDINGS)
    width = served.run.model.config.d_model
    if asked.dimensions not in (None, width):
        raise ApiError(
            400,
            f"dimensions: this model's vectors have {width}, not {asked.dimensions}.",
            "dimensions",
        )
    several = isinstance(asked.input, list) and not isinstance(asked.input[0], int)
    inputs: Any = asked.input if several else [asked.input]
    service.check_characters([one for one in inputs if isinstance(one, str)])
    windows = await service.prepare(_windows, served, inputs)
    n = sum(len(part) for own in windows for part in own)
    facts_of(request).prompt_tokens = n
    call = service.calls.admit()

    async def answered() -> dict[str, Any]:
        run, task = served.run, served.run.task

        def work(given: list[Any]) -> Steps[list[np.ndarray]]:
            return [*(yield from embed_steps(run.model, given, task.pool, task.normalizes))]

        rows = await call.batch(("embed", served.id), work, windows)
        form = _base64 if asked.encoding_format == "base64" else np.ndarray.tolist
        data = [
            {"object": "embedding", "index": i, "embedding": form(row)}
            for i, row in enumerate(rows)
        ]
        used = {"prompt_tokens": n, "total_tokens": n}
        return {"object": "list", "data": data, "model": served.id, "usage": used}

    return await json_reply(request, call, answered())


def _windows(served: Served, inputs: list[Any]) -> list[list[np.ndarray]]:
    """The sequences of each input; ApiError: one has no token, or an id that the model lacks."""
    reader, size = served.run.task.text_reader(), served.run.model.config.vocab_size
    found = list[list[np.ndarray]]()
    for number, one in enumerate(inputs):
        if isinstance(one, str):
            own = reader.windows(one)
        elif max(one) >= size:
            raise ApiError(400, f"input: there is no token {max(one)} of {size}.", "input")
        else:
            parts = parts_of(np.array(one, np.int32), reader.room)
            own = [reader.framed(part) for part in parts]
        if not own:
            raise ApiError(400, f"input: text {number} has no tokens; leave it out.", "input")
        found.append(own)
    return found


def _base64(row: np.ndarray) -> str:
    """float32, the lowest byte first, in base64."""
    return b64encode(row.astype("<f4").tobytes()).decode()


@router.post("/v1/translate", response_model=replies.Predictions)
async def translate(asked: TranslateRequest, request: Request, service: Serving) -> Response:
    """Targets of texts."""
    served = service.find_model(request, asked, "translate")
    changes = {
        "beams": asked.beams,
        "n_best": asked.n_best,
        "length_penalty": asked.length_penalty,
        "max_new_tokens": asked.max_tokens,
    }
    how = served.run.options(**{k: v for k, v in changes.items() if v is not None})
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    service.check_characters(texts)

    run = served.run

    def work(inputs: list[Any]) -> Steps[list[Any]]:
        found, rows = (yield from run.task.translate_steps(run.model, inputs, how)), list[Any]()
        for source, best in zip(inputs, found, strict=True):
            rows.append(
                {
                    "text": best[0].text,
                    "score": best[0].score,
                    "finish_reason": ENDS[best[0].finish],
                    "alternatives": [{"text": o.text, "score": o.score} for o in best[1:]],
                }
            )
            if asked.alignments:
                yield
                rows[-1]["alignment"] = aligned(run.model, run.task.pair, source, best[0].text)
        return rows

    key = "translate", how.model_dump_json(), asked.alignments
    return await _reply(request, service, served, key, work, texts)


@router.post("/v1/tag", response_model=replies.Predictions)
async def tag(asked: TagRequest, request: Request, service: Serving) -> Response:
    """A tag for each word."""
    served = service.find_model(request, asked, "tag")
    inputs, run = await _inputs(service, served, asked.input), served.run
    top = min(asked.top or 1, len(run.classes))
    sentences = await service.prepare(_sentences, served, inputs)

    def work(given: list[Any]) -> Steps[list[Any]]:
        found = yield from tag_steps(run.model, run.processor, [own for _, own in given], top)
        return [
            {"words": words, **tags.as_json(run.classes)}
            for (words, _), tags in zip(given, found, strict=True)
        ]

    return await _reply(request, service, served, ("tag", top), work, sentences)


def _sentences(served: Served, inputs: list[Any]) -> list[tuple[list[str], list[Example]]]:
    processor = served.run.processor
    return [(processor.words(one), examples(processor, one)) for one in inputs]


@router.post("/v1/classify", response_model=replies.Predictions)
async def classify(asked: ClassifyRequest, request: Request, service: Serving) -> Response:
    """Classes of texts, images, audio, parts."""
    served = service.find_model(request, asked, "classify")
    inputs, run = await _inputs(service, served, asked.input), served.run
    windows = await service.prepare(lambda: list(map(run.task.examples, inputs)))

    def work(given: list[Any]) -> Steps[list[Any]]:
        found = list[Any]()
        for row in (yield from run.task.classify_steps(run.model, given)):
            if np.isnan(row[0]):  # nothing but space
                found.append({"labels": [], "probabilities": {}})
                continue
            by_name = dict(zip(run.classes, map(float, row), strict=True))
            likely = [name for name, p in by_name.items() if p >= LIKELY]
            best = likely if run.model.config.multi_label else [run.classes[int(row.argmax())]]
            found.append({"labels": best, "probabilities": by_name})
        return found

    return await _reply(request, service, served, ("classify",), work, windows)


@router.post("/v1/generate", response_model=replies.Predictions)
async def generate(asked: GenerateRequest, request: Request, service: Serving) -> Response:
    """Text for texts, images and audio."""
    served = service.find_model(request, asked, "generate")
    inputs, run = await _inputs(service, served, asked.input), served.run
    changes = {
        "max_new_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "seed": asked.seed,
    }
    how = run.options(**{k: v for k, v in changes.items() if v is not None})

    def work(given: list[Any]) -> Steps[list[Any]]:
        rows = [[one] if isinstance(one, str) else list(one) for one in given]
        found = yield from run.task.answer_steps(run.model, rows, how)
        return [{"text": one.text, "finish_reason": ENDS[one.finish]} for one in found]

    key = "generate", how.model_dump_json()
    return await _reply(request, service, served, key, work, inputs)


async def _inputs(service: Service, served: Served, given: Any) -> list[Any]:
    service.check_characters(texts_in(given))
    return await service.prepare(inputs_of, served, given)


async def _reply(
    request: Request,
    service: Service,
    served: Served,
    key: tuple[Any, ...],
    work: Work,
    inputs: Sequence[Any],
) -> Response:
    """The reply with what `work` gives for each input."""
    call = service.calls.admit()

    async def value() -> dict[str, Any]:
        found = await call.batch((served.id, *key), work, inputs)
        data = [{"index": i, **one} for i, one in enumerate(found)]
        return {"object": "list", "data": data, "model": served.id}

    return await json_reply(request, call, value())
