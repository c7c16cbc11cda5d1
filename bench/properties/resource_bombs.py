"""Folders of a model that would take hours or terabytes if they were believed."""

import json
import math
import struct
import subprocess
import sys
from pathlib import Path

from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import config_json, save_weights

SMALL = {"vocab_size": 11, "d_model": 8, "n_layers": 1, "n_heads": 2, "max_length": 8}
BOMBS = {
    "max_length=10**9": ({"max_length": 10**9}, "max_length"),
    "max_length=2**24": ({"max_length": 1 << 24}, "has shape"),
    "n_layers=10**9": ({"n_layers": 10**9}, "n_layers"),
    "n_layers=9999": ({"n_layers": 9999}, "too few for n_layers=9999"),
    "d_ff=10**18": ({"d_ff": 10**18}, "d_ff"),
    "vocab_size=2**24": ({"vocab_size": 1 << 24}, "has shape"),
    "vocab_size=10**8": ({"vocab_size": 10**8}, "vocab_size"),
    "classes nested": ("[" * 100_000, "not readable JSON"),
    "5 MB": (" " * 5_000_000 + "{}", "not readable JSON"),
}


def sparse(file: Path, header: dict | int, size: int) -> None:
    """A safetensors file that says that it holds `size` bytes of tensors, and takes none."""
    raw = b"" if isinstance(header, int) else json.dumps(header).encode()
    with file.open("wb") as out:
        out.write(struct.pack("<Q", header if isinstance(header, int) else len(raw)) + raw)
        out.truncate(8 + len(raw) + size)


def hostile(folder: Path) -> dict[str, str]:
    """Folders that would take hours or terabytes if they were believed; a word of each refusal."""
    made = {}
    for name, (change, word) in BOMBS.items():
        place = folder / name
        place.mkdir()
        model = Transformer(ModelConfig.parse(SMALL), seed=1)
        save_weights(model, place / "model.safetensors")
        values = config_json(model.config)
        content = change if isinstance(change, str) else json.dumps(values | change)
        (place / "config.json").write_text(content)
        made[name] = word
    for name, shape, word in (
        ("sparse", [1 << 24, 1 << 11], "has shape"),
        ("overflow", [1 << 62, 4], "has shape"),
        ("header", None, "its header has 100000000 bytes"),
        ("memory", [1 << 24, 1 << 11], "and this machine has 8 GB of memory"),
    ):
        place = folder / name
        place.mkdir()
        wide = {**SMALL, "vocab_size": 1 << 24, "d_model": 1 << 11, "n_layers": 1, "d_ff": 1}
        config = ModelConfig.parse(wide if name == "memory" else SMALL)
        (place / "config.json").write_text(json.dumps(config_json(config)))
        tensors, end = {}, 0
        for key, one in Transformer(config, seed=None, device="meta").named_parameters():
            own = shape if shape and name != "memory" else list(one.shape)
            size = 4 * math.prod(own) % (1 << 42)  # four terabytes
            tensors[key] = {"dtype": "F32", "shape": own, "data_offsets": [end, end + size]}
            end += size
        sparse(place / "model.safetensors", 10**8 if shape is None else tensors, end)
        made[name] = word
    for name in ("config.json", "model.safetensors"):
        place = folder / f"a loop of {name}"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config_json(ModelConfig.parse(SMALL))))
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(name)
        made[place.name] = "Too many levels of symbolic links"
    return made


MEASURED = """
import json, resource, sys, time
import glassformer as gf
from glassformer.errors import CheckpointError
from glassformer.models.weights import load_model
from glassformer.models import weights
from glassformer.run.folder import load
weights._memory = lambda: 8 * 10**9
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for folder in sys.argv[1:]:
    before, start, said = peak(), time.process_time(), None
    try:
        load(folder, accept_changed=True)
    except CheckpointError as error:
        said = str(error)
    print(json.dumps([said, time.process_time() - start, (peak() - before) / 1024]))
"""


def resource_bombs(place: Path) -> tuple[int, float, float, list[str]]:
    """The number of folders, the longest time of computation in seconds, the largest growth of
    memory in MiB, and what was not refused by its own sentence."""
    words = hostile(place)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *(str(place / name) for name in words)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [
        f"{name}: {said}"
        for (name, word), (said, _, _) in zip(words.items(), found, strict=True)
        if said is None or word not in said or str(place / name) not in said
    ]
    return len(found), max(one[1] for one in found), max(one[2] for one in found), problems
