"""Models, images, audio and archives that would take hours or terabytes if they were believed."""

import gzip
import io
import json
import math
import resource
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import soundfile

from glassformer.core.errors import DataError
from glassformer.data.formats.contents import content
from glassformer.data.formats.idx import read_idx, read_npy
from glassformer.data.records.pictures import decode
from glassformer.data.sources import source_at
from glassformer.media.audio_file import read_audio
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
    "20 MB": (" " * 20_000_000 + "{}", "not readable JSON"),
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
from glassformer.core.errors import CheckpointError
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


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, more: bytes = b"") -> bytes:
    """A PNG file that says that it has this size; it has the bytes of an image of 8 x 8."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(bytes(8 * 25))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + rest


def zeros(file: IO[bytes], head: bytes = b"", megabytes: int = 80) -> None:
    """Write zeros, which pack to a thousandth."""
    file.write(head)
    for _ in range(megabytes):
        file.write(bytes(1 << 20))


def flac(claims: bool = False) -> bytes:
    """A FLAC file of silence, 80 kB; or one second that claims to be as long as can be written."""
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 44_100, 1, format="FLAC") as file:
        for _ in range(1 if claims else 600):  # a second each: little memory
            file.write(np.zeros(44_100, np.int16))
    raw = bytearray(out.getvalue())
    if claims:
        raw[21] |= 0x0F
        raw[22:26] = b"\xff" * 4
    return bytes(raw)


def media_bombs(place: Path) -> tuple[int, float, float, list[str]]:
    """See `resource_bombs`, of files of data."""
    text = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(100 << 20)))
    many = struct.pack(">III", *[2**31 - 1] * 3)
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 8, 8), }"
    own = struct.pack("<IHHIIHH", 16, 1, 65535, 2**32 - 1, 2**32 - 1, 65535, 16)
    with gzip.open(place / "packed-ubyte.gz", "wb") as packed:
        zeros(packed, b"\0\0\x08\x03" + struct.pack(">III", 80 << 10, 32, 32))
    (place / "claims.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
    (place / "claims-ubyte").write_bytes(b"\0\0\x08\x03" + many + bytes(100))
    with zipfile.ZipFile(place / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.png", "a.npy"):
            with archive.open(name, "w") as file:
                zeros(file)
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 128, 0, 0) + bytes(6)
    gif += b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\2\2\x4c\1\0;"
    bmp = b"BM" + struct.pack("<IHHI", 100, 0, 0, 54)
    bmp += struct.pack("<IiiHHIIiiII", 40, 2**30, 2**30, 1, 24, *[0] * 6) + bytes(100)
    wav = b"RIFF" + b"\xff" * 4 + b"WAVEfmt " + own + b"data" + b"\xff" * 4 + bytes(100)
    silence, common = flac(), struct.pack(">hIh", 1, 2**32 - 1, 16) + b"\x40\x0e\xac\x44" + bytes(6)
    aiff = b"FORM" + b"\xff" * 4 + b"AIFFCOMM" + struct.pack(">I", 18) + common
    aiff += b"SSND" + b"\xff" * 4 + bytes(100)
    tries: dict[str, Callable[[], object]] = {
        "a PNG of 60,000 x 60,000": lambda: decode(png(60_000, 60_000), "it"),
        "a PNG of 2^62 pixels": lambda: decode(png(2**31 - 1, 2**31 - 1), "it"),
        "a PNG of one column": lambda: decode(png(1, 2**31 - 1), "it"),
        "a PNG with 100 MB of text": lambda: decode(png(8, 8, text), "it"),
        "a GIF of 2^32 pixels": lambda: decode(gif, "it"),
        "a BMP of 2^60 pixels": lambda: decode(bmp, "it"),
        "a WAV of 65,535 channels": lambda: read_audio(wav, "it"),
        "a FLAC of 68 billion samples": lambda: read_audio(flac(claims=True), "it"),
        "a FLAC of ten minutes of silence": lambda: read_audio(silence, "it"),
        "an AIFF of 4 GB in 100 bytes": lambda: read_audio(aiff, "it"),
        "an array of 64 TB": lambda: read_npy(str(place / "claims.npy")),
        "an IDX file of 2^93 bytes": lambda: read_idx(str(place / "claims-ubyte")),
        "a gzip file of zeros": lambda: read_idx(str(place / "packed-ubyte.gz")),
        "an image of zeros in an archive": lambda: content(source_at(str(place / "x.zip/a.png"))),
        "an array of zeros in an archive": lambda: read_npy(str(place / "x.zip/a.npy")),
    }
    slowest, growth, problems = 0.0, 0.0, list[str]()
    for what, attempt in tries.items():
        before, begin = _peak(), time.process_time()
        try:
            problems.append(f"{what} was read: {attempt()!r:.100}")
        except DataError:
            pass
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            problems.append(f"{what}: {error!r}")
        slowest = max(slowest, time.process_time() - begin)
        growth = max(growth, _peak() - before)
    return len(tries), slowest, growth, problems


def _peak() -> float:
    """MiB of the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
