"""What a model keeps beside its weights of how it reads or draws: small JSON objects, believed only
when whole."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, counted

LARGEST_FILE = 1 << 20


def saved_at(path: str | os.PathLike[str], name: str) -> Path:
    """The file itself, or the one of this name in a folder."""
    return Path(path) / name if Path(path).is_dir() else Path(path)


@contextmanager
def saved(
    path: str | os.PathLike[str], name: str, whose: str
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The file (see `saved_at`) and the values in it, to be parsed in the body; `whose` folder
    holds such a file.

    DataError, also for what the body raises: no such file, more than 2**20 bytes, no JSON object,
    values that a record refuses.
    """
    file = saved_at(path, name)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise DataError(
                f"{file} has over {counted(LARGEST_FILE, 'byte')}, too many for {name}; restore it"
            )
        values = json.loads(file.read_bytes())
        if not isinstance(values, dict):
            raise DataError(f"{file} is not a JSON object; restore it")
        yield file, values
    except OSError as problem:
        raise DataError(
            f"cannot read {file}: {problem.strerror}; give the folder of {whose}"
        ) from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{file} is not JSON ({problem}); restore it") from None
    except ConfigError as problem:
        raise DataError(f"{file} is damaged: {str(problem).rstrip('.')} (restore it)") from None
