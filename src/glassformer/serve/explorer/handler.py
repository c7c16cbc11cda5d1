"""One handler for every carrier: HTTP, a notebook, a saved file.

    explorer.handle({"op": "row", "look": {"input": "the cat"}, "layer": 0, "head": 1, "query": 2})
                                                                    a Reply
    explorer.stream({"op": "generate", "look": {"input": "the cat"}})
                                                                    one object after another

Requests are stateless: each carries its look.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.run import Run
from glassformer.serve.explorer import ops_attention, ops_explain, ops_flow, ops_model, ops_next
from glassformer.serve.explorer.looks import ROOM, Looks, OpContext
from glassformer.serve.explorer.page import document
from glassformer.serve.explorer.requests import LookRequest, brief, parsed
from glassformer.serve.explorer.schema import SCHEMA
from glassformer.serve.explorer.wire import Reply

OPS: dict[str, Callable[..., Any]] = {
    name: op
    for module in (ops_model, ops_attention, ops_flow, ops_next, ops_explain)
    for name, op in module.OPS.items()
}
STREAMS = [name for name, op in SCHEMA["ops"].items() if op.get("stream")]


class UnknownOp(ConfigError):
    """There is no op of that name."""


class Explorer:
    """A run that answers requests, with `room` bytes of looks kept."""

    def __init__(self, run: Run, room: int = ROOM):
        self.run = run
        self.looks = Looks(run, room)

    def handle(self, request: Any, gone: Callable[[], bool] = lambda: False) -> Reply:
        """Answer a request. GlassformerError: an invalid request; ClientDisconnected: `gone()`."""
        name, arguments = _named(request, stream=False)
        if name == "document":
            again = partial(self.handle, gone=gone), partial(self.stream, gone=gone)
            return document(*again, STREAMS, **arguments)
        with self.looks.lock, _sentences():
            return self._begun(name, arguments, OpContext(self.looks, gone))

    def stream(
        self, request: Any, gone: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        """Answer a long request item by item; errors of `handle`."""
        name, arguments = _named(request, stream=True)
        context = OpContext(self.looks, gone)
        with _sentences():
            with self.looks.lock:
                items = self._begun(name, arguments, context)
            while True:
                context.check()
                with self.looks.lock:
                    item = next(items, None)
                if item is None:
                    return
                yield finite(item)

    def _begun(self, name: str, arguments: dict[str, Any], context: OpContext) -> Any:
        """Call an op with looks in place of requests for them."""
        context.check()
        for key, value in arguments.items():
            if isinstance(value, LookRequest):
                arguments[key] = context.look(value)
        return OPS[name](context, **arguments)


def _named(request: Any, stream: bool) -> tuple[str, dict[str, Any]]:
    """The op of a request and its arguments; UnknownOp, ConfigError."""
    if not isinstance(request, Mapping) or not isinstance(request.get("op"), str):
        raise ConfigError(
            f'A request is a JSON object such as {{"op": "model"}}, not {brief(request)}.'
        )
    name, ops = request["op"], SCHEMA["ops"]
    if name not in ops:
        own = [op for op in ops if (op in STREAMS) == stream]
        raise UnknownOp(f"There is no op {brief(name)}; {suggest(name[:60], own)}")
    if stream != (name in STREAMS):
        there = "api" if stream else "stream"
        raise UnknownOp(f"{name} is an op of /{there}; send it there.")
    return name, parsed(name, {key: value for key, value in request.items() if key != "op"})


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn errors of the machine into sentences."""
    try:
        yield
    except RecursionError:
        raise ConfigError("The request is nested too deeply; flatten it.") from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error).lower():
            raise GlassformerError(
                "Out of memory; ask about a shorter input, or for less of it."
            ) from None
        raise
