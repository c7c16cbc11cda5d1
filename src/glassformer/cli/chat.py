"""`glassformer chat`: a conversation with a language model, typed or from a pipe.

on a terminal       answers grow as they are generated; /reset, /system TEXT, /quit
from a pipe         each line is a message of the user, each answer a line; of an empty one, empty
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.cli.terminal import END_KEY, chunks, on_terminal, print_json
from glassformer.core.errors import GlassformerError, amount, one_line
from glassformer.core.signals import each_interrupts

if TYPE_CHECKING:
    from glassformer.cli.verbs import Shared
    from glassformer.tasks.options import Options

COMMANDS = "/reset, /system TEXT, /quit"


def talk(predictor: Any, options: "Options", shared: "Shared") -> None:
    """Answer a conversation: typed on a terminal, or the lines of a pipe, or --prompt."""
    own = _Talk(predictor, options, shared.system)
    typed = shared.prompt is None and sys.stdin.isatty()
    if typed and on_terminal() and not shared.json:
        _converse(own)
        return
    lines = chunks(1) if shared.prompt is None else [shared.prompt]
    for line in (line for own in lines for line in own):
        answer = own.answer(line)
        if shared.json:
            print_json(answer)
        else:
            print(answer["text"] if shared.prompt is not None else one_line(answer["text"]))
        sys.stdout.flush()


class _Talk:
    """The messages of a conversation so far."""

    def __init__(self, predictor: Any, options: "Options", system: str | None):
        self.predictor, self.options = predictor, options
        self.begin(system)

    def begin(self, system: str | None) -> None:
        """Forget all messages; the system message is this one."""
        self.system = system
        self.messages: list[dict[str, str]] = []
        if system:
            self.messages.append({"role": "system", "content": system})

    def answer(self, text: str) -> dict[str, Any]:
        """The answer to a message, as a whole; nothing to one that says nothing."""
        if not text.strip():
            return {"message": text, "text": "", "finish": None, "tokens": 0, "left_out": 0}
        one = self._read(text)
        (made,) = filter(None, self.predictor.predict([one], self.options))
        self._keep(made.text)
        return {"message": text, **made.json(), "left_out": len(one.about[0])}

    def stream(self, text: str) -> Iterator[str]:
        """The answer to a message as it grows; what has come is kept if it is stopped."""
        one, said = self._read(text), ""
        try:
            for delta in self.predictor.stream(one, self.options):
                said += delta.text
                yield delta.text
        finally:
            self._keep(said)

    def _read(self, text: str) -> Any:
        """Read the conversation with a new message; old ones for which there is no more room are
        left out."""
        asked = [*self.messages, {"role": "user", "content": text}]
        one = self.predictor.parse(asked, self.options)
        if left_out := len(one.about[0]):
            first = bool(self.system)
            del asked[first : first + left_out]
            sys.stderr.write(
                f"(the oldest {amount(left_out, 'message')} left out: the context of the model is "
                f"{self.predictor.model.config.max_length:,} tokens)\n"
            )
        self.messages = asked
        return one

    def _keep(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


def _converse(talk: _Talk) -> None:
    """Answer what a person types, until /quit or the end of input."""
    with suppress(ImportError):
        import_module("readline")  # with which the line can be edited
    sys.stderr.write(f"{COMMANDS}; Ctrl-C stops an answer, {END_KEY} ends\n")
    with each_interrupts():
        while True:
            try:
                line = input("> ").strip()
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                continue
            if line == "/quit":
                return
            if line.startswith("/"):
                _command(talk, line)
            elif line:
                _show(talk, line)


def _command(talk: _Talk, line: str) -> None:
    name, _, text = line.partition(" ")
    match name:
        case "/reset":
            talk.begin(talk.system)
        case "/system":
            talk.begin(text.strip() or None)
        case _:
            sys.stderr.write(f"there is no command {name}; use {COMMANDS}\n")


def _show(talk: _Talk, line: str) -> None:
    """Print the answer as it grows; Ctrl-C ends it."""
    try:
        for text in talk.stream(line):
            sys.stdout.write(text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write(" ...")
    except GlassformerError as error:  # a message that is too long does not end the conversation
        sys.stdout.write(f"{error}")
    print()
