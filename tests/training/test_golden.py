"""B7: a run of an earlier version (tests/golden, by tests/golden_run.py) is read and goes on."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.recipe.reading import read_recipe
from small_runs import go, losses

GOLDEN = Path(__file__).parents[1] / "golden"
CLOSE = 1e-5  # float32 has 7 digits; other processors and versions of torch add in other orders


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(shutil.copytree(GOLDEN / "run", tmp_path / "run"))


@pytest.fixture
def expected() -> dict:
    return json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("step", ["2", "4"])
def test_a_checkpoint_has_the_numbers_that_it_had(run, expected, step):
    """The one of step 2 is in parts."""
    model = gf.load(run, checkpoint=int(step)).model
    logits = model(Batch(torch.tensor(expected["ids"]))).logits[0, -1]
    assert logits.tolist() == pytest.approx(expected["logits"][step], rel=CLOSE, abs=CLOSE)


def test_a_run_goes_on_as_it_did(run, expected):
    """From the checkpoint in parts, without the text that it was trained on."""
    result, said = go(read_recipe(str(run / "recipe.yaml"), []), run, resume=True, checkpoint=2)
    assert "resuming at step 2" in said
    assert result.steps == 4
    found = losses(run)
    assert len(found) == len(expected["losses"])
    for line, was in zip(found, expected["losses"], strict=True):
        assert line.keys() == was.keys()
        assert line == pytest.approx(was, rel=CLOSE)
    newest = torch.tensor(expected["logits"]["4"])
    again = gf.load(run).model(Batch(torch.tensor(expected["ids"]))).logits[0, -1]
    assert torch.allclose(again, newest, rtol=CLOSE, atol=CLOSE)
