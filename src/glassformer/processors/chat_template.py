"""Chat templates: messages to tokens, and which of them the assistant says.

    <|user|> 2 + 2? <eos> <|assistant|> 4 <eos>
                                        ------- the answer

A template is a text of Jinja. Our own one is built here without Jinja; that of a published model is
rendered in a sandbox. What a user writes is encoded as ordinary characters, so it holds no special
symbol; the symbols of the template are ids.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.conversations import ASSISTANT, ROLES, Message, Messages, messages_of
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files import read_bytes, write_text
from glassformer.processors.template_sandbox import SANDBOX, TemplateError
from glassformer.processors.word_spans import token_words
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
"""Code points that stand for a special symbol in a message while it is rendered."""
PROBE = (Message("user", "a"), Message(ASSISTANT, "b"))
BLACK, MARKS = re.compile(r"\S"), "\ufdd0\ufdd1"
"""What is hidden of messages that a template changes; what the sandbox marks answers by."""
Span = tuple[int, int]


@dataclass(frozen=True)
class Marked:
    """Rendered messages: the text, and spans of its characters."""

    text: str
    answers: tuple[Span, ...]
    """What the assistant says, with the symbol that ends it."""
    contents: tuple[tuple[Span, str], ...]
    """The text of each message, with its role."""
    quoted: tuple[Span, ...]
    """Where no special symbol counts."""


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
        self._symbols = {tokenizer.symbol(index): index for index in tokenizer.specials.values()}
        longest = sorted(map(re.escape, self._symbols), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest) or r"(?!)")
        self._hidden = re.compile("|".join([*longest, f"[{MARKS}]"]))
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

    def encode(
        self, messages: Any, prompt: bool = False, spoken: bool = False, answers: bool = True
    ) -> EncodedMessages:
        """Messages as tokens; as a `prompt`, up to where the assistant's next message begins.

        `spoken`: also who says each token; `answers`: which of them the assistant does. DataError:
        the template refuses the messages, or does not tell which part is the assistant's.
        """
        marked = self._marked(messages, prompt, answers and not prompt)
        whole = self.tokenizer.kind == "library"
        ids, owners, places = self._whole(marked) if whole else self._pieces(marked, spoken)
        roles = np.array([*(ROLES.index(role) for _, role in marked.contents), -1], np.int8)
        said = np.zeros(len(ids), bool)
        for begin, end in marked.answers:
            said |= (places >= begin) & (places < end)
        speaker = np.where(said, ROLES.index(ASSISTANT), roles[owners]).astype(np.int8)
        return EncodedMessages(ids, speaker, said)

    def render(self, messages: Any, prompt: bool = False) -> str:
        """The text of messages."""
        return self._marked(messages, prompt, answers=False).text

    def _marked(self, messages: Any, prompt: bool, answers: bool) -> Marked:
        said = messages_of(messages, "the conversation")
        if not self._own:
            return self._jinja(said, prompt, answers)
        marked = self._built(said, prompt)
        return marked if answers else replace(marked, answers=())

    @cached_property
    def ends(self) -> frozenset[int]:
        """The symbols that end the assistant's message: the one that the template writes there, and
        the tokenizer's end of text."""
        eos = self.tokenizer.specials.get("eos")
        ends = {eos} - {None}
        if not self._own:
            try:
                found = self.encode(PROBE)
                last = found.ids[np.flatnonzero(found.answers)[-1] :][:2].tolist()
            except GlassformerError:  # a template that wants other messages
                last = []
            ends |= {i for i in last if i in self._symbols.values()}
        return frozenset(ends)  # pyright: ignore[reportReturnType]

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

    def _built(self, messages: Messages, prompt: bool) -> Marked:
        """Our own template."""
        specials, begins = self.tokenizer.specials, self.text.startswith(BOS)
        end, text = self.tokenizer.symbol(specials["eos"]), ""
        contents, answers = list[tuple[Span, str]](), list[Span]()
        if begins:
            text = self.tokenizer.symbol(specials["bos"])
        for message in messages:
            if message.role not in SPEAKERS:
                raise DataError(
                    f"the conversation has a message of the role {message.role!r}, which our own "
                    f"template does not know; use {', '.join(SPEAKERS)}"
                )
            begin = len(text := f"{text}<|{message.role}|>")
            text += message.content
            contents.append(((begin, len(text)), message.role))
            text += end
            if message.role == ASSISTANT:
                answers.append((begin, len(text)))
        text += f"<|{ASSISTANT}|>" * prompt
        return Marked(text, tuple(answers), tuple(contents), tuple(span for span, _ in contents))

    def _jinja(self, messages: Messages, prompt: bool, asked: bool) -> Marked:
        """A published template; symbols in messages are hidden while it is rendered.

        It may change a message, and so make a symbol of it. Then it must write the same symbols
        around messages of which it knows no character.
        """
        found = self._hiding(self._hidden, messages, prompt, asked)
        changed = len(found.contents) < sum(bool(one.content.strip()) for one in messages)
        firsts = {symbol[:1] for symbol in self._symbols}
        if changed or any(firsts & {*one.content} for one in messages):
            blind = self._hiding(BLACK, messages, prompt, asked)
            if self._own_symbols(blind) != self._own_symbols(found):
                return blind
        return found

    def _own_symbols(self, marked: Marked) -> list[str]:
        return [marked.text[begin:end] for begin, end in self._symbol_spans(marked)]

    def _hiding(
        self, what: re.Pattern[str], messages: Messages, prompt: bool, asked: bool
    ) -> Marked:
        """Render messages with a private character for each match of this pattern, then quote the
        matches."""
        said = "".join(message.content for message in messages)
        parts = dict.fromkeys(what.findall(said))
        free = (chr(code) for code in PRIVATE if chr(code) not in said)
        names = dict(zip(free, parts, strict=False))
        if len(names) < len(parts):
            raise DataError(
                f"the conversation has {len(parts):,} different symbols and characters, more than "
                "a chat template can be given apart; shorten it"
            )
        new = {part: name for name, part in names.items()}
        hide = lambda text: what.sub(lambda match: new[match[0]], text)
        hidden = tuple(replace(one, content=hide(one.content)) for one in messages)
        text, answers = self._rendered(hidden, prompt)
        if asked and not answers:
            answers = [*self._by_prefixes(text, hidden)]
        contents = [*_found(text, hidden)]
        if not names:
            return Marked(text, tuple(answers), tuple(contents), ())
        places, quoted, whole = [0], list[Span](), list[str]()
        for character in text:
            begin = places[-1]
            whole.append(names.get(character, character))
            places.append(begin + len(whole[-1]))
            if character in names:
                quoted.append((begin, places[-1]))
        moved = lambda span: (places[span[0]], places[span[1]])
        return Marked(
            "".join(whole),
            tuple(map(moved, answers)),
            tuple((moved(span), role) for span, role in contents),
            tuple(quoted),
        )

    def _rendered(self, messages: Messages, prompt: bool) -> tuple[str, list[Span]]:
        specials = self.tokenizer.specials
        symbols = {
            f"{role}_token": self.tokenizer.symbol(specials[role])
            for role in SPECIAL_ROLES
            if role in specials
        }
        said = [{"role": one.role, "content": one.content} for one in messages]
        values = {"messages": said, "tools": None, "documents": None}
        return SANDBOX.render(self.text, {**symbols, **values, "add_generation_prompt": prompt})

    def _by_prefixes(self, text: str, messages: Messages) -> Iterator[Span]:
        """The answers where the template does not mark them: what it adds to the text before."""
        for i, message in enumerate(messages):
            if message.role != ASSISTANT:
                continue
            last = i + 1 == len(messages)
            before = self._rendered(messages[:i], prompt=True)[0]
            after = text if last else self._rendered(messages[: i + 1], prompt=False)[0]
            if not (text.startswith(after) and after.startswith(before)):
                raise TemplateError(
                    "the chat template does not tell which part of the text is the assistant's; "
                    "mark it by {% generation %}, or set data.loss_on=all"
                )
            said = after[len(before) :]
            symbols = [found.end() for found in self._pattern.finditer(said)]
            if symbols and not said[symbols[-1] :].strip():
                said = said[: symbols[-1]]
            yield len(before), len(before) + len(said)

    def _whole(self, marked: Marked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, the number of the message of each (-1: none), and its last character."""
        ids, spans = self.tokenizer.encode_symbols(marked.text, self._symbol_spans(marked))
        places = np.maximum(spans[:, 1] - 1, spans[:, 0])
        owners, middles = np.full(len(ids), -1), (spans[:, 0] + places) // 2
        for number, ((begin, end), _) in enumerate(marked.contents):
            owners[(middles >= begin) & (middles < end)] = number
        return ids, owners, places

    def _pieces(self, marked: Marked, spoken: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of our own kinds of tokenizers: texts between symbols and at the borders of
        answers are encoded apart. Messages are told only if `spoken`, which takes a while."""
        symbols = {*self._symbol_spans(marked)}
        cuts = {0, len(marked.text), *(at for span in (*symbols, *marked.answers) for at in span)}
        ids, owners, places = [np.zeros(0, np.int32)], list[int](), list[int]()
        for begin, end in pairwise(sorted(cuts)):
            text = marked.text[begin:end]
            symbol = (begin, end) in symbols
            own = np.array([self._symbols[text]]) if symbol else self.tokenizer.encode(text)
            ids.append(own)
            places += [begin] * len(own)
            owners += (
                self._owners(text, begin, marked) if spoken and not symbol else [-1] * len(own)
            )
        return np.concatenate(ids, dtype=np.int32), np.array(owners, int), np.array(places, int)

    def _owners(self, text: str, begin: int, marked: Marked) -> list[int]:
        """The number of the message of each token of a part of the text; -1: none."""
        inside = [
            (number, (max(first - begin, 0), min(last - begin, len(text))))
            for number, ((first, last), _) in enumerate(marked.contents)
            if first < begin + len(text) and last > begin
        ]
        words = token_words(self.tokenizer, text, [span for _, span in inside])
        return [-1 if word is None else inside[word][0] for word in words]

    def _symbol_spans(self, marked: Marked) -> list[Span]:
        """The symbols that the template itself wrote."""
        found, begin = list[Span](), 0
        for quoted, after in (*marked.quoted, (len(marked.text), len(marked.text))):
            inside = self._pattern.finditer(marked.text, begin, quoted)
            found += [match.span() for match in inside]
            begin = after
        return found


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


def _found(text: str, messages: Messages) -> Iterator[tuple[Span, str]]:
    """Where the messages stand in the text, one after the other; one that was changed is passed
    over."""
    place = 0
    for message in messages:
        said = message.content.strip()
        if said and (begin := text.find(said, place)) >= 0:
            place = begin + len(said)
            yield (begin, place), message.role
