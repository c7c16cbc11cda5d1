"""Chat templates: messages to tokens, and which of them the assistant says.

    <|user|> 2 + 2? <eos> <|assistant|> 4 <eos>
                                        ------- the answer

A template is a text of Jinja; that of a published model is rendered in a worker process. What a
user writes is encoded as ordinary characters, so it holds no special symbol; the symbols of the
template are ids.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.errors import ConfigError, DataError, GlassformerError
from glassformer.core.files import read_bytes, write_text
from glassformer.core.workers import Workers
from glassformer.data.conversations import ASSISTANT, Message, Messages, messages_of
from glassformer.tokenizers.roles import ROLES as SPECIAL_ROLES
from glassformer.tokenizers.roles import read_object
from glassformer.tokenizers.text import Tokenizer

FILE = "chat_template.jinja"
LARGEST = 1 << 20
"""Bytes of a template; published ones have at most 20 KB."""
SPEAKERS = ("system", "user", ASSISTANT)
"""Roles of our own template."""
SYMBOLS = tuple(f"<|{role}|>" for role in SPEAKERS)
BOS = "{{ bos_token }}"
OWN = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
PRIVATE = range(0xF0000, 0xFFFFE)
"""Code points that replace characters of a message while it is rendered."""
PROBE = (Message("user", "a"), Message(ASSISTANT, "b"))
BLACK = re.compile(r"\S")
WORKERS = Workers(memory=256 << 20)
SECONDS = 0.1
"""Processor time of one rendering."""
Span = tuple[int, int]


class Rendered(NamedTuple):
    """The text of messages, and spans of its characters."""

    text: str
    symbols: list[Span]
    """The special symbols that the template itself writes."""
    answers: Sequence[Span]
    """What the assistant says, with the symbol that ends it."""


class EncodedMessages(NamedTuple):
    """Messages as tokens."""

    ids: np.ndarray
    """int32 [T]."""
    answers: np.ndarray
    """bool [T]: the assistant's text and the symbol that ends it."""


