"""The program: it runs a command, and an error is one sentence.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 130 interrupted.
"""

import sys
from io import TextIOWrapper

from glassformer.cli.look_commands import app  # with all commands
from glassformer.errors import GlassformerError


def main() -> None:
    """Run the command line; an error is one sentence on stderr and an exit code."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    if isinstance(
        sys.stdout, TextIOWrapper
    ):  # a terminal that lacks a character must not end the program
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app([argument for argument in arguments if argument != "--debug"], prog_name="glassformer")
    except GlassformerError as error:
        fail(str(error), error.exit_code, debug)
    except Exception as error:  # noqa: BLE001 - the last place where anything can be said
        said = str(error).lower()
        if (
            isinstance(error, MemoryError)
            or "out of memory" in said
            or "can't allocate memory" in said
        ):
            fail(
                "Out of memory; use a smaller train.batch_size or more train.micro_batches.",
                1,
                debug,
            )
        what = " ".join(f"{type(error).__name__}: {error}".split())
        fail(
            f"Something went wrong that should not ({what}); please report it with what "
            f"--debug shows.",
            1,
            debug,
        )


def fail(sentence: str, code: int, debug: bool) -> None:
    """Say what is wrong and exit; with --debug the error itself is raised again."""
    if debug:
        raise
    sys.stderr.write(f"glassformer: {sentence}\n")
    sys.exit(code)
