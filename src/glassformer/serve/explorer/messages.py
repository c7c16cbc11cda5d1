"""Requests as messages, as a notebook's page sends them, each answered on a thread of its own.

{view, id, ask: {"op": "row", ...}}           {to, id, done: true} and the answer's bytes
{view, id, lines: {"op": "sweep", ...}}     {to, id, item: {...}} one after another, then
                                              {to, id, done: true}
{view, id, cancel: true}                      nothing more
an error                                      {to, id, error: "one sentence", kind: "ConfigError"}
"""

import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from glassformer.serve.explorer.handler import Explorer, problem
from glassformer.serve.explorer.looks import ClientDisconnected

Send = Callable[[dict[str, Any], list[bytes]], None]
"""Sends a message, and bytes beside it."""


class Mailbox:
    """Answers the requests of all views of one explorer; `send` is called from several threads."""

    def __init__(self, explorer: Explorer, send: Send):
        self.explorer, self.send = explorer, send
        self._waiting: dict[tuple[Any, Any], threading.Event] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Begin to answer a request, or stop answering it."""
        key = message.get("view"), message.get("id")
        if message.get("cancel"):
            if gone := self._waiting.get(key):
                gone.set()
            return
        self._waiting[key] = gone = threading.Event()
        # In the context of the sender: a kernel assigns output to the message of its context.
        arguments = self._answer, key, message, gone
        threading.Thread(target=copy_context().run, args=arguments, daemon=True).start()

    def leave(self, view: Any) -> None:
        """Stop all answers to a view."""
        for key, gone in list(self._waiting.items()):
            if key[0] == view:
                gone.set()

    def _answer(
        self, key: tuple[Any, Any], message: Mapping[str, Any], gone: threading.Event
    ) -> None:
        def say(part: Mapping[str, Any], *files: bytes) -> None:
            if not gone.is_set():
                self.send({"to": key[0], "id": key[1], **part}, list(files))

        try:
            if "lines" in message:
                for item in self.explorer.stream(message["lines"], gone.is_set):
                    say({"item": item})
                say({"done": True})
            else:
                reply = self.explorer.handle(message.get("ask"), gone.is_set)
                say({"done": True}, reply.to_bytes())
        except ClientDisconnected:
            pass
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            say(problem(error))
        finally:
            self._waiting.pop(key, None)
