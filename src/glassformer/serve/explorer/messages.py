"""Requests as messages, as a notebook's page sends them: answered by the explorer's one handler,
each on a thread.

{view, id, ask: {"op": "row", ...}}           {to, id, done: true} and the answer's bytes
{view, id, lines: {"op": "effects", ...}}     {to, id, item: {...}} one after another, then
                                              {to, id, done: true}
{view, id, cancel: true}                      nothing more
whatever is wrong                             {to, id, error: "one sentence", kind: "ConfigError"}
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from glassformer.errors import GlassformerError
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.looks import ClientDisconnected

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]
"""What sends a message, and bytes beside it."""


class Mailbox:
    """Answers the requests of all views of one explorer; `send` is called from several threads."""

    def __init__(self, explorer: Explorer, send: Send):
        self.explorer, self.send = explorer, send
        self._waiting: dict[tuple[Any, Any], threading.Event] = {}
        self._lock = threading.Lock()

    def take(self, message: Mapping[str, Any]) -> None:
        """Begin to answer a request, or stop answering it."""
        key = message.get("view"), message.get("id")
        if message.get("cancel"):
            self._stop(lambda other: other == key)
            return
        gone = threading.Event()
        with self._lock:
            self._waiting[key] = gone
        # In the context of whoever sent it: a kernel files what is sent under the message that it
        # answers.
        work = partial(copy_context().run, self._answer, dict(message), gone)
        threading.Thread(target=work, daemon=True).start()

    def leave(self, view: Any) -> None:
        """Answer nothing more to a view."""
        self._stop(lambda other: other[0] == view)

    def _stop(self, meant: Callable[[tuple[Any, Any]], bool]) -> None:
        with self._lock:
            for key, gone in self._waiting.items():
                if meant(key):
                    gone.set()

    def _answer(self, message: Message, gone: threading.Event) -> None:
        key = message.get("view"), message.get("id")
        head = {"to": key[0], "id": key[1]}
        try:
            self._answered(message, head, gone)
        except ClientDisconnected:
            pass
        except GlassformerError as error:
            self._say(gone, {**head, "error": str(error), "kind": type(error).__name__})
        except Exception as error:  # noqa: BLE001 - the last place where anything can be said
            what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            sentence = (
                f"Something went wrong that should not ({what}); please report it with "
                f"what was asked."
            )
            self._say(gone, {**head, "error": sentence, "kind": "Bug"})
        finally:
            with self._lock:
                self._waiting.pop(key, None)

    def _answered(self, message: Message, head: Message, gone: threading.Event) -> None:
        if "lines" in message:
            with closing(cast(Any, self.explorer.stream(message["lines"], gone.is_set))) as items:
                for item in items:
                    self._say(gone, {**head, "item": item})
            self._say(gone, {**head, "done": True})
        else:
            reply = self.explorer.handle(message.get("ask"), gone.is_set)
            self._say(gone, {**head, "done": True}, reply.to_bytes())

    def _say(self, gone: threading.Event, message: Message, *parts: bytes) -> None:
        """Send, unless nobody waits any more."""
        if gone.is_set():
            raise ClientDisconnected
        self.send(message, list(parts))
