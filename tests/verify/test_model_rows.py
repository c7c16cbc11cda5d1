"""The notes' equations hold on any model's own weights, for every preset and architecture."""

import copy

import pytest
import torch

from every import slow_but
from glassformer import verify
from glassformer.core.batch import Batch, Positions
from glassformer.models import Transformer, presets
from glassformer.verify.rows_notes import batch_for, make_model
from verify.models import CONFIGS, WORDS

QUICK = ("original-2017", "bert, tags", "t5", "deit", "parts", "modern")
"""Every architecture, head, kind of norm and of input."""


@pytest.mark.parametrize("name", slow_but(CONFIGS, *QUICK))
def test_every_preset_passes(name):
    config = CONFIGS[name]
    rows = list(verify.model_rows(make_model(config), batch_for(config)))
    assert [row for row in rows if not row.passed] == []
    equations = {row.equation for row in rows}
    assert {
        "1 projections",
        "3 attention",
        "5 heads",
        "9 layer norm",
        "10 feed-forward",
    } <= equations
    assert {"1 to 13 together", "19 residual gradient"} <= equations
    decodes, reads = config.architecture != "encoder", config.architecture == "encoder_decoder"
    assert ("4 causality" in equations, "16 generation" in equations) == (decodes, decodes)
    assert ("7 cross-attention" in equations) == reads
    assert ("6 relative bias" in equations) == (config.position in ("relative", "buckets", "alibi"))
    assert ("14 loss" in equations) == (config.head in ("lm", "masked_lm", "tag", "classify"))
    assert ("17 permutation" in equations) == (config.elements == "tokens")


def test_packed_documents():
    config = presets.gpt2(**WORDS)
    document = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2]])
    ids = torch.arange(8)[None]
    rows = list(verify.model_rows(make_model(config), Batch(ids, Positions.pack(document))))
    assert all(row.passed for row in rows)


def test_one_element_alone():
    rows = list(verify.model_rows(make_model(presets.modern(**WORDS)), Batch(torch.tensor([[3]]))))
    assert all(row.passed for row in rows)


def test_the_callers_model_is_left_as_it_was():
    model = make_model(presets.gpt2(dropout=0.5, **WORDS)).requires_grad_(False).train()
    before = copy.deepcopy(model.state_dict())
    with torch.inference_mode():
        rows = list(verify.model_rows(model, batch_for(model.config)))
    assert all(row.passed for row in rows)
    after = model.state_dict()
    assert model.training
    assert all(
        torch.equal(before[name], after[name]) and before[name].dtype == after[name].dtype
        for name in before
    )
    assert all(
        parameter.grad is None and not parameter.requires_grad for parameter in model.parameters()
    )


def test_freshly_made_models_pass_too():
    model = Transformer(presets.modern(**WORDS))
    assert all(row.passed for row in verify.model_rows(model, batch_for(model.config)))
