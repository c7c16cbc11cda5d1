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
from dataclasses import dataclass, field
from functools import cache

LONGEST = 64
"""Characters of the longest word that is no name; what is longer comes in several."""

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
_PIECE = re.compile(rf"\S{{1,{LONGEST}}}")
_KEYWORDS = frozenset(keyword.kwlist)
_NEVER_IN_BRACKETS = frozenset(
    [
        "assert",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "global",
        "import",
        "nonlocal",
        "pass",
        "raise",
        "return",
    ]
)
"""Where one of these begins a line, a bracket or f-string that is still open was never closed."""


@dataclass(frozen=True)
class Code:
    """Words of a text, where each stands (spans of characters), and what the letters alone say
    about it.

    A kind is "name", "keyword", "string", "comment", "number", "operator" or "layout"; `fields` are
    the spans of the expressions in f-strings, by their beginning.
    """

    words: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    fields: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class _Text:
    """An f-string that is open, or the format specification of one of its fields."""

    quote: str
    raw: bool
    spec: bool


@dataclass
class _Field:
    """A replacement field that is open: the depth of brackets inside it, where its expression
    begins and ends."""

    depth: int
    start: int
    end: int | None = None


def split_code(source: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of any text and the characters [start, end) of each, in order.

    Whatever is visible is in exactly one span; spans of layout hold white space (or nothing, at the
    beginning).
    """
    code = read_code(source)
    return code.words, code.spans


def read_code(source: str) -> Code:
    """The words of any text with their kinds; text that is no Python is read as well as it can
    be."""
    reader, at = _Reader(source), 0
    while at < len(source):
        inside = reader.open[-1] if reader.open else None
        at = reader.text(at, inside) if isinstance(inside, _Text) else reader.token(at, inside)
    reader.code.fields.sort()
    return reader.code


class _Reader:
    def __init__(self, source: str) -> None:
        self.source, self.code = source, Code()
        self.open: list[_Text | _Field] = []
        self.depth = 0  # of brackets
        self.indents = [0]
        self.last = 0  # where the word before ends
        self.fresh = True  # a line has ended since that word

    def token(self, at: int, inside: _Field | None) -> int:
        """Reads one token of code; returns where it ends."""
        found = _TOKEN.match(self.source, at)
        assert found is not None  # the last alternative takes any visible character
        kind, text, end = str(found.lastgroup), found[0], found.end()
        if kind == "space":
            self._space(text)
            return end
        if kind == "name" and text in _KEYWORDS:
            kind = "keyword"
            if self.fresh and text in _NEVER_IN_BRACKETS:
                self.open.clear()
                self.depth, inside = 0, None
        if inside is not None and self.depth == inside.depth and kind == "operator":
            end = self._field_operator(at, inside, text)
            return end
        if kind == "string":
            return self._string(at, text)
        self._put(kind, at, end)
        if kind == "operator" and text in "([{":
            self.depth += 1
        elif kind == "operator" and text in ")]}":
            self.depth = max(self.depth - 1, 0)
        return end

    def _space(self, text: str) -> None:
        joined = self.code.kinds[-1:] == ["layout"] and self.code.words[-1] == "\\"
        self.fresh = self.fresh or (not joined and ("\n" in text or "\r" in text))

    def text(self, at: int, inside: _Text) -> int:
        """Reads the words of an f-string up to a field or its end; returns where it stopped."""
        found = _literal(inside.quote, inside.raw, inside.spec).match(self.source, at)
        end = found.end() if found else at
        stop = self.source[end : end + 1]
        if stop == "{":
            self._put("string", at, end)
            self._put("operator", end, end + 1)
            self.depth += 1
            self.open.append(_Field(self.depth, end + 1))
            return end + 1
        if stop == "}":
            self._put("string", at, end)
            self._put("operator", end, end + 1)
            if inside.spec:
                self.open.pop()
                self._close_field(end)
            return end + 1
        closed = end + len(inside.quote) if self.source.startswith(inside.quote, end) else end
        self._put("string", at, closed)
        while (
            isinstance(top := self.open.pop(), _Field) or top.spec
        ):  # a quote ends what is open inside it
            self.depth = top.depth - 1 if isinstance(top, _Field) else self.depth
        return closed

    def _field_operator(self, at: int, inside: _Field, text: str) -> int:
        """An operator of a replacement field that is in no bracket: it may end the expression."""
        end = at + len(text)
        if text in "([{":
            self.depth += 1
        elif text in (":", ":="):
            inside.end, end = inside.end or at, at + 1
            literal = next(item for item in reversed(self.open) if isinstance(item, _Text))
            self.open.append(_Text(literal.quote, literal.raw, spec=True))
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
        assert isinstance(closed, _Field)
        self.depth = closed.depth - 1
        self.code.fields.append((closed.start, at if closed.end is None else closed.end))

    def _string(self, at: int, text: str) -> int:
        prefix = text.rstrip("\"'").lower()
        quote, after = text[len(prefix) :], at + len(text)
        if "f" in prefix or "t" in prefix:
            self.open.append(_Text(quote, "r" in prefix, spec=False))
            self._put("string", at, after)
            return after
        found = _plain(quote).match(self.source, after)
        end = found.end() if found else after
        self._put("string", at, end)
        return end

    def _put(self, kind: str, start: int, end: int) -> None:
        """Adds the pieces of a token, at the beginning of a line after its layout."""
        if start == end:
            return
        code = self.code
        if self.fresh and (not self.depth or code.kinds[-1:] == ["comment"]):
            self._add("layout", f"⏎{self._indentation(start, kind == 'comment')}", self.last, start)
        if kind in ("name", "keyword", "layout"):
            self._add(kind, self.source[start:end], start, end)
        else:
            for piece in _PIECE.finditer(self.source, start, end):
                self._add(kind, piece[0], piece.start(), piece.end())
        self.last, self.fresh = end, False

    def _add(self, kind: str, word: str, start: int, end: int) -> None:
        self.code.kinds.append(kind)
        self.code.words.append(word)
        self.code.spans.append((start, end))

    def _indentation(self, at: int, comment: bool) -> int:
        """How deep a line is that begins at a place; inside brackets and for comments nothing is
        remembered."""
        begin = max(self.source.rfind(end, 0, at) for end in "\n\r\f") + 1
        column = len(self.source[begin:at].expandtabs(8))
        depth = sum(indent <= column for indent in self.indents) - 1
        deeper = column > self.indents[depth]
        if not comment and not self.depth:
            self.indents = [*self.indents[: depth + 1], *([column] if deeper else [])]
        return depth + deeper


@cache
def _plain(quote: str) -> re.Pattern[str]:
    """The rest of an ordinary string with its closing quote, or the end of its line where that is
    missing."""
    if len(quote) == 3:
        return re.compile(
            rf"(?:[^\\{quote[0]}]|\\.|{quote[0]}(?!{quote[1:]}))*(?:{quote})?", re.DOTALL
        )
    return re.compile(rf"(?:[^\\{quote}\r\n]|\\(?:\r\n|.))*{quote}?", re.DOTALL)


@cache
def _literal(quote: str, raw: bool, spec: bool) -> re.Pattern[str]:
    """The text of an f-string up to a brace that counts, the closing quote, or the end of its
    line."""
    ends = "" if len(quote) == 3 else r"\r\n"
    kinds = [rf"[^\\{{}}{quote[0]}{ends}]", r"\\(?:\r\n|[^{}])", r"\\(?=[{}])"]
    if not raw:
        kinds.insert(0, r"\\N\{[^{}\r\n]*\}")
    if not spec:
        kinds.append(r"\{\{|\}\}")
    if len(quote) == 3:
        kinds.append(rf"{quote[0]}(?!{quote[1:]})")
    return re.compile(f"(?:{'|'.join(kinds)})*", re.DOTALL)
