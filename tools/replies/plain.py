"""Replies as plain values, without times and random names; files by their content."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

CHANGING = [
    (r"\b(cmpl|chatcmpl|req)-[0-9a-f]{8,}", r"\1-ID"),
    (r'("created": ?)\d+', r"\g<1>0"),
    (r"token=[\w-]+", "token=TOKEN"),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
    (r"glassformer-\d+=[\w-]+", "glassformer-PORT=TOKEN"),
    (r"\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[.\d]*(Z|\+00:00| UTC)?", "TIME"),
    (r"\b(in|after) \d+:\d\d(:\d\d)?\b", r"\1 TIME"),
    (r"\b\d+:\d\d(:\d\d)? left", "TIME left"),
    (r'("(\w*seconds\w*|\w+_per_second|share_of_peak)"): ?[\d.e+-]+', r"\1: 0"),
    (r'("machine"): ?"[^"]*"', r"\1: null"),
    (r"(?m)^scoring baselines\n", ""),
    (r"[\d,.]+k? (\w+)/s", r"RATE \1/s"),
    (r"\d+% of peak", "RATE of peak"),
]
"""Patterns of text that differs between two equal runs, and the text instead of it."""
DIGESTS = {"manifest.json", "run.lock"}
"""Files of digests of others, which are recorded themselves."""
SMALL = 64
"""Numbers of an array that are kept as they are; of more, a digest."""
TEXTS = {".txt", ".csv", ".tsv", ".jsonl", ".json", ".conllu", ".conll", ".md", ".yaml", ".svg"}
TYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "BOOL": "?"}


def normalize(text: str) -> str:
    """A text without times, rates, ports and random names."""
    text = text.replace(str(Path.cwd()), "DIR")
    for pattern, instead in CHANGING:
        text = re.sub(pattern, instead, text)
    return text


def sha256(data: bytes) -> str:
    """SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def describe_array(values: Any) -> dict[str, Any]:
    """An array of NumPy: its type and shape, and its numbers or their digest."""
    about: dict[str, Any] = {"dtype": str(values.dtype), "shape": [*values.shape]}
    if values.size <= SMALL:
        return about | {"values": values.tolist()}
    return about | {"sha256": sha256(values.tobytes())}


def to_plain(value: Any) -> Any:
    """A value of Python as JSON has it; of an object, its fields."""
    if isinstance(value, str | int | float | bool | None):
        return normalize(value) if isinstance(value, str) else value
    if hasattr(value, "detach"):
        return to_plain(value.detach().cpu().numpy())
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return describe_array(value)
    if isinstance(value, dict):
        return {str(name): to_plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(own) for own in value]
    if isinstance(value, Path):
        return normalize(str(value))
    if hasattr(value, "__dict__"):
        return to_plain({k: v for k, v in vars(value).items() if not k.startswith("_")})
    return normalize(repr(value))


def read_file(path: Path) -> Any:
    """The content of a file: lines, rows, an array or a digest."""
    if path.suffix in TEXTS:
        return normalize(path.read_text(encoding="utf-8"))
    if path.suffix == ".html":
        return read_page(normalize(path.read_text(encoding="utf-8")))
    if path.suffix == ".npy":
        return describe_array(np.load(path))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        return {"schema": str(table.schema), "rows": to_plain(table.to_pylist())}
    return {"sha256": sha256(path.read_bytes())}


def read_page(html: str) -> dict[str, str]:
    """A page without its chart of speed: a digest of all of it, and the words that it shows."""
    html = re.sub(r"<svg(?:(?!</svg>).)*per second(?:(?!</svg>).)*</svg>", "", html, flags=re.S)
    words = re.sub(r"<(style|script).*?</\1>", "", html, flags=re.S)
    return {"sha256": sha256(html.encode()), "text": re.sub(r"\s*(<[^>]*>\s*)+", "\n", words)}


def read_files(folder: Path) -> dict[str, Any]:
    """The files of a folder by name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = [path for path in paths if path.name not in DIGESTS]
    return {str(path): read_file(path) for path in paths}


def read_tensors(data: bytes) -> dict[str, Any]:
    """A safetensors file whose metadata has a header: the header, and the arrays by name."""
    end = 8 + int.from_bytes(data[:8], "little")
    described = json.loads(data[8:end])
    header = json.loads(described.pop("__metadata__")["header"])
    arrays = {}
    for name, one in sorted(described.items()):
        first, last = one["data_offsets"]
        values = np.frombuffer(data[end + first : end + last], TYPES[one["dtype"]])
        arrays[name] = describe_array(values.reshape(one["shape"]))
    return {"header": header, "arrays": arrays}


def join_events(stream: str) -> dict[str, Any]:
    """The events of a stream, in which the clock decides how many tokens come together: the text,
    the tokens and the end of each choice, and what the first and the last event have beside them.
    """
    events = [one.removeprefix("data: ") for one in stream.split("\n\n") if one]
    values = [json.loads(one) for one in events if one.startswith("{")]
    choices: dict[str, Any] = {}
    for value in values:
        for choice in value.get("choices", []):
            own = choices.setdefault(str(choice["index"]), {})
            append(own, choice)
    beside = [{k: v for k, v in one.items() if k != "choices"} for one in (values[0], values[-1])]
    return {"choices": choices, "first": beside[0], "last": beside[1], "end": events[-1]}


def append(own: dict[str, Any], more: dict[str, Any]) -> None:
    """Append texts and lists of an event to those before it; of other values the last is kept."""
    for name, value in more.items():
        before = own.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            append(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            own[name] = [*before, *value]
        elif isinstance(before, str) and isinstance(value, str) and name in ("text", "content"):
            own[name] = before + value
        elif value is not None or before is None:
            own[name] = value
