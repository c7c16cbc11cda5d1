"""One handler for every carrier: HTTP, a notebook, a saved file.

    explorer.handle({"op": "row", "look": {"input": "the cat"}, "layer": 0, "head": 1, "query": 2})
                                                                    a Reply
    explorer.stream({"op": "generate", "look": {"input": "the cat"}})
                                                                    one object after another

Requests are stateless: each carries its look.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, GlassformerError, brief, suggest
from glassformer.core.files import finite
from glassformer.run import Run
from glassformer.serve.explorer import ops_attention, ops_explain, ops_model, ops_next
from glassformer.serve.explorer.looks import ROOM, Looks, OpContext
from glassformer.serve.explorer.page import save_page
from glassformer.serve.explorer.schema import REQUESTS, STREAMS, LookRequest
from glassformer.serve.explorer.wire import Reply

OPS: dict[str, Callable[..., Any]] = {
    op.__name__.rstrip("_"): op
    for op in (*ops_model.OPS, *ops_attention.OPS, *ops_next.OPS, *ops_explain.OPS)
}


class Explorer:
    """A run that answers requests, with `room` bytes of looks kept."""

    def __init__(self, run: Run, room: int = ROOM):
        self.run = run
        self.looks = Looks(run, room)

    def handle(self, request: Any, gone: Callable[[], bool] = bool) -> Reply:
        """Answer a request. GlassformerError: an invalid request; ClientDisconnected: `gone()`."""
        name, arguments = _parse(request, [op for op in REQUESTS if op not in STREAMS])
        if name == "document":
            return self._document(**arguments, gone=gone)
        return self._begin(name, arguments, OpContext(self.looks, gone))

    def stream(
        self, request: Any, gone: Callable[[], bool] = bool
    ) -> Generator[dict[str, Any], None, None]:
        """Answer a long request item by item; errors of `handle`."""
        name, arguments = _parse(request, STREAMS)
        context = OpContext(self.looks, gone)
        items = self._begin(name, arguments, context)
        while True:
            context.check()
            with self.looks.lock:
                item = next(items, None)
            if item is None:
                return
            yield finite(item)

    def _document(
        self,
        state: Mapping[str, Any],
        questions: Iterable[str],
        title: str,
        gone: Callable[[], bool],
    ) -> Reply:
        """A selection as one HTML file, the bytes `html`.

        Questions are requests as JSON texts; those with an error are left out. ConfigError: a
        question that is not JSON.
        """
        answers: dict[str, Any] = {}
        for question in questions:
            try:
                op = (request := json.loads(question))["op"]
            except (ValueError, LookupError, TypeError, RecursionError):
                raise ConfigError(
                    "request.questions must be requests as JSON texts; send them as they were "
                    "asked."
                ) from None
            with suppress(GlassformerError):
                if op in STREAMS:
                    answers[question] = [*self.stream(request, gone), {"done": True}]
                elif op != "document":
                    answers[question] = b64encode(self.handle(request, gone).to_bytes()).decode()
        page = save_page(finite(state), answers, title).encode("utf-8", "replace")
        header = {"title": title, "answers": len(answers)}
        return Reply(header, {"html": np.frombuffer(page, np.uint8)})

    def _begin(self, name: str, arguments: dict[str, Any], context: OpContext) -> Any:
        """Call an op with looks in place of requests for them."""
        context.check()
        with self.looks.lock:
            for key, value in arguments.items():
                if isinstance(value, LookRequest):
                    arguments[key] = context.look(value)
            return OPS[name](context, **arguments)


def _parse(request: Any, ops: Collection[str]) -> tuple[str, dict[str, Any]]:
    """The op of a request, one of `ops`, and its arguments; ConfigError."""
    match request:
        case {"op": str() as name, **values}:
            if name in ops:
                return name, dict(REQUESTS[name].parse(values))
            raise ConfigError(f"There is no op {brief(name)} here; {suggest(name[:60], ops)}")
    raise ConfigError(
        f'A request is a JSON object such as {{"op": "model"}}, not {brief(request)}.'
    )


def problem(error: BaseException) -> dict[str, str]:
    """An error as an answer: `error` is a sentence, `kind` its class; "Bug": unexpected."""
    if isinstance(error, GlassformerError):
        return {"error": str(error), "kind": type(error).__name__}
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, MemoryError | RuntimeError) and "memory" in what.lower():
        sentence = "Out of memory; use a shorter input, or request less of it."
        return {"error": sentence, "kind": "GlassformerError"}
    sentence = f"An unexpected error occurred ({what}); please report it with the request."
    return {"error": sentence, "kind": "Bug"}
