"""Chat templates: messages to tokens, and which of them the assistant says.

    <|user|> 2 + 2? <eos> <|assistant|> 4 <eos>
                                        ------- the answer

A template is a text of Jinja; that of a published model is rendered in a worker process. What a
user writes is encoded as ordinary characters, so it holds no special symbol; the symbols of the
template are ids.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.conversations import ASSISTANT, ROLES, Message, Messages, messages_of
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files import read_bytes, write_text
from glassformer.tokenizers.roles import ROLES as SPECIAL_ROLES
from glassformer.tokenizers.roles import read_object
from glassformer.tokenizers.text import Tokenizer
from glassformer.workers import Workers

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
"""Code points that replace parts of a message during its rendering."""
PROBE = (Message("user", "a"), Message(ASSISTANT, "b"))
BLACK = re.compile(r"\S")
WORKERS = Workers(memory=256 << 20)
SECONDS = 0.1
"""Processor time of one rendering."""
Span = tuple[int, int]


@dataclass(frozen=True)
class Marked:
    """Rendered messages: the text, and spans of its characters."""

    text: str
    answers: tuple[Span, ...]
    """What the assistant says, with the symbol that ends it."""
    contents: tuple[tuple[Span, str], ...]
    """The text of each message, with its role."""
    symbols: tuple[Span, ...]
    """The special symbols that the template itself writes."""

    @property
    def written(self) -> list[str]:
        """The names of these symbols."""
        return [self.text[begin:end] for begin, end in self.symbols]


@dataclass(frozen=True)
class EncodedMessages:
    """Messages as tokens."""

    ids: np.ndarray
    """int32 [T]."""
    roles: np.ndarray
    """int8 [T]: the place in `ROLES` of who says a token; -1: the template."""
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
        """Messages as tokens; as a `prompt`, up to where the assistant's next message begins.

        `answers`: also which tokens the assistant says. DataError: the template refuses the
        messages, or does not show which part is the assistant's.
        """
        marked = self._mark(messages, prompt, answers and not prompt)
        ids, spans = self.tokenizer.encode_symbols(marked.text, marked.symbols)
        last = np.maximum(spans[:, 1] - 1, spans[:, 0])
        middle = (spans[:, 0] + last) // 2
        said, roles = np.zeros(len(ids), bool), np.full(len(ids), -1, np.int8)
        for begin, end in marked.answers:
            said |= (last >= begin) & (last < end)
        for (begin, end), role in marked.contents:
            roles[(middle >= begin) & (middle < end)] = ROLES.index(role)
        roles[said] = ROLES.index(ASSISTANT)
        return EncodedMessages(ids, roles, said)

    def render(self, messages: Any, prompt: bool = False) -> str:
        """The text of messages."""
        return self._mark(messages, prompt, answers=False).text

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

    def _mark(self, given: Any, prompt: bool, answers: bool) -> Marked:
        """Render messages; symbols in them are hidden while they are rendered.

        A template may change a message, as ours does not, and so make a symbol of it. Then it must
        write the same symbols around messages of which it knows no character.
        """
        messages = messages_of(given, "the conversation")
        found = self._hide(self._pattern, messages, prompt, answers)
        if self._own:
            return found
        changed = len(found.contents) < sum(bool(one.content.strip()) for one in messages)
        said = "".join(one.content for one in messages)
        if changed or any(symbol[:1] in said for symbol in self._symbols):
            blind = self._hide(BLACK, messages, prompt, answers)
            if blind.written != found.written:
                return blind
        return found

    def _hide(self, what: re.Pattern[str], messages: Messages, prompt: bool, asked: bool) -> Marked:
        """Render messages with a private character for each match of this pattern, then quote the
        matches."""
        said = "".join(message.content for message in messages)
        parts = dict.fromkeys(what.findall(said))
        free = (chr(code) for code in PRIVATE if chr(code) not in said)
        new = dict(zip(parts, free, strict=False))
        if len(new) < len(parts):
            raise DataError(
                f"the conversation has {len(parts):,} different characters, more than a chat "
                "template can be given; shorten it"
            )
        hide = lambda text: what.sub(lambda match: new[match[0]], text)
        hidden = tuple(replace(one, content=hide(one.content)) for one in messages)
        text, answers = self._write(hidden, prompt)
        if asked and not answers:
            answers = self._by_prefixes(text, hidden)
        names = {name: part for part, name in new.items()}
        whole = [names.get(character, character) for character in text]
        places = [0, *accumulate(map(len, whole))]
        moved = lambda begin, end: (places[begin], places[end])
        return Marked(
            "".join(whole),
            tuple(moved(*span) for span in answers) if asked else (),
            tuple((moved(*span), role) for span, role in _spans_of(text, hidden)),
            tuple(moved(*match.span()) for match in self._pattern.finditer(text)),
        )

    def _write(self, messages: Messages, prompt: bool) -> tuple[str, list[Span]]:
        """The text, and the answers that the template marks."""
        symbols = {
            f"{role}_token": self.tokenizer.symbol(index)
            for role, index in self.tokenizer.specials.items()
            if role in SPECIAL_ROLES
        }
        said = [*map(vars, messages)]
        values = {"messages": said, "tools": None, "documents": None}
        values |= {**symbols, "add_generation_prompt": prompt}
        if not self._own:
            return render(self.text, values)
        if others := {one.role for one in messages} - {*SPEAKERS}:
            raise DataError(
                f"the conversation has a message of the role {min(others)!r}, which our own "
                f"template does not know; use {', '.join(SPEAKERS)}"
            )
        return template_rendering().render(self.text, values)

    def _by_prefixes(self, text: str, messages: Messages) -> Iterator[Span]:
        """The answers where the template does not mark them: what it adds to the text before."""
        for i, message in enumerate(messages):
            if message.role != ASSISTANT:
                continue
            last = i + 1 == len(messages)
            before = self._write(messages[:i], prompt=True)[0]
            after = text if last else self._write(messages[: i + 1], prompt=False)[0]
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


def render(template: str, values: dict[str, Any]) -> tuple[str, list[Span]]:
    """The text of a template, and the spans that it marks as answers, by a worker.

    DataError: it fails, takes more than `SECONDS` of processor time or 256 MiB, or writes more than
    4 Mi characters.
    """
    function = template_rendering().render
    return WORKERS.run(function, template, values, seconds=SECONDS, what="the chat template")


def template_rendering() -> Any:
    """The module that imports Jinja."""
    return import_module("glassformer.processors.template_rendering")


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


def _spans_of(text: str, messages: Messages) -> Iterator[tuple[Span, str]]:
    """Return the spans of the messages in a text, in their order, without those that it changes."""
    place = 0
    for message in messages:
        said = message.content.strip()
        if said and (begin := text.find(said, place)) >= 0:
            place = begin + len(said)
            yield (begin, place), message.role
