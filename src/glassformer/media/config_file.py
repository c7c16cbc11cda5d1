"""The configuration file of a reader or palette beside a model's weights: one small JSON object."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, counted
from glassformer.files import write_json

LARGEST_FILE = 1 << 20


def save_config(path: str | os.PathLike[str], name: str, values: dict[str, Any]) -> None:
    """Replace the file (`name` in it, if `path` is a folder) as one step."""
    write_json(_file(path, name), values)


@contextmanager
def loaded_config(
    path: str | os.PathLike[str], name: str, whose: str, fields: Iterable[str]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The file (`name` in it, if `path` is a folder) and its values, to be parsed in the body.

    DataError, also for a ConfigError of the body: no such file (`whose` folder has one), more than
    2**20 bytes, no JSON object, a missing field.
    """
    file = _file(path, name)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise DataError(
                f"{file} has over {counted(LARGEST_FILE, 'byte')}, too many for {name}; restore it"
            )
        values = json.loads(file.read_bytes())
        if not isinstance(values, dict):
            raise DataError(f"{file} is not a JSON object; restore it")
        yield file, values
        missing = next((field for field in fields if field not in values), None)
        if missing is not None:
            raise DataError(f"{file} lacks {missing!r}; restore it")
    except OSError as problem:
        raise DataError(
            f"cannot read {file}: {problem.strerror}; give the folder of {whose}"
        ) from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{file} is not JSON ({problem}); restore it") from None
    except ConfigError as problem:
        raise DataError(f"{file} is damaged: {str(problem).rstrip('.')} (restore it)") from None


def _file(path: str | os.PathLike[str], name: str) -> Path:
    return Path(path) / name if Path(path).is_dir() else Path(path)
