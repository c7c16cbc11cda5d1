"""Recordings wherever they lie, with the classes that folders, tables and names tell; read only
when asked for."""

import json
import zipfile

import numpy as np
import pytest

from glassformer.core.errors import DataError
from glassformer.data.records.recordings import Recording, recordings
from glassformer.media.audio_file import write_wav
from small_runs import data_config

RATE = 8_000
SPEAKERS = ("jan", "theo")


def tone(number: int, channels: int = 1) -> bytes:
    """A clip that tells which it is: number / 100 on the first channel, and 0 on the others."""
    frames = np.zeros((20, channels))
    frames[:, 0] = number / 100
    return write_wav(frames, RATE)


def names() -> dict[str, bytes]:
    """Digits as the free spoken ones are named: {label}_{speaker}_{index}.wav."""
    every = [
        (digit, speaker, index) for digit in range(3) for speaker in SPEAKERS for index in range(4)
    ]
    return {
        f"{digit}_{speaker}_{index}.wav": tone(digit * 10 + index)
        for digit, speaker, index in every
    }


def put(folder, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read(folder, **fields) -> list[Recording]:
    return recordings(
        data_config({"root": str(folder), "format": "audio", "validation.fraction": 0.0, **fields})
    )


def value(recording: Recording) -> int:
    """What `tone` hid in it."""
    samples, rate = recording.samples()
    assert (rate, samples.dtype, samples.ndim) == (RATE, np.float32, 1)
    return round(float(samples[0]) * 100)


def told(found: list[Recording]) -> dict[str, tuple]:
    return {one.where.rpartition("/")[2]: (one.split, one.labels, value(one)) for one in found}


@pytest.fixture(params=["folder", "zip"])
def spoken(tmp_path, request):
    """The spoken digits in a folder, and the same in an archive."""
    put(tmp_path / "recordings", names())
    if request.param == "folder":
        return tmp_path, "recordings"
    with zipfile.ZipFile(tmp_path / "recordings.zip", "w") as archive:
        for name, content in names().items():
            archive.writestr(f"recordings/{name}", content)
    return tmp_path, "recordings.zip"


def test_names_tell_the_class_and_a_condition_the_split(spoken):
    folder, path = spoken
    pattern = {"train.path": path, "label_pattern": "{label}_{speaker}_{index}.wav"}
    found = read(folder, **pattern, test_where={"index": ["0", "1"]})
    assert told(found) == {
        f"{digit}_{speaker}_{index}.wav": (
            "test" if index < 2 else "train",
            (str(digit),),
            digit * 10 + index,
        )
        for digit in range(3)
        for speaker in SPEAKERS
        for index in range(4)
    }
    one_out = read(folder, **pattern, test_where={"speaker": ["theo"]})
    assert {(one.split, one.where.split("_")[-2]) for one in one_out} == {
        ("train", "jan"),
        ("test", "theo"),
    }


def test_shares_drawn_by_chance_leave_none_out(spoken):
    folder, path = spoken
    found = read(
        folder,
        train_path=path,
        label_pattern="{label}_{rest}.wav",
        validation_fraction=0.25,
        test_fraction=0.25,
    )
    assert sorted(one.split for one in found) == ["test"] * 6 + ["train"] * 12 + ["validation"] * 6
    assert len({one.where for one in found}) == 24


def test_a_folder_for_each_class_and_around_them_for_each_split(tmp_path):
    put(
        tmp_path,
        {
            "train/dog/a.wav": tone(1),
            "train/cat/b.WAV": tone(2),
            "test/dog/c.wav": tone(3),
            "x/notes.md": b"",
        },
    )
    assert told(read(tmp_path, train_path=".")) == {
        "a.wav": ("train", ("dog",), 1),
        "b.WAV": ("train", ("cat",), 2),
        "c.wav": ("test", ("dog",), 3),
    }


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_tables_of_files_and_several_classes(tmp_path, kind):
    rows = [("a.wav", "dog|bark", "home"), ("deep/b.wav", "cat", "away")]
    put(tmp_path / "clips", {"a.wav": tone(5), "deep/b.wav": tone(6)})
    fields = ("file_name", "label", "place")
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(fields, row, strict=True))) for row in rows]
    else:
        lines = [("," if kind == "csv" else "\t").join(row) for row in (fields, *rows)]
    (tmp_path / "clips" / f"list.{kind}").write_text("\n".join(lines))
    found = read(tmp_path, train_path=f"clips/list.{kind}", label_separator="|")
    assert [(one.labels, value(one)) for one in found] == [(("dog", "bark"), 5), (("cat",), 6)]


def test_files_of_every_format_are_found_by_their_names(tmp_path):
    suffixes = ("wav", "wave", "flac", "ogg", "oga", "opus", "mp3", "aif", "aiff", "aifc", "au")
    put(tmp_path, {f"dog/{suffix}.{suffix.upper()}": tone(4) for suffix in suffixes})
    found = read(tmp_path, train_path=".")
    assert len(found) == len(suffixes)
    assert {value(one) for one in found} == {4}  # their content tells what they are


def test_channels_are_averaged(tmp_path):
    put(tmp_path, {"dog/a.wav": tone(80, channels=4), "cat/b.wav": tone(80)})
    by_class = {one.labels[0]: value(one) for one in read(tmp_path, train_path=".")}
    assert by_class == {"dog": 20, "cat": 80}


def test_a_bad_file_is_no_trouble_until_it_is_heard(tmp_path):
    put(tmp_path / "more", {"dog/bad.wav": b"RIFF\0\0\0\0WAVEfmt ", "dog/good.wav": tone(7)})
    found = {one.where.rpartition("/")[2]: one for one in read(tmp_path, train_path="more")}
    assert value(found["good.wav"]) == 7
    with pytest.raises(DataError, match=r"more/dog/bad\.wav is cut off or damaged"):
        found["bad.wav"].samples()


def test_nothing_to_hear_is_one_sentence(tmp_path):
    put(tmp_path, {"dog/a.m4a": b"ID3"})
    with pytest.raises(DataError, match="audio file") as caught:
        read(tmp_path, train_path=".")
    assert "\n" not in str(caught.value)
