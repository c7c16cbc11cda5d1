"""`step.c` compiled with the system's C compiler, loaded, and its structures.

Nothing is kept on disk: the compiled file is deleted once it is loaded.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from ctypes import POINTER, c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError

SOURCE = Path(__file__).with_name("step.c")
FLAGS = ["-std=gnu11", "-O3", "-Wno-psabi", "-shared", "-fPIC"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"]
SECONDS = 120
"""Limit of the compiler, which takes one or two."""


def _of(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Return fields of one kind."""
    return [(name, kind) for name in names.split()]


class Matrix(ctypes.Structure):
    """See `product.h`."""

    _fields_ = [
        *_of(c_void_p, "numbers scale bias"),
        *_of(c_int64, "rows columns format inputs"),
    ]


class Norm(ctypes.Structure):
    """See `step.c`, also for the others."""

    _fields_ = [*_of(c_void_p, "weight bias"), ("epsilon", c_double), ("centred", c_int64)]


class Block(ctypes.Structure):
    """The weights of a block."""

    _fields_ = [
        *_of(Norm, "attention_norm cross_norm feedforward_norm q_norm k_norm cross_q_norm"),
        *_of(Matrix, "qkv out cross_q cross_out up gate down"),
    ]


class Decoder(ctypes.Structure):
    """The blocks, the head, and the choices of a configuration."""

    _fields_ = [
        ("blocks", POINTER(Block)),
        ("norm", Norm),
        ("head", Matrix),
        *_of(c_int64, "n_blocks d_model d_ff n_heads n_kv_heads"),
        *_of(c_int64, "d_head pre_norm residual activation window"),
        *_of(c_double, "scale head_factor"),
    ]


class Step(ctypes.Structure):
    """What a step reads and writes."""

    _fields_ = [
        *_of(c_int64, "n most threads slots halves"),
        *_of(c_void_p, "x cos sin pool tables first ends source source_ends bias bias_of"),
        ("bias_width", c_int64),
        ("asked", c_void_p),
        ("n_asked", c_int64),
        ("logits", c_void_p),
        ("k", c_int64),
        *_of(c_void_p, "ids log_probs memory"),
        *_of(c_int64, "part shared inputs own shared_size inputs_size own_size team"),  # set there
    ]


def compiler() -> str | None:
    """Path of the C compiler: $CC, or one of the usual names; None: there is none."""
    names = os.environ.get("CC"), "cc", "gcc", "clang"
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def program() -> Any:
    """Return the compiled functions; in a second or two, once in a process.

    `decoder_step`, of the addresses of a `Decoder` and a `Step`, returns how many numbers of memory
    a step needs, and without does no more. `holds` says whether a `Matrix` of float32 has the
    numbers at an address.

    ConfigError: no C compiler, or it fails.
    """
    if (command := compiler()) is None:
        raise ConfigError(
            "Decoding steps are compiled by a C compiler and this system has none; install one, "
            "or leave out compile."
        )
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    said = ""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place, "step.so")
        for parallel in (["-fopenmp"], []):  # some compilers have no OpenMP
            said = _compiled([command, *FLAGS, native, *parallel, str(SOURCE), "-o", str(target)])
            if target.is_file():
                return with_types(ctypes.CDLL(str(target)))
    raise ConfigError(f"{command} cannot compile decoding steps ({said}); leave out compile.")


def with_types(found: Any) -> Any:
    """Return a library whose functions know their types."""
    found.decoder_step.argtypes, found.decoder_step.restype = [c_void_p, c_void_p], c_int64
    found.holds.argtypes, found.holds.restype = [c_void_p, c_void_p, c_int64], c_int64
    return found


def _compiled(command: list[str]) -> str:
    """Run a compiler; returns the first error that it names."""
    try:
        done = subprocess.run(
            [*command, "-lm"], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.strip().splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else "no message")
