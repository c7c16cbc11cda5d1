"""The program: it runs a command, and an error is one sentence.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 130 interrupted. Heavy imports stand inside commands,
so that `--help` answers at once.
"""

import os
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated

import typer

from glassformer.cli.evaluate import evaluate
from glassformer.cli.options import with_help
from glassformer.cli.predict import Commands
from glassformer.cli.publish import export, import_
from glassformer.cli.recipe import (
    data_show,
    plan,
    recipe_copy,
    recipe_fields,
    recipe_list,
    recipe_show,
    tokenize,
)
from glassformer.cli.serve import inspect, serve
from glassformer.cli.terminal import first_process
from glassformer.cli.train import demo, sweep, train
from glassformer.cli.vectors import analogy, contexts, near
from glassformer.cli.verbs import VERBS
from glassformer.cli.verify import verify
from glassformer.core.errors import ConfigError, ElsewhereError, GlassformerError
from glassformer.core.files import WINDOWS
from glassformer.core.progress import LEARNING
from glassformer.core.signals import INTERRUPTED, end_at_second_interrupt

app = typer.Typer(
    name="glassformer",
    cls=Commands,
    help="A complete Transformer toolkit: train models, run them, and inspect them.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: name.replace("_", "-"),  # --top_k is --top-k
    },
)
COMMANDS = (demo, train, sweep, evaluate, "generate", "chat", "translate", "tag", "classify")
COMMANDS += ("embed", "fill", "draw", "score", "choose", near, analogy, contexts, tokenize, plan)
COMMANDS += (verify, inspect, serve, import_, export)
"""In the order of `--help`; the names of those that predict."""
LAST_STANDARD = 2
"""The number of standard error."""
GROUPS = {
    "data": ("Look at training data.", {"show": data_show}),
    "recipe": (
        "Look at recipes.",
        {"list": recipe_list, "copy": recipe_copy, "show": recipe_show, "fields": recipe_fields},
    ),
}
for command in COMMANDS:
    if isinstance(command, str):
        app.command(command, help=VERBS[command].help)(lambda: None)
    else:
        app.command(command.__name__.rstrip("_"))(with_help(command))
for group, (about, commands) in GROUPS.items():
    group_app = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group_app, name=group)
    for name, command in commands.items():
        group_app.command(name)(with_help(command))


def version(value: bool) -> bool:
    """Print the version and stop."""
    if value:
        from glassformer import __version__

        typer.echo(f"glassformer {__version__}")
        raise typer.Exit
    return value


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A complete Transformer toolkit: train models, run them, and inspect them."""


def main() -> None:
    """Run the command line; an error is one sentence on stderr and an exit code."""
    _open_closed_streams()
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    _prepare_output()
    end_at_second_interrupt()
    try:
        try:
            app(arguments, prog_name="glassformer")
        finally:
            sys.stdout.flush()  # a full disk is an error here, and a traceback when Python ends
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        sentence, code = _said(error)
        with suppress(OSError):
            sys.stderr.write(f"glassformer: {sentence}\n" if sentence else "")
        _give_up_on_full_streams()
        sys.exit(code)
    finally:
        _abandon_learning()


def _abandon_learning() -> None:
    """Leave at once after Ctrl-C while a library still computes in a thread: it would not survive
    the end of Python."""
    if any(thread.name == LEARNING for thread in threading.enumerate()):
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(INTERRUPTED)


def _prepare_output() -> None:
    """Let every character be printed: on a terminal, one that it lacks is escaped.

    Windows has another encoding and other line ends for a file or a pipe than for a terminal; they
    get UTF-8 and newlines there too, as standard input is read, unless PYTHONIOENCODING is set.
    """
    if not isinstance(sys.stdout, TextIOWrapper):
        return
    sys.stdout.reconfigure(errors="backslashreplace")
    if WINDOWS and not sys.stdout.isatty() and "PYTHONIOENCODING" not in os.environ:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")


def _open_closed_streams() -> None:
    """Connect the standard streams that the caller closed to nothing.

    Or the next file that is opened would get the number of one, and `print` would write into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD:
        pass
    os.close(handle)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _give_up_on_full_streams() -> None:
    """Let Python end without another try to write what could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _said(error: Exception) -> tuple[str, int]:
    """One sentence for an error, and the exit code."""
    if isinstance(error, GlassformerError):
        # what cannot be asked for is told by the first process alone
        others = isinstance(error, ConfigError) and not first_process()
        told = "" if others or isinstance(error, ElsewhereError) else str(error)
        return told, error.exit_code
    message = str(error).lower()
    full = ("out of memory", "can't allocate memory", "not enough memory")
    if isinstance(error, MemoryError) or any(words in message for words in full):
        return "Out of memory; use a smaller train.batch_size or more train.micro_batches.", 1
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return f"Cannot read or write: {error.strerror}; check where the output goes.", 1
    if isinstance(error, OSError) and error.strerror:
        return (
            f"Cannot use {error.filename}: {error.strerror}; check its permissions, or name "
            "another place."
        ), 1
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"Something went wrong that should not ({what}); please report it with what --debug shows."
    ), 1
