"""Requests as messages, as a notebook's page sends them, each answered on a thread of its own.

{view, id, ask: {"op": "row", ...}}           {to, id, done: true} and the answer's bytes
{view, id, lines: {"op": "effects", ...}}     {to, id, item: {...}} one after another, then
                                              {to, id, done: true}
{view, id, cancel: true}                      nothing more
an error                                      {to, id, error: "one sentence", kind: "ConfigError"}
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from glassformer.serve.explorer.handler import Explorer, problem
from glassformer.serve.explorer.looks import ClientDisconnected

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]
"""Sends a message, and bytes beside it."""


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
        # In the context of the sender: a kernel assigns output to the message of its context.
        work = partial(copy_context().run, self._answer, dict(message), gone)
        threading.Thread(target=work, daemon=True).start()

    def leave(self, view: Any) -> None:
        """Stop all answers to a view."""
        self._stop(lambda other: other[0] == view)

    def _stop(self, meant: Callable[[tuple[Any, Any]], bool]) -> None:
        with self._lock:
            for key, gone in self._waiting.items():
                if meant(key):
                    gone.set()

    def _answer(self, message: Message, gone: threading.Event) -> None:
        key = message.get("view"), message.get("id")

        def say(part: Mapping[str, Any], *files: bytes) -> None:
            if gone.is_set():
                raise ClientDisconnected
            self.send({"to": key[0], "id": key[1], **part}, list(files))

        try:
            if "lines" in message:
                stream = self.explorer.stream(message["lines"], gone.is_set)
                with closing(cast(Any, stream)) as items:
                    for item in items:
                        say({"item": item})
                say({"done": True})
            else:
                reply = self.explorer.handle(message.get("ask"), gone.is_set)
                say({"done": True}, reply.to_bytes())
        except ClientDisconnected:
            pass
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            with suppress(ClientDisconnected):
                say(problem(error))
        finally:
            with self._lock:
                self._waiting.pop(key, None)
