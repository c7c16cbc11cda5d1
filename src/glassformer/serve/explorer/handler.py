"""One handler for every carrier: a request of plain values in, an answer out; HTTP, a notebook and
a saved file alike.

    explorer.handle({"op": "row", "look": {"input": "the cat"}, "layer": 0, "head": 1, "query": 2})   a Reply
    explorer.stream({"op": "generate", "look": {"input": "the cat"}})               one object after another

Requests are stateless: each carries the look it is about.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.run import Run
from glassformer.serve.explorer import ops_attention, ops_explain, ops_flow, ops_model, ops_next
from glassformer.serve.explorer.looks import ROOM, Desk, Looks
from glassformer.serve.explorer.page import DocumentAsk, document
from glassformer.serve.explorer.requests import Aimed, Ask, OneHead, Seen, brief
from glassformer.serve.explorer.wire import Reply

OPS: dict[str, tuple[type[Ask], Callable[[Desk, Any], Reply]]] = {
    "model": (ops_model.ModelAsk, ops_model.model),
    "look": (Seen, ops_model.look),
    "points": (ops_model.PointsAsk, ops_model.all_points),
    "picture": (ops_model.PictureAsk, ops_model.picture),
    "curves": (ops_model.CurvesAsk, ops_model.curves),
    "raw": (ops_model.RawAsk, ops_model.raw),
    "thumbs": (ops_attention.ThumbsAsk, ops_attention.thumbs),
    "head": (OneHead, ops_attention.head),
    "row": (ops_attention.RowAsk, ops_attention.row),
    "step": (ops_attention.RowAsk, ops_attention.step),
    "lens": (ops_flow.LensAsk, ops_flow.lens),
    "ledger": (Aimed, ops_flow.ledger),
    "project": (ops_flow.ProjectAsk, ops_flow.project),
    "next": (ops_next.NextAsk, ops_next.next_token),
    "attribute": (ops_explain.AttributeAsk, ops_explain.attribute),
    "compare": (ops_explain.CompareAsk, ops_explain.compare),
}
STREAMS: dict[str, tuple[type[Ask], Callable[[Desk, Any], Iterator[dict[str, Any]]]]] = {
    "generate": (ops_next.GenerateAsk, ops_next.generate),
    "effects": (ops_explain.EffectsAsk, ops_explain.effects),
    "sweep": (ops_explain.SweepAsk, ops_explain.sweep),
}


class UnknownOp(ConfigError):
    """There is no op of that name."""


class Explorer:
    """A run that answers requests, `room` bytes of looks at hand."""

    def __init__(self, run: Run, room: int = ROOM):
        self.run = run
        self.looks = Looks(run, room)

    def handle(self, request: Any, gone: Callable[[], bool] = lambda: False) -> Reply:
        """The answer to a request; GlassformerError: whatever is wrong with it, Gone: `gone()` is
        true."""
        name, arguments = _named(request, {**OPS, "document": None}, STREAMS)
        if name == "document":
            again = partial(self.handle, gone=gone), partial(self.stream, gone=gone)
            return document(DocumentAsk.parse(arguments), *again, STREAMS)
        kind, op = OPS[name]
        ask = kind.parse(arguments)
        desk = Desk(self.looks, gone)
        with self.looks.lock, _sentences():
            desk.check()
            return op(desk, ask)

    def stream(
        self, request: Any, gone: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        """The answers to a request that takes long, one by one as they come; errors as of
        `handle`."""
        name, arguments = _named(request, STREAMS, {**OPS, "document": None})
        kind, op = STREAMS[name]
        ask = kind.parse(arguments)
        with _sentences():
            for item in op(Desk(self.looks, gone), ask):
                yield finite(item)


def _named(
    request: Any, own: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The op of a request and its arguments; UnknownOp, ConfigError."""
    if not isinstance(request, Mapping) or not isinstance(request.get("op"), str):
        raise ConfigError(
            f'A request is a JSON object such as {{"op": "model"}}, not {brief(request)}.'
        )
    name = request["op"]
    if name in others:
        raise UnknownOp(
            f"{name} is asked for at /{'stream' if name in STREAMS else 'api'}; send it there."
        )
    if name not in own:
        raise UnknownOp(f"There is no op {brief(name)}; {suggest(name[:60], own)}")
    return name, {key: value for key, value in request.items() if key != "op"}


@contextmanager
def _sentences() -> Iterator[None]:
    """What the machine cannot do, as a sentence."""
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
