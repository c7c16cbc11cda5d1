"""A setting that names a column, or a part of a file's name, changes what is read or is an error:
for every reader and file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from glassformer.core.errors import ConfigError, DataError, GlassformerError
from glassformer.data.config import DataConfig
from glassformer.data.records.conversations import conversations
from glassformer.data.records.labelled import read_labelled
from glassformer.data.records.pairs import pairs
from glassformer.data.records.parts import read_parts
from glassformer.data.records.pictures import pictures
from glassformer.data.records.recordings import recordings
from glassformer.data.records.tagged import read_tagged
from glassformer.data.splits import parts
from glassformer.media.audio_file import write_wav

READERS: dict[str, Callable[[DataConfig], Any]] = {
    "documents": parts,
    "text": read_labelled,
    "pairs": pairs,
    "words": read_tagged,
    "image": pictures,
    "audio": recordings,
    "messages": conversations,
    "parts": read_parts,
}
TALK = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
ENTITY = {"text": "a b", "label": [[0, 1, "X"]]}
FILES: dict[tuple[str, str], dict[str, str]] = {
    ("documents", "text"): {"a.txt": "one two\nthree four\n" * 5},
    ("documents", "json"): {"a.jsonl": '{"text": "one"}\n' * 5},
    ("documents", "csv"): {"a.csv": "text,label\n" + "one,1\ntwo,2\n" * 3},
    ("documents", "slash"): {"a.pos": "one/X two/Y\n" * 5},
    ("text", "csv"): {"a.csv": "text,label\n" + "one,1\ntwo,2\n" * 3},
    ("text", "json"): {"a.jsonl": '{"text": "one", "label": "x"}\n' * 5},
    ("text", "label_first"): {"a.txt": "x one\ny two\n" * 3},
    ("text", "folders"): {"a/x/1.txt": "one", "a/y/1.txt": "two", "a/x/2.txt": "three"},
    ("text", "labels"): {"a.txt": "one\ntwo\n", "b": "x\ny\n"},
    ("pairs", "files"): {"a.txt": "one\ntwo\n", "b": "eins\nzwei\n"},
    ("pairs", "csv"): {"a.csv": "source,target\n" + "one,eins\n" * 4},
    ("words", "slash"): {"a.pos": "one/X two/Y\n" * 5},
    ("words", "conll"): {"a.conll": "one X\ntwo Y\n\n" * 5},
    ("words", "json"): {"a.jsonl": '{"words": ["one"], "tags": ["X"]}\n' * 5},
    ("words", "spans"): {"a.jsonl": f"{json.dumps(ENTITY)}\n" * 5},
    ("messages", "json"): {"a.jsonl": f"{json.dumps(TALK)}\n" * 5},
    ("messages", "pairs"): {"a.jsonl": '{"prompt": "a", "completion": "b"}\n' * 5},
    ("parts", "json"): {"a.jsonl": '{"input": ["one"], "target": "x"}\n' * 5},
    ("image", "folders"): {"a/x/1.png": "", "a/y/1.png": ""},
    ("image", "table"): {"a/metadata.csv": "file_name,label\n1.png,x\n2.png,y\n", "a/1.png": "",
                         "a/2.png": ""},
    ("image", "arrays"): {"a.npy": "", "b": ""},
    ("audio", "folders"): {"a/x/1.wav": "", "a/y/1.wav": ""},
    ("audio", "table"): {"a/metadata.csv": "file_name,label\n1.wav,x\n2.wav,y\n", "a/1.wav": "",
                         "a/2.wav": ""},
}  # fmt: skip
OTHER: dict[str, Any] = {"label_columns": ["nowhere"], "label_pattern": "{label}q{n}"}
NAMES = [name for name in DataConfig.model_fields if name.endswith("_field") or name in OTHER]


def laid(folder: Path, reader: str, kind: str) -> dict[str, Any]:
    """The files in a folder, and the settings that read them."""
    for name, content in FILES[reader, kind].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
        if name.endswith(".png"):
            Image.new("RGB", (2, 2)).save(folder / name)
        if name.endswith(".wav"):
            (folder / name).write_bytes(write_wav(np.zeros(9, np.float32), 8000))
    first = next(iter(FILES[reader, kind])).split("/")[0]
    train: dict[str, Any] = {"path": str(folder / first)}
    if kind == "arrays":
        np.save(folder / "a.npy", np.zeros((4, 2, 2), np.uint8))
        np.save(folder / "b.npy", np.array([0, 1, 0, 1]))
        train["labels"] = str(folder / "b.npy")
    if (folder / "b").is_file() and kind != "arrays":
        train["targets" if reader == "pairs" else "labels"] = str(folder / "b")
    formats = {"label_first": "label_first", "slash": "slash", "arrays": "numpy"}
    return {"train": train, "validation": {"fraction": 0.25}, "format": formats.get(kind, "auto")}


def inputs_of(name: str) -> list[str]:
    extra = DataConfig.model_fields[name].json_schema_extra
    return extra.get("inputs", ["pairs", "parts"]) if isinstance(extra, dict) else []


@pytest.mark.parametrize(("reader", "kind"), FILES)
def test_no_setting_is_ignored(reader, kind, tmp_path):
    values, read = laid(tmp_path, reader, kind), READERS[reader]
    before = list(read(DataConfig.parse(values)))
    assert before
    own = [name for name in NAMES if reader in inputs_of(name)]
    assert own
    for name in own:
        changed = DataConfig.parse(values | {name: OTHER.get(name, "nowhere")})
        after, error = before, ""
        try:
            after = list(read(changed))
        except (ConfigError, DataError) as problem:
            error = str(problem)
        assert after != before or "nowhere" in error or name in error, f"{name}: {error}"


def test_a_setting_that_is_not_used_names_itself(tmp_path):
    values = laid(tmp_path, "documents", "text") | {"text_field": "body"}
    with pytest.raises(GlassformerError, match=r"data\.text_field='body' is not used by .*a\.txt"):
        list(parts(DataConfig.parse(values)))
