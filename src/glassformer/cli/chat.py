"""`glassformer chat`: a conversation with a language model, typed or from a pipe.

on a terminal       answers grow as they are generated; /reset, /system TEXT, /quit
from a pipe         each line is a message of the user, each answer a line; of an empty one, empty
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.cli.lines import chunks
from glassformer.cli.options import Device, Json, MaxNewTokens, RunFolder, given
from glassformer.cli.terminal import END_KEY, on_terminal, print_json
from glassformer.core.errors import GlassformerError, counted, one_line
from glassformer.core.signals import each_interrupts

if TYPE_CHECKING:
    from glassformer.run import Run

COMMANDS = "/reset, /system TEXT, /quit"


def chat(
    run: RunFolder,
    prompt: str | None = None,
    system: str | None = None,
    max_new_tokens: MaxNewTokens = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seed: int | None = None,
    stop: list[str] | None = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Talk with a model that was trained on messages.

    On a terminal, Ctrl-C stops an answer; /reset begins anew, /system TEXT changes the system
    message, /quit ends. From a pipe, each line is a message and each answer a line.

    prompt: One message, instead of a conversation.
    system: System message.
    temperature: Sampling temperature; 0: always the likeliest token.
    top_k: Only the K likeliest tokens.
    top_p: Only the likeliest tokens that together reach P.
    min_p: Only tokens at least P times as likely as the likeliest.
    repetition_penalty: Above 1: tokens that already occurred become less likely.
    seed: Random seed; the same seed gives the same answers.
    stop: End an answer before this text; may be repeated.
    """
    from glassformer.run import load

    options = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k}
    options |= {"top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
    options |= {"seed": seed, "stop": stop}
    talk = _Talk(load(run, device), given(options), system)
    typed = prompt is None and sys.stdin is not None and sys.stdin.isatty()
    if typed and on_terminal() and not json:
        _typed(talk)
        return
    lines = chunks(1) if prompt is None else [[prompt]]
    for line in (line for own in lines for line in own):
        answer = talk.answer(line)
        if json:
            print_json(answer)
        else:
            print(answer["text"] if prompt is not None else one_line(answer["text"]))
        sys.stdout.flush()


class _Talk:
    """The messages of a conversation so far."""

    def __init__(self, run: "Run", options: dict[str, Any], system: str | None):
        _ = run.task.template  # or the first message would tell that there is none
        self.run, self.options = run, options
        run.options(**options)
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
        left_out = self._asked(text)
        how = self.run.options(**self.options)
        [made] = self.run.chatted([self.messages], how)
        self._answered(made.text)
        about = {"finish": made.finish, "tokens": len(made.ids), "left_out": left_out}
        return {"message": text, "text": made.text, **about}

    def stream(self, text: str) -> Iterator[str]:
        """The answer to a message as it grows; what has come is kept if it is stopped."""
        self._asked(text)
        said = ""
        try:
            for delta in self.run.chat_stream(self.messages, **self.options):
                said += delta.text
                yield delta.text
        finally:
            self._answered(said)

    def _asked(self, text: str) -> int:
        """Add a message; the number of old ones for which there is no more room."""
        asked = [*self.messages, {"role": "user", "content": text}]
        how = self.run.options(**self.options)
        left_out = len(self.run.task.chat_prompt(asked, how)[1])
        if left_out:
            first = bool(self.system)
            del asked[first : first + left_out]
            sys.stderr.write(
                f"(the oldest {counted(left_out, 'message')} left out: the context of the model is "
                f"{self.run.model.config.max_length:,} tokens)\n"
            )
        self.messages = asked
        return left_out

    def _answered(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


def _typed(talk: _Talk) -> None:
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
