"""The wheel alone, in an environment of its own and an empty folder, runs the README's commands."""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from install_size import needed
from processes import started
from small_published import published
from test_readme import BLOCK, TWO_STEPS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


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
def elsewhere(tmp_path_factory):
    """A folder with the files that the README names, and nothing else."""
    return published(tmp_path_factory.mktemp("elsewhere"))


PAGES = {
    "inspect": ("", b"glassformer", ["--no-browser"]),
    "serve": ("/v1/models", b"pairs", []),
}
"""Commands that serve a page: its path, what it holds, and options."""


def printed(language: str) -> list[str]:
    """The README's blocks of code in a language."""
    return [text for marked, text in BLOCK.findall(README.read_text()) if marked == language]


def commands() -> list[list[str]]:
    """The README's commands, in their order, as words."""
    lines = "".join(printed("bash")).splitlines()
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
def test_the_readme_works_with_the_wheel_alone(environment, elsewhere):
    said = run(
        environment, elsewhere, ["python", "-c", "import glassformer; print(glassformer.__file__)"]
    )
    assert Path(said.stdout.decode().strip()).is_relative_to(environment.parent)
    demo = run(environment, elsewhere, ["glassformer", "demo", "lm", "--steps", "50"])
    assert demo.returncode == 0, demo.stderr.decode()[-2000:]
    there, looks = commands(), 0
    assert len(there) >= 20
    for words in there:
        if words[1] in PAGES:
            looks += opens(environment, elsewhere, words)
            continue
        if words[1] == "sweep":
            asked = run(environment, elsewhere, words)
            assert asked.returncode == 2
            assert "pip install 'glassformer[sweep]'" in asked.stderr.decode()
            continue
        more = TWO_STEPS if words[1] == "train" else []
        if words[1] == "export" and "--no-check" not in words:
            asked = run(environment, elsewhere, words)
            assert asked.returncode == 2
            assert "pip install 'glassformer[export]'" in asked.stderr.decode()
            more = ["--no-check"]
        ended = run(environment, elsewhere, [*words, *more])
        assert ended.returncode == 0, f"{words}: {ended.stderr.decode()[-2000:]}"
    assert looks == len(PAGES)
    assert (elsewhere / "outputs.txt").read_text().count("\n") == 2
    for block in printed("python"):
        if "openai" in block:  # which is no part of it
            continue
        ended = run(environment, elsewhere, ["python", "-c", block])
        assert ended.returncode == 0, ended.stderr.decode()[-2000:]


def opens(environment: Path, folder: Path, words: list[str]) -> bool:
    """What answers does so at the address that it prints."""
    path, content, options = PAGES[words[1]]
    command = [str(environment / words[0]), *words[1:], *options, "--port", "0"]
    with started(command, cwd=folder, text=True) as process:
        address = f"{process.stdout.readline().strip()}{path}"
        with urllib.request.urlopen(address, timeout=20) as page:
            there = content in page.read()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    return there and process.returncode == 0


@pytest.mark.slow
def test_without_extras_a_command_asks_for_the_one_it_needs(environment, elsewhere):
    ended = run(environment, elsewhere, ["glassformer", "demo", "translate"])
    assert ended.returncode == 2
    assert "pip install 'glassformer[demo]'" in ended.stderr.decode()


@pytest.mark.slow
def test_the_wheel_says_its_version_and_its_page_has_whole_addresses(environment, elsewhere):
    said = run(environment, elsewhere, ["glassformer", "--version"])
    assert said.stdout.decode() == f"glassformer {gf.__version__}\n"
    (metadata,) = environment.parent.rglob("glassformer-*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]+)\)", metadata.read_text(encoding="utf-8"))
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links)
    assert any(link.endswith(f"/v{gf.__version__}/docs/explorer/attention.png") for link in links)
