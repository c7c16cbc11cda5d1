"""Predictions of single tasks: vectors, translations, tags, classes, answers to parts.

Each is a micro-batch: inputs of several requests for the same model and options are computed
together, step by step: a step of a search, or a few sequences. Texts are tokenized beside it.
"""

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.inspect.alignment import aligned
from glassformer.processors.tokens.text_reader import parts_of
from glassformer.serve.api import replies, requests
from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Work
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.models import EMBEDDINGS, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.service import Service
from glassformer.tasks.predict.embed import embed_steps
from glassformer.tasks.predict.gradually import Steps
from glassformer.tasks.predict.tag import examples, tag_steps

ENDS = {"end": "stop", "stop": "stop", "length": "length"}
"""How OpenAI's API calls the end of a text."""
LIKELY = 0.5
"""Probability from which a class is given, where an input may have several."""


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


def translate(served: Served, asked: requests.TranslateRequest) -> Batch:
    """Targets of texts."""
    run, how = served.run, served.run.options(**asked.changes())

    def work(texts: list[Any]) -> Steps[list[Any]]:
        found, rows = (yield from run.task.translate_steps(run.model, texts, how)), list[Any]()
        for source, (best, *others) in zip(texts, found, strict=True):
            row = {"text": best.text, "score": best.score, "finish_reason": ENDS[best.finish]}
            row["alternatives"] = [{"text": one.text, "score": one.score} for one in others]
            if asked.alignments:
                yield
                row["alignment"] = aligned(run.model, run.task.pair, source, best.text)
            rows.append(row)
        return rows

    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    key = "translate", how.model_dump_json(), asked.alignments
    return Batch(served, key, work, texts)


def tag(served: Served, asked: requests.TagRequest) -> Batch:
    """A tag for each word."""
    run, processor = served.run, served.run.processor
    top = min(asked.top or 1, len(run.classes))

    def work(given: list[Any]) -> Steps[list[Any]]:
        found = yield from tag_steps(run.model, processor, [own for _, own in given], top)
        return [
            {"words": words, **tags.as_json(run.classes)}
            for (words, _), tags in zip(given, found, strict=True)
        ]

    inputs = [(processor.words(one), examples(processor, one)) for one in _inputs(served, asked)]
    return Batch(served, ("tag", top), work, inputs)


def classify(served: Served, asked: requests.ClassifyRequest) -> Batch:
    """Classes of texts, images, audio, parts."""
    run = served.run

    def work(given: list[Any]) -> Steps[list[Any]]:
        rows = yield from run.task.classify_steps(run.model, given)
        return [_classes(served, row) for row in rows]

    inputs = [run.task.examples(one) for one in _inputs(served, asked)]
    return Batch(served, ("classify",), work, inputs)


def _classes(served: Served, row: np.ndarray) -> dict[str, Any]:
    if np.isnan(row[0]):  # nothing but space
        return {"labels": [], "probabilities": {}}
    names = served.run.classes
    by_name = dict(zip(names, map(float, row), strict=True))
    if served.run.model.config.multi_label:
        labels = [name for name, p in by_name.items() if p >= LIKELY]
    else:
        labels = [names[int(row.argmax())]]
    return {"labels": labels, "probabilities": by_name}


def generate(served: Served, asked: requests.GenerateRequest) -> Batch:
    """Text for texts, images and audio."""
    run, how = served.run, served.run.options(**asked.changes())

    def work(given: list[Any]) -> Steps[list[Any]]:
        found = yield from run.task.answer_steps(run.model, given, how)
        return [{"text": one.text, "finish_reason": ENDS[one.finish]} for one in found]

    inputs = [[one] if isinstance(one, str) else list(one) for one in _inputs(served, asked)]
    return Batch(served, ("generate", how.model_dump_json()), work, inputs)


def _inputs(served: Served, asked: Any) -> list[Any]:
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


ROUTES = {
    EMBEDDINGS: (requests.EmbeddingRequest, replies.Embeddings, embeddings),
    "translate": (requests.TranslateRequest, replies.Predictions, translate),
    "tag": (requests.TagRequest, replies.Predictions, tag),
    "classify": (requests.ClassifyRequest, replies.Predictions, classify),
    "generate": (requests.GenerateRequest, replies.Predictions, generate),
}
"""The request and the reply of each route, and how a request is read."""
