"""Our WAV reader beside soundfile, our former resampling filter beside soxr, and what the extra
`audio` costs.

    python bench/audio_io.py
"""

import importlib.metadata as metadata
import io
import math
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import soxr
from scipy import signal

from glassformer.errors import DataError
from glassformer.media.audio_file import read_audio
from glassformer.media.resample import resampled
from glassformer.media.wav import EXTENSIBLE, FLOAT, GUID_REST, PCM, read_wav, write_wav

RATE = 44_100
Resample = Callable[[np.ndarray, int, int], np.ndarray]


def fastest(call: Callable[[], object], times: int = 7) -> float:
    """Milliseconds of the fastest of several calls."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return min(taken) * 1e3


def wav(data: bytes, kind: int = PCM, bits: int = 16, more: bytes = b"", size: int = -1) -> bytes:
    frame = bits // 8
    form = struct.pack("<HHIIHH", kind, 1, RATE, RATE * frame, frame, bits) + more
    head = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form
    body = head + b"data" + struct.pack("<I", len(data) if size < 0 else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def extensible() -> bytes:
    own = struct.pack("<HHIH", 22, 16, 4, PCM) + GUID_REST
    return wav(bytes(2000), EXTENSIBLE, 16, own)


def cases() -> dict[str, bytes]:
    tone = np.sin(np.arange(1000) / 9)
    whole = write_wav(tone, RATE)
    lost = np.array([0.1, np.nan, np.inf, 0.2] * 250, "<f4")
    return {
        "8 bits": wav(bytes(range(250)) * 4, bits=8),
        "16 bits": whole,
        "24 bits": wav(bytes(3000), bits=24),
        "32-bit floats": wav(tone.astype("<f4").tobytes(), FLOAT, 32),
        "64-bit floats": wav(tone.astype("<f8").tobytes(), FLOAT, 64),
        "WAVE_FORMAT_EXTENSIBLE": extensible(),
        "A-law": wav(bytes(1000), 6, 8),
        "size 0xffffffff of a streaming writer": wav(bytes(2000), size=0xFFFFFFFF),
        "size 0 of a streaming writer": whole[:4] + b"\xff" * 4 + wav(bytes(2000), size=0)[8:],
        "cut in half": whole[: len(whole) // 2],
        "without its last sample": whole[:-2],
        "data says 1 GiB": wav(bytes(2000), size=1 << 30),
        "NaN and infinity": wav(lost.tobytes(), FLOAT, 32),
        "floats of 1.5": wav(np.full(1000, 1.5, "<f4").tobytes(), FLOAT, 32),
        "0 channels": whole[:22] + b"\0\0" + whole[24:],
    }


def told(call: Callable[[], tuple[np.ndarray, int]]) -> str:
    try:
        samples, _ = call()
    except (DataError, soundfile.LibsndfileError, ValueError, TypeError) as problem:
        return f"refused: {str(problem).partition(': ')[2] or problem}"[:58]
    lost = int((~np.isfinite(samples)).sum())
    most = np.abs(samples[np.isfinite(samples)]).max(initial=0)
    return f"{len(samples)} samples, up to {most:.2f}" + (f", {lost} not finite" if lost else "")


def former(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Our filter until now: a sinc of 32 zeros to either side, cutoff 0.92, Kaiser window 8.6."""
    divisor = math.gcd(rate, new_rate)
    up, down = new_rate // divisor, rate // divisor
    cutoff = 0.92 * min(1.0, up / down)
    taps = signal.firwin(2 * math.ceil(32 / cutoff) * up + 1, cutoff / up, window=("kaiser", 8.6))
    return signal.resample_poly(samples, up, down, window=taps)


