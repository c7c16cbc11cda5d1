"""The errors that reach a user: one sentence with the value, what was expected and the remedy."""

import difflib
from collections.abc import Iterable

SYMBOLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {
    code: "\N{REPLACEMENT CHARACTER}" for code in range(127, 160)
}


class GlassformerError(Exception):
    """Something the user can act on failed while running; the command line exits with code 1."""

    exit_code = 1


class ConfigError(GlassformerError):
    """A request that cannot be met (a bad key, value or combination); exits with code 2."""

    exit_code = 2


class DataError(GlassformerError):
    """The data cannot be read or used."""


class CheckpointError(GlassformerError):
    """A run folder or a checkpoint is missing, damaged or of another model."""


class TrainingError(GlassformerError):
    """Training had to stop, for instance because the loss is not finite."""


class ElsewhereError(GlassformerError):
    """Another process of the run stopped with this exit code, and reports why."""

    def __init__(self, exit_code: int):
        super().__init__("Another process of this run stopped; see its own message.")
        self.exit_code = exit_code


def brief(value: object, most: int = 60) -> str:
    """A value in a sentence, cut if it is long."""
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def amount(n: int, noun: str) -> str:
    """A number and its noun: `1 token`, `2,000 tokens`."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`tokens`, `patches`, `classes`."""
    return f"{noun}es" if noun.endswith(("ch", "ss")) else f"{noun}s"


def printable(text: str) -> str:
    """Text with control characters as symbols (␛ for escape), so that it cannot command a
    terminal; newlines and tabs stay."""
    return text.translate(SYMBOLS)


def one_line(text: str) -> str:
    """A text in one line, with spaces between its lines."""
    return " ".join(text.splitlines()) if text else text


def suggest(name: str, known: Iterable[str]) -> str:
    """The tail of an error sentence for a misspelt `name`: the closest known names, or all of
    them."""
    names = sorted(known)
    if close := difflib.get_close_matches(name, names, n=2):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"known are {', '.join(names)}"
