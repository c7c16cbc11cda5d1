"""Every example runs, in a folder of its own."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from bare_runs import write_config
from glassformer.demos.codetags import TAGS
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import save_weights
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.model_files import accept_changed

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch, capsys):
    """Run an example with arguments; gives what it prints."""

    def call(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return call


def test_there_is_a_test_for_every_example():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"look_inside.py", "highlight.py"}


def test_highlight_colours_a_file_and_changes_nothing_else(example, tmp_path):
    tokenizer = Tokenizer(byte_definition())
    config = ModelConfig(
        architecture="encoder",
        head="tag",
        classes=TAGS,
        vocab_size=tokenizer.vocab_size,
        d_model=8,
        n_layers=1,
    )
    save_weights(Transformer(config), tmp_path / "model.safetensors")
    write_config(tmp_path, config)
    tokenizer.save(tmp_path / "tokenizer.json")
    accept_changed(tmp_path)
    source = "def area(r):\n    return 3.14 * r  # in m²\n"
    (tmp_path / "f.py").write_text(source, encoding="utf-8")
    printed = example("highlight.py", tmp_path, tmp_path / "f.py", "--html", tmp_path / "f.html")
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed).endswith(source + "\n")
    assert "area" in (tmp_path / "f.html").read_text(encoding="utf-8")


def test_look_inside_shows_a_pattern(example, tmp_path):
    printed = example("look_inside.py", tmp_path)
    assert "decoder.blocks.0.attention.pattern ('batch', 'head', 'query', 'key')" in printed
    rows = [[float(number) for number in line.split()[1:]] for line in printed.splitlines()[-5:]]
    assert all(
        sum(row) == pytest.approx(1, abs=0.03) for row in rows
    )  # five printed numbers of two digits each
    assert all(weight == 0 for i, row in enumerate(rows) for weight in row[i + 1 :])