def level(hertz: float, rate: int, new_rate: int, resample: Resample) -> float:
    """What is left of a sine, in dB."""
    found = resample(np.sin(2 * np.pi * hertz * np.arange(rate) / rate), rate, new_rate)
    inner = found[len(found) // 4 : 3 * len(found) // 4].astype(np.float64)
    return 10 * math.log10(max(2 * np.square(inner).mean(), 1e-20))


def resampling() -> None:
    quality = {
        f"soxr {q}": (lambda x, a, b, q=q: soxr.resample(x.astype("f4"), a, b, quality=q))
        for q in ("MQ", "HQ", "VHQ")
    }
    ways: dict[str, Resample] = {"former": former, **quality, "resampled (HQ)": resampled}
    inside, above = (0.5, 0.85, 0.9, 0.9375, 0.97), (1.01, 1.06, 1.5)
    for rate, new_rate in ((44_100, 16_000), (48_000, 16_000), (8_000, 16_000)):
        half = min(rate, new_rate) / 2
        print(f"\n{rate} to {new_rate}: dB left at shares of {half:g} Hz, above it, ms for 10 s")
        print(" " * 16, *(f"{share:8g}" for share in (*inside, *above)))
        noise = np.random.default_rng(0).standard_normal(10 * rate).astype(np.float32)
        for name, way in ways.items():
            shares = (*inside, *(above if rate > new_rate else ()))
            row = [level(share * half, rate, new_rate, way) for share in shares]
            taken = fastest(lambda way=way, x=noise, a=rate, b=new_rate: way(x, a, b))
            print(f"{name:16}", *(f"{x:8.2f}" for x in row), f"| {taken:.1f} ms")


def formats() -> None:
    print("\n30 s of 44.1 kHz, one channel: bytes, ms of read_audio, ms of soundfile alone")
    noise = np.random.default_rng(0).standard_normal(30 * RATE) * 0.05
    forms = (("WAV", "PCM_16"), ("AIFF", "PCM_16"), ("FLAC", "PCM_16"), ("MP3", None))
    for form, subtype in (*forms, ("OGG", "VORBIS"), ("OGG", "OPUS")):
        out, rate = io.BytesIO(), 48_000 if subtype == "OPUS" else RATE
        with soundfile.SoundFile(out, "w", rate, 1, subtype, format=form) as file:
            for piece in np.split(noise, 30):  # libsndfile's Vorbis fails on long writes
                file.write(piece)
        raw = out.getvalue()
        own = fastest(lambda raw=raw: read_audio(raw, "x"))
        alone = fastest(lambda raw=raw: soundfile.read(io.BytesIO(raw), dtype="float32"))
        print(f"{form:5} {subtype or '':7} {len(raw):>9,} {own:7.1f} {alone:7.1f}")


def costs() -> None:
    print("\nMB on disk; seconds to import, beyond numpy")
    for name in ("soundfile", "soxr", "cffi", "pycparser"):
        places = (Path(str(file.locate())) for file in metadata.files(name) or [])
        size = sum(place.stat().st_size for place in places if place.is_file())
        line = f"import numpy, time; a = time.perf_counter(); import {name}; "
        line += "print(time.perf_counter() - a)"
        taken = [float(subprocess.check_output([sys.executable, "-c", line])) for _ in range(3)]
        print(f"{name:10} {size / 1e6:6.2f} {min(taken):8.4f}")


def main() -> None:
    print(f"{'WAV':38} {'own':36} soundfile")
    for name, raw in cases().items():
        own = told(lambda raw=raw: read_wav(raw, "x"))
        peer = told(lambda raw=raw: soundfile.read(io.BytesIO(raw), dtype="float32"))
        print(f"{name:38} {own:36.36} {peer}")
    minute = write_wav(np.random.default_rng(0).standard_normal(60 * RATE) * 0.1, RATE)
    short = write_wav(np.zeros(8_000), 8_000)
    for name, raw in (("60 s at 44.1 kHz", minute), ("1 s at 8 kHz", short)):
        own = fastest(lambda raw=raw: read_wav(raw, "x"), 50)
        peer = fastest(lambda raw=raw: soundfile.read(io.BytesIO(raw), dtype="float32"), 50)
        print(f"{name}: {own:.3f} ms, soundfile {peer:.3f} ms")
    resampling()
    formats()
    costs()


if __name__ == "__main__":
    main()