class ChatTemplate:
    """A template and the tokenizer whose symbols it writes."""

    def __init__(self, text: str, tokenizer: Tokenizer):
        self.text, self.tokenizer = text, tokenizer
        self._own = text in (OWN, BOS + OWN)
        self._symbols = {tokenizer.symbol(index) for index in tokenizer.specials.values()}
        longest = sorted(map(re.escape, self._symbols), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest) or r"(?!)")
        if self._own:
            self._check_own()

    @classmethod
    def own(cls, tokenizer: Tokenizer) -> "ChatTemplate":
        """Our own template. ConfigError: the tokenizer has no end-of-text symbol, or no symbol for
        a role."""
        begins = tokenizer.frame is not None and bool(tokenizer.frame.begin)
        return cls(BOS + OWN if begins else OWN, tokenizer)

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer) -> "ChatTemplate | None":
        """The template beside a tokenizer; None: there is none."""
        text = template_text(folder)
        return None if text is None else cls(text, tokenizer)

    def save(self, folder: Path) -> None:
        """Write the file that `load` reads, and transformers too."""
        write_text(folder / FILE, self.text)

    def encode(self, messages: Any, prompt: bool = False, answers: bool = True) -> EncodedMessages:
        """Encode messages; as a `prompt`, up to where the assistant's next message begins.

        `answers`: also find which tokens the assistant says. DataError: the template refuses the
        messages, or does not show which part is the assistant's.
        """
        text, symbols, spans = self.render(messages, prompt, answers and not prompt)
        ids, places = self.tokenizer.encode_symbols(text, symbols)
        last = np.maximum(places[:, 1] - 1, places[:, 0])
        said = np.zeros(len(ids), bool)
        for begin, end in spans:
            said |= (last >= begin) & (last < end)
        return EncodedMessages(ids, said)

    def render(self, given: Any, prompt: bool = False, answers: bool = False) -> Rendered:
        """Render messages; symbols in them are hidden meanwhile.

        A template may change a message, as ours does not, and so make a symbol of it. Then it must
        write the same symbols around messages of which it knows no character.
        """
        messages = messages_of(given, "the conversation")
        found = self._render(self._pattern, messages, prompt, answers)
        said = "".join(one.content for one in messages)
        if not self._own and any(symbol[:1] in said for symbol in self._symbols):
            blind = self._render(BLACK, messages, prompt, answers)
            if [*_texts(blind)] != [*_texts(found)]:
                return blind
        return found

    @cached_property
    def ends(self) -> frozenset[int]:
        """The symbols that end the assistant's message: the one that the template writes there, and
        the tokenizer's end of text."""
        specials = self.tokenizer.specials
        ends = [specials.get("eos")]
        with suppress(GlassformerError, IndexError):  # it wants other messages, or drops them
            found = self.encode(PROBE)
            ends += found.ids[np.flatnonzero(found.answers)[-1] :][:2].tolist()
        return frozenset(specials.values()) & frozenset(ends)

    def _check_own(self) -> None:
        specials = self.tokenizer.specials
        if missing := [symbol for symbol in SYMBOLS if symbol not in self._symbols]:
            raise ConfigError(
                f"The tokenizer has no symbol {missing[0]} for a role; add "
                f"processor.tokenizer.new_tokens=[{', '.join(missing)}]."
            )
        if "eos" not in specials or specials["eos"] == specials.get("pad"):
            raise ConfigError(
                "The tokenizer has no end-of-text symbol of its own, by which an answer ends; set "
                "processor.chat_template to the file of a template with another symbol."
            )

    def _render(
        self, hidden: re.Pattern[str], messages: Messages, prompt: bool, answers: bool
    ) -> Rendered:
        """Render messages whose characters in matches of this pattern are private ones, then put
        those characters back."""
        said = "".join(message.content for message in messages)
        free = (code for code in PRIVATE if chr(code) not in said)
        characters = dict.fromkeys("".join(hidden.findall(said)))
        table = dict(zip(map(ord, characters), free, strict=False))
        hide = lambda text: hidden.sub(lambda match: match[0].translate(table), text)
        messages = tuple(replace(one, content=hide(one.content)) for one in messages)
        text, spans = self._write(messages, prompt)
        if answers and not spans:
            spans = [*self._find_answers(text, messages)]
        symbols = [match.span() for match in self._pattern.finditer(text)]
        shown = text.translate({code: known for known, code in table.items()})
        return Rendered(shown, symbols, spans if answers else ())

    def _write(self, messages: Messages, prompt: bool) -> tuple[str, list[Span]]:
        """Return the text, and the answers that the template marks."""
        values: dict[str, Any] = {
            f"{role}_token": self.tokenizer.symbol(index)
            for role, index in self.tokenizer.specials.items()
            if role in SPECIAL_ROLES
        }
        values |= {"messages": [*map(vars, messages)], "add_generation_prompt": prompt}
        values |= {"tools": None, "documents": None}
        if not self._own:
            return render(self.text, values)
        if others := {one.role for one in messages} - {*SPEAKERS}:
            raise DataError(
                f"the conversation has a message of the role {min(others)!r}, which our own "
                f"template does not know; use {', '.join(SPEAKERS)}"
            )
        from glassformer.processors.tokens import template_rendering

        return template_rendering.render(self.text, values)

    def _find_answers(self, text: str, messages: Messages) -> Iterator[Span]:
        """Yield the answers where the template does not mark them: what it adds to the text
        before."""
        for i, message in enumerate(messages):
            if message.role != ASSISTANT:
                continue
            before, _ = self._write(messages[:i], prompt=True)
            after, _ = self._write(messages[: i + 1], prompt=False)
            if not (text.startswith(after) and after.startswith(before)):
                raise DataError(
                    "the chat template does not tell which part of the text is the assistant's; "
                    "mark it by {% generation %}, or set data.loss_on=all"
                )
            said = after[len(before) :]
            symbols = [found.end() for found in self._pattern.finditer(said)]
            if symbols and not said[symbols[-1] :].strip():
                said = said[: symbols[-1]]
            yield len(before), len(before) + len(said)


def _texts(rendered: Rendered) -> Iterator[str]:
    """Yield the symbols that a template wrote."""
    return (rendered.text[begin:end] for begin, end in rendered.symbols)


def render(template: str, values: dict[str, Any]) -> tuple[str, list[Span]]:
    """Return the text of a template, and the spans that it marks as answers, by a worker.

    DataError: it fails, takes more than `SECONDS` of processor time or 256 MiB, or writes more than
    4 Mi characters.
    """
    from glassformer.processors.tokens import template_rendering

    function = template_rendering.render
    return WORKERS.run(function, template, values, seconds=SECONDS, what="the chat template")


def template_text(folder: Path) -> str | None:
    """The template of a folder in the ecosystem's layout: its own file, else a key of
    tokenizer_config.json, by the name `default` of several; None: it has none."""
    if (file := folder / FILE).is_file():
        return read_template(file)
    given = read_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(given, list):
        named = [one for one in given if isinstance(one, dict) and one.get("name") == "default"]
        given = named[0].get("template") if named else None
    if given is not None and not isinstance(given, str):
        raise DataError(f"chat_template of {folder} is no text; restore tokenizer_config.json")
    return given


def read_template(file: Path) -> str:
    """The template in a file; DataError: none, too long, or not UTF-8."""
    try:
        return read_bytes(file, LARGEST, "a chat template").decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is not UTF-8; restore it") from None
