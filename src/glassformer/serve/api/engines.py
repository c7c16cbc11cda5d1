"""The engines: one for each model that writes, made when its first text comes.

    add(number, text, sink) ──> the engine of the text's model ──step of each in turn──> news
    abort(number)           ──> gone, its pages are free

What fails is news of the texts that it ends, and of no other.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from glassformer.generate.drafts import Drafts
from glassformer.generate.engine import Engine, check_room
from glassformer.generate.prefixes import BLOCK
from glassformer.generate.request import Event, Request
from glassformer.models.transformer import Transformer

LATEST = 0.1
"""Weight of the latest text in the mean time of texts."""
Sink = Callable[[Event, float], None]
"""Takes an event, and when it was, by `time.monotonic`."""


@dataclass(frozen=True)
class News:
    """An event for a sink; `urgent`: the first or the last of a text, or an error."""

    sink: Sink
    event: Event
    time: float
    urgent: bool


@dataclass(frozen=True)
class TextRequest:
    """A text for a model to write; `drafts` proposes its tokens."""

    model: Transformer
    request: Request
    drafts: Drafts | None = None


class Panicked(Exception):
    """What is no `Exception` was raised, as libraries in other languages do: it would end the event
    loop."""


def contained(error: BaseException) -> Exception:
    """An error that may be raised on an event loop."""
    if isinstance(error, Exception):
        return error
    panicked = Panicked(type(error).__name__)
    panicked.__cause__ = error
    return panicked


@dataclass
class _Text:
    number: int
    sink: Sink
    began: float | None = None
    """When it had its first event."""


class Engines:
    """Texts of several models. `max_rows`, `cache_bytes`: those of each `Engine`.

    Used by one thread, but for `counts`.
    """

    def __init__(self, max_rows: int = 16, cache_bytes: int | None = None):
        self.max_rows, self.cache_bytes = max_rows, cache_bytes
        self._engines: dict[Transformer, Engine] = {}
        self._texts: dict[tuple[Engine, int], _Text] = {}
        self._places: dict[int, tuple[Engine, int]] = {}
        self._refused = list[News]()
        self._seconds: dict[Engine, float] = {}
        """From the first event of a text to its last: a mean in which the latest count most."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def counts(self) -> dict[str, int]:
        """Texts that run and wait, pages of all engines, free ones, and pages that were copied
        instead of computed."""
        engines = list(self._engines.values())
        return {
            "running": sum(len(one.running) for one in engines),
            "waiting": sum(len(one.waiting) for one in engines),
            "pages": sum(one.pool.n_slots // BLOCK for one in engines),
            "pages_free": sum(one.pool.n_free // BLOCK for one in engines),
            "prefix_hits": sum(one.prefixes.hits for one in engines),
        }

    def expected_wait(self, model: Transformer) -> float:
        """Seconds until a new text of a model begins, by the number of those that wait and the time
        that texts took; 0: none waits, or none has ended yet."""
        engine = self._engines.get(model)
        if engine is None or not (waiting := len(engine.waiting)):
            return 0.0
        return (waiting + 1) / max(1, len(engine.running)) * self._seconds.get(engine, 0.0)

    def check(self, model: Transformer) -> None:
        """Raise ConfigError for a model that writes, and for which the cache has no room."""
        if model.config.architecture == "decoder" and model.config.predicts_next:
            check_room(model, self.cache_bytes)

    def add(self, number: int, text: TextRequest, sink: Sink) -> None:
        """Queue a text; one that can never run has an error as its only news."""
        try:
            engine = self._engine(text.model)
            drafts, request = text.drafts, text.request
            place = engine, engine.add(drafts.drafted(request) if drafts else request)
        except BaseException as error:  # noqa: BLE001 - it is this text's, the others go on
            refused = Event(0, error=contained(error))
            self._refused.append(News(sink, refused, time.monotonic(), urgent=True))
            return
        self._texts[place] = _Text(number, sink)
        self._places[number] = place

    def abort(self, number: int) -> None:
        """End a text without news; one that has ended is none."""
        if (place := self._places.get(number)) is not None:
            place[0].abort(place[1])  # first: who sees no text any more sees its pages free
            del self._texts[place], self._places[number]

    def step(self) -> list[News]:
        """A step of each engine that has texts."""
        news, self._refused = self._refused, []
        for model, engine in list(self._engines.items()):
            if not engine.idle:
                events = self._stepped(model, engine)
                now = time.monotonic()
                news += [self._told(engine, event, now) for event in events]
        return news

    def _engine(self, model: Transformer) -> Engine:
        if model not in self._engines:
            self._engines[model] = Engine(
                model, max_rows=self.max_rows, cache_bytes=self.cache_bytes
            )
        return self._engines[model]

    def _stepped(self, model: Transformer, engine: Engine) -> list[Event]:
        try:
            return engine.step()
        except BaseException as error:  # noqa: BLE001 - the engine contains every Exception itself
            del self._engines[model]
            failed = contained(error)
            return [Event(own, error=failed) for of, own in self._texts if of is engine]

    def _told(self, engine: Engine, event: Event, now: float) -> News:
        """An event for its text, which is forgotten if it has ended."""
        place = engine, event.request
        text = self._texts[place]
        ended, first = bool(event.finish or event.error), text.began is None
        began = text.began = now if text.began is None else text.began
        if ended:
            del self._texts[place], self._places[text.number]
            mean = self._seconds.get(engine, now - began)
            self._seconds[engine] = mean + LATEST * (now - began - mean)
        return News(text.sink, event, now, urgent=ended or first)
