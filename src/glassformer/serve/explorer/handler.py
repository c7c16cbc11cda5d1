"""One handler for every carrier: HTTP, a notebook, a saved file.

    explorer.handle({"op": "row", "look": {"input": "the cat"}, "layer": 0, "head": 1, "query": 2})
                                                                    a Reply
    explorer.stream({"op": "generate", "look": {"input": "the cat"}})
                                                                    one object after another

Requests are stateless: each carries its look.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.run import Run
from glassformer.serve.explorer import ops_attention, ops_explain, ops_model, ops_next
from glassformer.serve.explorer.looks import ROOM, Looks, OpContext
from glassformer.serve.explorer.page import document
from glassformer.serve.explorer.schema import REQUESTS, STREAMS, LookRequest, brief
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
        name, arguments = _parsed(request, stream=False)
        if name == "document":
            handle, stream = partial(self.handle, gone=gone), partial(self.stream, gone=gone)
            return document(handle, stream, **arguments)
        with self.looks.lock:
            return self._begin(name, arguments, OpContext(self.looks, gone))

    def stream(
        self, request: Any, gone: Callable[[], bool] = bool
    ) -> Generator[dict[str, Any], None, None]:
        """Answer a long request item by item; errors of `handle`."""
        name, arguments = _parsed(request, stream=True)
        context = OpContext(self.looks, gone)
        with self.looks.lock:
            items = self._begin(name, arguments, context)
        while True:
            context.check()
            with self.looks.lock:
                item = next(items, None)
            if item is None:
                return
            yield finite(item)

    def _begin(self, name: str, arguments: dict[str, Any], context: OpContext) -> Any:
        """Call an op with looks in place of requests for them."""
        context.check()
        for key, value in arguments.items():
            if isinstance(value, LookRequest):
                arguments[key] = context.look(value)
        return OPS[name](context, **arguments)


def _parsed(request: Any, stream: bool) -> tuple[str, dict[str, Any]]:
    """The op of a request and its arguments; ConfigError."""
    match request:
        case {"op": str() as name, **values}:
            own = [op for op in REQUESTS if (op in STREAMS) == stream]
            if name in own:
                return name, dict(REQUESTS[name].parse(values))
            raise ConfigError(f"There is no op {brief(name)} here; {suggest(name[:60], own)}")
    raise ConfigError(
        f'A request is a JSON object such as {{"op": "model"}}, not {brief(request)}.'
    )


def problem(error: Exception) -> dict[str, str]:
    """An error as an answer: `error` is a sentence, `kind` its class; "Bug": unexpected."""
    if isinstance(error, GlassformerError):
        return {"error": str(error), "kind": type(error).__name__}
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, MemoryError | RuntimeError) and "memory" in what.lower():
        sentence = "Out of memory; use a shorter input, or request less of it."
        return {"error": sentence, "kind": "GlassformerError"}
    sentence = f"An unexpected error occurred ({what}); please report it with the request."
    return {"error": sentence, "kind": "Bug"}
