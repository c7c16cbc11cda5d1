"""One tiny trained run for all tests of the command line, and the command line itself, in this
process."""

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "and",
    "then",
    "it",
    "sleeps",
    "—",
    "naïve",
    "café",
]
RECIPE = """
task: text-generation
model: {d_model: 16, n_layers: 2, n_heads: 2, max_length: 32, position: rotary}
data: {train: {path: TEXT}, test: {fraction: 0.1}}
processor: {tokenizer: {kind: character}}
train: {steps: 6, batch_size: 4, evaluate: {every: 3}, save: {every: 3}, sample: {every: 6, tokens: 5},
  schedule: {warmup_steps: 2}, precision: float32, device: cpu}
generate: {max_new_tokens: 12}
"""


@dataclass
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON value, read strictly: NaN is an error."""
        (line,) = self.out.splitlines()
        return strict(line)

    @property
    def lines(self) -> list[Any]:
        return [strict(line) for line in self.out.splitlines()]


def strict(line: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(line, parse_constant=refuse)


@pytest.fixture
def cli(capfdbinary, monkeypatch) -> Callable[..., Said]:
    """Run `glassformer ARGUMENTS` in this process with standard input `stdin`."""
    from glassformer.cli.main import main

    def call(*arguments: object, stdin: bytes = b"") -> Said:
        read_end, write_end = os.pipe()
        os.write(write_end, stdin)
        os.close(write_end)
        code = 0
        with os.fdopen(read_end, encoding="utf-8") as piped:
            monkeypatch.setattr(sys, "stdin", piped)
            monkeypatch.setattr(sys, "argv", ["glassformer", *map(str, arguments)])
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        out, err = capfdbinary.readouterr()
        return Said(code, out.decode(), err.decode())

    return call


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    chooser = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(
        "\n".join(" ".join(chooser.choices(WORDS, k=8)) for _ in range(60)), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="session")
def recipe(text) -> Path:
    path = text.parent / "tiny.yaml"
    path.write_text(RECIPE.replace("TEXT", str(text)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(recipe, tmp_path_factory) -> Path:
    """The run of that recipe; a test that changes it takes `copied`."""
    from glassformer.run import train

    run = tmp_path_factory.mktemp("runs") / "tiny"
    train(recipe, {}, run)
    return run


@pytest.fixture
def copied(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with its digest, and every folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(cli) -> Callable[..., str]:
    """Run a command that must fail: one sentence, exit code 1 or 2, nothing on stdout, no file
    below `keep` changed."""

    def call(*arguments: object, code: int, keep: Path, stdin: bytes = b"") -> str:
        before = tree(keep)
        said = cli(*arguments, stdin=stdin)
        assert (said.code, said.out) == (code, ""), said
        sentences = [line for line in said.err.splitlines() if line.startswith("glassformer: ")]
        assert len(sentences) == 1, said.err
        assert said.err.endswith(sentences[0] + "\n")
        assert "Traceback" not in said.err
        assert tree(keep) == before
        return sentences[0].removeprefix("glassformer: ")

    return call


@pytest.fixture(scope="session")
def saved(tmp_path_factory) -> Callable[..., Path]:
    """Make the folder of a model that nobody trained: random weights, large enough that every
    answer is another."""
    from bare_runs import write_config
    from glassformer.models import ModelConfig, Transformer
    from glassformer.models.weights import save_weights
    from glassformer.tokenizers.definition import byte_definition
    from glassformer.tokenizers.text import Tokenizer
    from glassformer.training.folder.model_files import accept_changed
    from tiny import stir

    def make(name: str, tokenizer: Tokenizer | None = None, **model: Any) -> Path:
        folder = tmp_path_factory.mktemp("saved") / name
        folder.mkdir()
        text = tokenizer or Tokenizer(byte_definition())
        small = {
            "architecture": "encoder",
            "position": "rotary",
            "d_model": 16,
            "n_layers": 2,
            "n_heads": 2,
        }
        config = ModelConfig.parse(
            {**small, "vocab_size": text.vocab_size, "max_length": 64, **model}
        )
        text.save(folder / "tokenizer.json")
        write_config(folder, config)
        made = stir(Transformer(config))
        for parameter in (p for n, p in made.named_parameters() if n.endswith("bias")):
            parameter.data.zero_()  # they are the same for everything
        save_weights(made, folder / "model.safetensors")
        accept_changed(folder)
        return folder

    return make
