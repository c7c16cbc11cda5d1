"""Lines that a person types are answered until an empty one; a line that cannot be answered does
not end it."""

import sys

import pytest

from glassformer.cli import terminal
from glassformer.errors import DataError


class Typed:
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch):
    def sit(*lines: str) -> None:
        rest = iter(lines)

        def read(prompt: str) -> str:
            try:
                return next(rest)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(terminal, "on_terminal", lambda: True)
        monkeypatch.setattr(sys, "stdin", Typed())
        monkeypatch.setattr("builtins.input", read)

    return sit


def answer(line: str) -> str:
    if line == "long":
        raise DataError("too long")
    return line.upper()


@pytest.mark.parametrize(
    ("lines", "said"), [(("a ", "long", "b", "", "c"), ["A", "too long", "B"]), (("a",), ["A"])]
)
def test_lines_are_answered_until_an_empty_one_or_the_end(typed, capsys, lines, said):
    typed(*lines)
    terminal.ask("type", answer)
    assert capsys.readouterr().out.split("\n")[1:] == [
        "type (an empty line ends):",
        *(f"  {line}" for line in said),
        "",
    ]


def test_nobody_is_asked_where_nobody_sits(typed, monkeypatch, capsys):
    typed("a")
    monkeypatch.setattr(terminal, "on_terminal", lambda: False)
    terminal.ask("type", answer)
    assert capsys.readouterr().out == ""
