"""Text from the terminal, JSON to it."""

import os
import sys
from typing import Any

from glassformer.core.errors import DataError
from glassformer.core.files import WINDOWS


def print_json(value: Any) -> None:
    """One line of strict JSON on stdout: a number that JSON does not have (NaN, infinity) is
    null."""
    import json

    from glassformer.core.files import finite

    print(json.dumps(finite(value), ensure_ascii=False, allow_nan=False).translate(LINE_ENDS))


END_KEY = "Ctrl-Z and Enter" if WINDOWS else "Ctrl-D"
"""What ends input that is typed."""
LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Characters that JSON may hold as they are, but that many programs read as the end of a line."""


def read_stdin(piped: bool = False) -> str:
    """All of standard input, which must be UTF-8; "" without one, or with `piped` on a terminal.

    On a terminal, a line on stderr says how to end it.
    """
    if sys.stdin is None or (piped and sys.stdin.isatty()):
        return ""
    if sys.stdin.isatty():
        sys.stderr.write(f"reading text from the terminal; end it with {END_KEY}\n")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"Standard input is not UTF-8 (byte 0x{error.object[error.start]:02x} at offset "
            f"{error.start}); convert it first, for instance with iconv."
        ) from None


def first_process() -> bool:
    """Whether this process speaks for those that torchrun started with it."""
    return os.environ.get("RANK", "0") == "0"


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()
