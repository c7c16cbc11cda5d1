"""Audio of every format wherever WAV is read: recipes, archives, tables, `classify`, `data show`."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from glassformer.data.records.recordings import sound
from glassformer.data.sources import Source
from small_runs import go
from small_senses import RATE, TONES, sound_recipe, tone

FORMATS = {
    "flac": ("FLAC", "PCM_16"),
    "aiff": ("AIFF", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}


def encoded(samples: np.ndarray, suffix: str, rate: int = RATE) -> bytes:
    out, (form, subtype) = io.BytesIO(), FORMATS[suffix]
    soundfile.write(out, samples, rate, subtype, format=form)
    return out.getvalue()


def converted(folder: Path, suffix: str) -> Path:
    """The WAV files of a folder as another format, beside it."""
    for file in sorted(folder.rglob("*.wav")):
        own = folder.with_name(suffix) / file.relative_to(folder).with_suffix(f".{suffix}")
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(encoded(*sound(Source(str(file)))[:1], suffix))
    return folder.with_name(suffix)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory) -> Path:
    """Recordings as WAV, a run that was trained on them, and one of them at 44.1 kHz."""
    folder = tmp_path_factory.mktemp("sounds")
    go(sound_recipe(folder), folder / "run")
    return folder


@pytest.mark.parametrize("form", ["flac", "aiff", "flac.zip", "table"])
def test_lossless_files_train_the_same_model(sounds, tmp_path, form):
    data = converted(sounds / "sounds", "aiff" if form == "aiff" else "flac")
    if form == "flac.zip":
        with zipfile.ZipFile(tmp_path / form, "w") as archive:
            for file in sorted(data.rglob("*.flac")):
                archive.write(file, file.relative_to(data))
        data = tmp_path / form
    elif form == "table":
        rows = [{"file_name": str(f), "label": f.parent.name} for f in sorted(data.rglob("*.*"))]
        data = tmp_path / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    go(sound_recipe(tmp_path, data={"train.path": str(data)}), tmp_path / "run")
    for name in ("model.safetensors", "audio.json"):
        assert (tmp_path / "run" / name).read_bytes() == (sounds / "run" / name).read_bytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_classify_reads_every_format_at_any_rate(cli, sounds, tmp_path, suffix):
    draw = np.random.default_rng(9)
    names = []
    for rate in (RATE, 24_000, 48_000):
        samples = tone(TONES["high"] * RATE / rate, draw, rate // 10)  # the same tone at this rate
        names.append(tmp_path / f"{rate}.{suffix}")
        names[-1].write_bytes(encoded(samples, suffix, rate))
    said = cli("classify", sounds / "run", *names)
    assert (said.code, said.err) == (0, "")
    assert len(said.out.splitlines()) == 3


def test_data_show_has_them_on_its_page(cli, sounds, tmp_path):
    data = converted(sounds / "sounds", "mp3")
    made = sound_recipe(tmp_path, data={"train.path": str(data)}).yaml()
    (tmp_path / "r.yaml").write_text(made)
    said = cli("data", "show", tmp_path / "r.yaml", "--html", tmp_path / "page.html")
    assert (said.code, said.err) == (0, "")
    assert "high" in (tmp_path / "page.html").read_text()
