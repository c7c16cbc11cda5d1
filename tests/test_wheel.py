"""The wheel alone, in an environment of its own and an empty folder, runs the README's commands."""

import gzip
import io
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import urllib.request
import zipfile
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import glassformer as gf
from glassformer.media.wav import write_wav
from install_size import needed
from processes import started

ROOT = Path(__file__).parent.parent
FEW = [f"train.{of}=2" for of in ("steps", "evaluate.every", "save.every", "sample.every")]
FEW += ["train.schedule.warmup_steps=1"]
COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder of commands of an environment that has the wheel and what it needs, no extra."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", place, ROOT]
    subprocess.run([*pip, *build], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    for name in needed("glassformer") - {"glassformer"}:
        of = distribution(name)
        tops = {file.parts[0] for file in of.files or [] if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(of.locate_file(top)))
    (wheel,) = place.glob("*.whl")
    python = str(place / "venv" / "bin" / "python")
    install = ["install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([*pip, "--python", python, *install], check=True)
    return place / "venv" / "bin"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A folder with the inputs that the README names, and nothing else."""
    folder = tmp_path_factory.mktemp("anywhere")
    text = "The cat sat on the mat because it was warm. Once upon a time it slept.\n"
    (folder / "my.txt").write_text(text * 60)
    pairs = (f"{n} cats\t{n} Katzen\n" for n in range(60))
    (folder / "pairs.tsv").write_text("".join(pairs))
    (folder / "lines.txt").write_text("my card has not arrived\nthe cat sat\n")
    (folder / "sources.txt").write_text("3 cats\n4 cats\n")
    (folder / "photo.png").write_bytes(png("red"))
    (folder / "my-voice.wav").write_bytes(voice(440))
    return folder


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 64), COLOURS[colour]).save(out, "PNG")
    return out.getvalue()


def voice(pitch: float) -> bytes:
    return write_wav(0.5 * np.sin(np.arange(4000) * 2 * np.pi * pitch / 8000), 8000)


def zipped(file: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    return gzip.compress(head + values.astype(np.uint8).tobytes())


def data_of(recipe: str, folder: Path) -> Path:
    """A few records as the data set of a recipe has them."""
    root = folder / recipe
    root.mkdir()
    match recipe:
        case "ud-tagging":
            words = "".join(f"{n}\t{w}\t{w}\t{t}" + "\t_" * 6 + "\n" for n, w, t in SENTENCE)
            for split in ("train", "dev", "test"):
                file = root / f"en_ewt-ud-{split}.conllu.gz"
                file.write_bytes(gzip.compress((words + "\n").encode() * 30))
        case "banking77":
            rows = "text,category\n" + "my card is lost,lost\nwhere is my money,money\n" * 40
            for split in ("train", "test"):
                (root / f"{split}.csv").write_text(rows)
        case "fashion-mnist":
            for split in ("train", "t10k"):
                labels = np.arange(400) % 10
                images = np.tile(labels[:, None, None] * 20, (1, 28, 28))
                (root / f"{split}-images-idx3-ubyte.gz").write_bytes(idx(images))
                (root / f"{split}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
        case "spoken-digits":
            every = ((d, i) for d in range(10) for i in range(12))
            files = {
                f"{d}_{'theo' if i % 2 else 'anna'}_{i}.wav": voice(200 + 99 * d + i)
                for d, i in every
            }
            zipped(root / "recordings.zip", files)
        case "easy-vqa":
            for split in ("train", "test"):
                images = {f"{split}/{n}.png": png(list(COLOURS)[n % 2]) for n in range(20)}
                zipped(root / f"{split}_images.zip", images)
                rows = [["what colour is it?", list(COLOURS)[n % 2], n] for n in range(20)] * 8
                packed = gzip.compress(json.dumps(rows).encode())
                (root / f"{split}_questions.json.gz").write_bytes(packed)
    return root


SENTENCE = [(1, "the", "DET"), (2, "cat", "NOUN"), (3, "sat", "VERB"), (4, ".", "PUNCT")]


def printed(language: str) -> list[str]:
    """The README's blocks of code in a language; without one, of commands."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    return [block for marked, block in blocks if marked == language]


def commands() -> list[list[str]]:
    """The README's commands, in their order, as words."""
    lines = "".join(printed("") + printed("bash")).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("glassformer ")]


def run(environment: Path, folder: Path, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command with the environment's program; `<` and `>` name files."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    variables = {"HOME": str(folder), "PATH": os.defpath}
    with ExitStack() as opened:
        for sign, stream, mode in (("<", "stdin", "rb"), (">", "stdout", "wb")):
            if sign in words:
                at = words.index(sign)
                streams[stream] = opened.enter_context((folder / words[at + 1]).open(mode))
                words = words[:at] + words[at + 2 :]
        command = [environment / words[0], *words[1:]]
        return subprocess.run(command, cwd=folder, env=variables, stderr=subprocess.PIPE, **streams)


@pytest.mark.slow
def test_the_readme_works_with_the_wheel_alone(environment, empty):
    said = run(
        environment, empty, ["python", "-c", "import glassformer; print(glassformer.__file__)"]
    )
    assert Path(said.stdout.decode().strip()).is_relative_to(environment.parent)
    demo = run(environment, empty, ["glassformer", "demo", "lm", "--steps", "50"])
    assert demo.returncode == 0, demo.stderr.decode()[-2000:]
    there, looks = commands(), 0
    assert len(there) >= 20
    for words in there:
        words = [word.replace("YOUR_TEXT", "my.txt") for word in words]
        if words[1] == "inspect":
            looks += opens(environment, empty, words)
            continue
        if words[1] == "train" and "--resume" not in words:
            words += FEW
        if "data.root=PATH" in words:
            words[words.index("data.root=PATH")] = f"data.root={data_of(words[2], empty)}"
        ended = run(environment, empty, words)
        assert ended.returncode == 0, f"{words}: {ended.stderr.decode()[-2000:]}"
        assert ended.stdout != b""
    assert looks == 1
    assert (empty / "outputs.txt").read_text().count("\n") == 2
    for block in printed("python"):
        ended = run(environment, empty, ["python", "-c", block])
        assert ended.returncode == 0, ended.stderr.decode()[-2000:]


def opens(environment: Path, folder: Path, words: list[str]) -> bool:
    """The explorer answers at the address that it prints."""
    command = [str(environment / words[0]), *words[1:], "--no-browser", "--port", "0"]
    with started(command, cwd=folder, text=True) as process:
        with urllib.request.urlopen(process.stdout.readline().strip(), timeout=20) as page:
            there = b"glassformer" in page.read()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    return there and process.returncode == 0


@pytest.mark.slow
def test_without_extras_a_command_asks_for_the_one_it_needs(environment, empty):
    ended = run(environment, empty, ["glassformer", "demo", "translate"])
    assert ended.returncode == 2
    assert "pip install 'glassformer[demo]'" in ended.stderr.decode()


@pytest.mark.slow
def test_the_wheel_says_its_version_and_its_page_has_whole_addresses(environment, empty):
    said = run(environment, empty, ["glassformer", "--version"])
    assert said.stdout.decode() == f"glassformer {gf.__version__}\n"
    (metadata,) = environment.parent.rglob("glassformer-*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]+)\)", metadata.read_text(encoding="utf-8"))
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links)
    assert any(link.endswith(f"/v{gf.__version__}/docs/explorer/attention.png") for link in links)
