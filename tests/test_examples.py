"""Every example runs, in a folder of its own."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "decoder.blocks.0.attention.pattern ('batch', 'head', 'query', 'key')" in printed
    rows = [[float(number) for number in line.split()[1:]] for line in printed.splitlines()[-5:]]
    assert all(sum(row) == pytest.approx(1, abs=0.03) for row in rows)  # five printed numbers of two digits each
    assert all(weight == 0 for i, row in enumerate(rows) for weight in row[i + 1 :])
