"""Types of arguments and options, the help of options from docstrings, and files that options
write: checked before any work; they replace no file that somebody else wrote.

A command is a function, and each of its options has a line in the last paragraph of its docstring:

    def demo(steps: OptionalCount = None) -> None:
        "Train a small demo model.

        steps: Number of training steps.
        "
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from typer import Argument, Option

from glassformer.core.errors import ConfigError


def _to_folder(text: str) -> Path:
    if not text:
        raise ConfigError("--run is empty; name a folder, such as runs/mine.")
    return Path(text)


def _bytes(text: str | int) -> int:
    """512MB as a number; a unit is 1024 of the one below."""
    units = {"": 0, "K": 1, "M": 2, "G": 3}
    found = re.fullmatch(r"(\d{1,15})([KMG]?)B?", str(text).upper())
    if found is None:
        raise ConfigError(f"{text!r:.40} is no size; give bytes, or a size such as 512MB or 2GB.")
    return int(found[1]) << 10 * units[found[2]]


NewRun = Annotated[Path | None, Option(parser=_to_folder, metavar="<path>")]
RunFolder = Annotated[Path, Argument(help="A run folder.", metavar="RUN")]
Overrides = Annotated[
    list[str] | None, Argument(help="Changes such as train.steps=500.", metavar="KEY=VALUE")
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Device = Annotated[str, Option("--device", help="auto, cpu, cuda, mps.")]
Count = Annotated[int, Option(min=1)]
Figures = Annotated[
    list[str] | None,
    Option(
        "--hardware",
        help="A figure of the planned machines, such as mfu=0.5 or inter=25e9; may be repeated.",
        metavar="KEY=VALUE",
    ),
]
Size = Annotated[int, Option(parser=_bytes, metavar="<size>", show_default=False)]
OptionalSize = Annotated[int | None, Option(parser=_bytes, metavar="<size>")]
OptionalCount = Annotated[int | None, Option(min=1)]
Index = Annotated[int, Option(min=0)]
OptionalIndex = Annotated[int | None, Option(min=0)]
Quantize = Annotated[
    str | None,
    Option(
        "--quantize",
        help="Use fp16, bf16, int8 or int4 matrices, on a CPU.",
    ),
]
Compile = Annotated[
    bool,
    Option(
        "--compile",
        help="Compute by a program that the system's C compiler makes, in a second or two.",
    ),
]
AtStep = Annotated[
    int | None, Option("--checkpoint", help="Use the model as it was at this training step.", min=1)
]


def with_help(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the lines of its docstring as the help of its options."""
    about, *lines = re.split(r"\n+(?=\w+: )", inspect.cleandoc(command.__doc__ or ""))
    for line in lines:
        name, _, words = line.partition(": ")
        kind, option = command.__annotations__[name], Option()
        if get_origin(kind) is Annotated:
            kind, option = get_args(kind)
        option = copy(option)
        option.help, option.param_decls = words, (f"--{name.replace('_', '-')}",)
        command.__annotations__[name] = Annotated[kind, option]
    command.__doc__ = about
    return command


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: those that are neither None nor False."""
    return {
        name: value for name, value in options.items() if value is not None and value is not False
    }


def refuse(options: Mapping[str, Any], because: str) -> None:
    """Raise ConfigError for the first of these options that was given."""
    for name in given(options):
        flag = name.replace("_", "-")
        raise ConfigError(f"{because}, so --{flag} has no use; leave it out.")


Force = Annotated[bool, Option("--force", help="Replace any output file that exists.")]
MARKS = (b'<meta name="generator" content="glassformer">', b"Software\0glassformer")
"""What pages (`pages/kit.py`) and images (`pages/images.py`) hold among their first bytes; a .npy
file has no place for it."""
FIRST = 1024


def check_output(option: str, path: Path | None, suffixes: Sequence[str], force: bool) -> None:
    """ConfigError: another kind of file, no folder for it, or, without `force`, a file that is
    there and does not say that glassformer wrote it."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise ConfigError(
            f"{option} writes {' or '.join(suffixes)}, not {path.name!r}; name such a file."
        )
    if not path.parent.is_dir():
        raise ConfigError(
            f"{option} cannot write {path}: there is no folder {path.parent}; make it first."
        )
    if path.is_dir():
        raise ConfigError(f"{option} cannot write {path}: it is a folder; name a file.")
    if os.path.lexists(path) and not force and not _is_ours(path):
        raise ConfigError(
            f"{option} would replace {path}, which does not say that glassformer wrote it; choose "
            "another file or add --force."
        )


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.read(FIRST)
    except OSError:
        return False
    return any(mark in first for mark in MARKS)
