"""Python text as words: how the tagger of code reads a file, whether or not it parses.

    def area(r):  # in m²
        return 3.14 * r       ->  ⏎0 def area ( r ) : # in m² ⏎1 return 3.14 * r

A word is a token of Python, with four departures. Strings and comments come in pieces without white
space, so that no word has a space or a line end in it. In f-strings the replacement fields are
code, on every version of Python. Layout is one word at the beginning of each line of code or
comment, ⏎ and the depth of its indentation; lines inside brackets have none, except after a
comment, which it ends. The backslash that joins two lines is a word of layout as well.
"""

import keyword
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from glassformer.demos.tables import constants

LONGEST = 64
"""Characters of the longest word that is no name; a longer one is divided."""

_PREFIX = r"(?:[rR][bBfFtT]?|[bBfFtT][rR]?|[uU])?"
_DIGITS = r"[0-9](?:_?[0-9])*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    | (?P<comment>\#[^\r\n]*)
    | (?P<string>{_PREFIX}(?:\"\"\"|'''|"|'))
    | (?P<number>0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+
        |(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?[jJ]?)
    | (?P<name>[^\W\d]\w*)
    | (?P<layout>\\(?=[\r\n]))
    | (?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|\*\*|//|>>|<<|[-+*/%@&|^=!<>]=|\S)""",
    re.VERBOSE,
)
_PIECE, _WHOLE = re.compile(rf"\S{{1,{LONGEST}}}"), re.compile(r"\S+")
_NEVER_IN_BRACKETS = frozenset(constants("code")["never_in_brackets"])
"""Where one of these begins a line, a bracket or f-string that is still open was never closed."""


class Word(NamedTuple):
    """A word, its kind, which the letters alone tell, and its characters [start, end).

    A kind is "name", "keyword", "string", "comment", "number", "operator" or "layout".
    """

    text: str
    kind: str
    start: int
    end: int


@dataclass
class _Open:
    """An open part of an f-string: its text, a replacement field, or the format specification of a
    field."""

    kind: Literal["text", "field", "spec"]
    quote: str
    raw: bool
    depth: int
    """Open brackets around it."""
    start: int = 0
    """Of a field's expression, as the next."""
    end: int | None = None


def split_code(source: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of any text and the characters [start, end) of each, in order.

    Whatever is visible is in exactly one span; spans of layout hold white space (or nothing, at the
    beginning).
    """
    words, _ = read_code(source)
    return [word.text for word in words], [(word.start, word.end) for word in words]


def read_code(source: str) -> tuple[list[Word], list[tuple[int, int]]]:
    """The words of any text, and the spans of the expressions in f-strings, by their beginning;
    text that is no Python is read as well as it can be."""
    reader, at = _Reader(source), 0
    while at < len(source):
        inside = reader.open[-1] if reader.open else None
        if inside is None or inside.kind == "field":
            at = reader.token(at, inside)
        else:
            at = reader.text(at, inside)
    return reader.words[1:], sorted(reader.fields)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.words = [Word("", "", 0, 0)]  # a sentinel before the first
        self.fields: list[tuple[int, int]] = []
        self.open: list[_Open] = []
        self.depth = 0  # of brackets
        self.indents = [0]
        self.last = 0  # the end of the token before
        self.fresh = True  # a line has ended since that token

    def token(self, at: int, inside: _Open | None) -> int:
        """Read one token of code, perhaps inside a field; returns its end."""
        found = _TOKEN.match(self.source, at)
        assert found is not None  # the last alternative takes any visible character
        kind, text, end = str(found.lastgroup), found[0], found.end()
        if kind == "space":
            joined = self.words[-1][:2] == ("\\", "layout")
            self.fresh |= not joined and ("\n" in text or "\r" in text)
            return end
        if kind == "string":
            return self._string(at, text)
        ends = kind == "operator" and text not in "([{"  # perhaps an expression
        if inside is not None and self.depth == inside.depth + 1 and ends:
            return self._field_operator(at, inside, text)
        if keyword.iskeyword(text):
            kind = "keyword"
            if self.fresh and text in _NEVER_IN_BRACKETS:
                self.open.clear()
                self.depth = 0
        self._put(kind, at, end)
        if kind == "operator":
            self.depth = max(self.depth + (text in "([{") - (text in ")]}"), 0)
        return end

    def text(self, at: int, inside: _Open) -> int:
        """Read the words of an f-string up to a field or its end; returns where it stopped."""
        end = self._match(_literal(inside.quote, inside.raw, inside.kind == "spec"), at)
        stop = self.source[end : end + 1]
        if not stop or stop not in "{}":
            end = self._closed(at, end, inside.quote)
            part = self.open.pop()
            while part.kind != "text":  # a quote ends all parts that are open inside it
                part = self.open.pop()
            self.depth = part.depth
            return end
        self._put("string", at, end)
        self._put("operator", end, end + 1)
        if stop == "{":
            opened = replace(inside, kind="field", depth=self.depth, start=end + 1, end=None)
            self.open.append(opened)
            self.depth += 1
        elif inside.kind == "spec":
            self.open.pop()
            self._close_field(end)
        return end + 1

    def _field_operator(self, at: int, inside: _Open, text: str) -> int:
        """Read an operator of a field that is in no bracket: it may end the expression."""
        end = at + len(text)
        if text in (":", ":="):
            inside.end, end = inside.end or at, at + 1
            self.open.append(replace(inside, kind="spec", depth=self.depth))
        elif text == "=":
            inside.end = at
        elif text == "!":
            inside.end = inside.end or at
            end += self.source[end : end + 1] in ("r", "s", "a")
        self._put("operator", at, end)
        if text == "}":
            self._close_field(at)
        return end

    def _close_field(self, at: int) -> None:
        closed = self.open.pop()
        self.depth = closed.depth
        self.fields.append((closed.start, at if closed.end is None else closed.end))

    def _string(self, at: int, text: str) -> int:
        """Read a string, or the opening quote of an f-string; returns its end."""
        prefix = text.rstrip("\"'").lower()
        quote, after = text[len(prefix) :], at + len(text)
        if "f" in prefix or "t" in prefix:
            self.open.append(_Open("text", quote, "r" in prefix, self.depth))
            self._put("string", at, after)
            return after
        return self._closed(at, self._match(_literal(quote, fields=False), after), quote)

    def _match(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self.source, at)
        return found.end() if found else at

    def _closed(self, at: int, end: int, quote: str) -> int:
        """Add a string that ends before its closing quote, if that is there; returns its end."""
        end += len(quote) if self.source.startswith(quote, end) else 0
        self._put("string", at, end)
        return end

    def _put(self, kind: str, start: int, end: int) -> None:
        """Add the pieces of a token, at the beginning of a line after its layout."""
        if start == end:
            return
        if self.fresh and (not self.depth or self.words[-1].kind == "comment"):
            depth = self._indentation(start, kind == "comment")
            self.words.append(Word(f"⏎{depth}", "layout", self.last, start))
        pieces = _WHOLE if kind == "name" else _PIECE
        for found in pieces.finditer(self.source, start, end):
            self.words.append(Word(found[0], kind, *found.span()))
        self.last, self.fresh = end, False

    def _indentation(self, at: int, comment: bool) -> int:
        """The depth of a line that begins at a place; inside brackets and for comments nothing is
        remembered."""
        begin = max(self.source.rfind(end, 0, at) for end in "\n\r\f") + 1
        column = len(self.source[begin:at].expandtabs(8))
        depth = sum(indent <= column for indent in self.indents) - 1
        deeper = column > self.indents[depth]
        if not comment and not self.depth:
            self.indents = [*self.indents[: depth + 1], *([column] if deeper else [])]
        return depth + deeper


@cache
def _literal(
    quote: str, raw: bool = True, spec: bool = True, fields: bool = True
) -> re.Pattern[str]:
    """The text of a string up to its closing quote, or the end of its line where that is missing;
    with fields, up to a brace that counts."""
    braces, other = ("{}", "[^{}]") if fields else ("", ".")
    ends = "" if len(quote) == 3 else r"\r\n"
    kinds = [rf"[^\\{braces}{quote[0]}{ends}]", rf"\\(?:\r\n|{other})", r"\\(?=[{}])"]
    if not raw:
        kinds.insert(0, r"\\N\{[^{}\r\n]*\}")
    if not spec:
        kinds.append(r"\{\{|\}\}")
    if len(quote) == 3:
        kinds.append(rf"{quote[0]}(?!{quote[1:]})")
    return re.compile(f"(?:{'|'.join(kinds)})*", re.DOTALL)
