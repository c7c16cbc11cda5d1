"""Adapters: nothing at first, W + (α/r) B A by any way of computing it, folded exactly."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import tiny
import variants
from glassformer import finetune
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import Share
from glassformer.finetune.adapters import adapt, choose
from glassformer.finetune.config import FinetuneConfig
from glassformer.inspect.ledger import ledger
from glassformer.inspect.look import look
from glassformer.layers.linear.linear import Linear
from glassformer.layers.lora import LoRALinear, adapters, plain_parameters
from glassformer.training.loop.step import TrainingStep
from small_adapters import adapted, logits, stir

SOME = ["causal learned", "encoder rotary", "both buckets", "patches", "mixture", "post-norm"]
SOME += ["root mean square, gated", "grouped"]


@pytest.mark.parametrize("variant", SOME)
def test_new_adapters_change_no_bit_of_the_output(variant):
    model, batch = variants.made(variant, torch.float64)
    before = logits(model, batch)
    names = finetune.add_adapters(model, rank=2, targets=["all"])
    assert names == list(adapters(model)) != []
    assert torch.equal(logits(model, batch), before)


@pytest.mark.parametrize("variant", SOME)
def test_adapters_are_the_sum_of_both_matrices(variant):
    """Against a model without adapters, its weights added up by NumPy; and folded."""
    plain, batch = variants.made(variant, torch.float64)
    model, _ = adapted(variant)
    weights = dict(plain.named_parameters())
    for name, one in adapters(model).items():
        a, b = (m.detach().numpy() for m in (one.lora_a, one.lora_b))
        total = weights[f"{name}.weight"].detach().numpy() + np.einsum("or,ri->oi", b, a) * 5 / 3
        weights[f"{name}.weight"].data.copy_(torch.from_numpy(total))
    expected, beside = logits(plain, batch), logits(model, batch)
    # float64 has 16 digits; sums of some ten terms, twice in a row
    near = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(beside, expected, **near)
    assert not torch.equal(beside, logits(variants.made(variant, torch.float64)[0], batch))
    named = dict(plain_parameters(model))
    assert named.keys() == weights.keys()
    for name, value in named.items():
        torch.testing.assert_close(value, weights[name].detach(), **near)
    finetune.fold(model)
    assert not adapters(model)
    assert [name for name, _ in model.named_parameters()] == [*weights]
    assert type(model.get_submodule(next(iter(named)).rpartition(".")[0])) is not LoRALinear
    torch.testing.assert_close(logits(model, batch), beside, **near)


def test_gradients_are_those_of_the_formula():
    base = Linear(5, 4).double()
    one = LoRALinear(base, 2, 3.0)
    for p in (one.weight, one.bias, one.lora_a, one.lora_b):
        p.data.normal_()
    x = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    leaves = [x, one.weight, one.bias, one.lora_a, one.lora_b]
    weights = torch.randn(3, 2, 4, dtype=torch.float64)
    found = torch.autograd.grad((one(x) * weights).sum(), leaves)
    slow = x @ one.weight.T + one.bias + 1.5 * (x @ one.lora_a.T) @ one.lora_b.T
    expected = torch.autograd.grad((slow * weights).sum(), leaves)
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-12, atol=1e-12)


def test_dropout_is_that_of_the_adapters_input_while_training():
    base = Linear(64, 4)
    one = LoRALinear(base, 2, 2.0, dropout=0.5).train()
    for p in (one.weight, one.bias, one.lora_a, one.lora_b):
        p.data.normal_()
    x = torch.randn(1, 64)
    low = (torch.stack([one(x) for _ in range(400)]) - F.linear(x, one.weight, one.bias)).detach()
    whole = x @ one.lora_a.T @ one.lora_b.T
    assert low.std(0).min() > 0
    # the mean of 400 draws, within five of its own deviations
    assert ((low.mean(0) - whole).abs() < 5 * low.std(0) / 20).all()
    assert torch.equal(one.eval()(x), one(x))


def test_initial_adapters_are_a_function_of_seed_and_name():
    one, again = (adapted(targets=["v_proj"], stirred=False)[0] for _ in range(2))
    more = adapted(targets=["all"], stirred=False)[0]
    for name, own in adapters(one).items():
        assert torch.equal(own.lora_a, adapters(again)[name].lora_a)
        assert torch.equal(own.lora_a, adapters(more)[name].lora_a)
        assert not own.lora_b.any()
        assert own.lora_a.abs().max() <= own.in_features**-0.5
        assert own.lora_a.std() > 0
    a, b = (one.lora_a for one in list(adapters(one).values())[:2])
    assert not torch.equal(a, b)


def test_targets_are_names_patterns_or_all():
    model = copy.deepcopy(tiny.model(architecture="encoder_decoder", head="lm"))
    names = [name for name, one in model.named_modules() if type(one) is Linear]
    assert choose(model, ["all"]) == [name for name in names if ".blocks." in name]
    assert choose(model, ["q_proj", "k_proj"]) == [
        name for name in names if name.endswith(("q_proj", "k_proj"))
    ]
    crossing = choose(model, ["decoder.blocks.*.cross.q_proj"])
    assert crossing == [f"decoder.blocks.{i}.cross.q_proj" for i in range(2)]
    assert choose(model, ["decoder.blocks.1"]) == [
        name for name in names if name.startswith("decoder.blocks.1.")
    ]
    with pytest.raises(
        ConfigError, match=r"targets: 'p_proj' is no linear map of this model; it has down"
    ):
        finetune.add_adapters(model, targets=["q_proj", "p_proj"])
    finetune.add_adapters(model, targets=["q_proj"])
    with pytest.raises(ConfigError, match="has an adapter already"):
        finetune.add_adapters(model, targets=["all"])


CASES = {
    "lora": ({"method": "lora", "rank": 2}, ("lora_a", "lora_b", "head.proj")),
    "frozen": ({"method": "frozen"}, ("head.proj",)),
    "and norms": (
        {"method": "frozen", "train_also": ["*norm*", "embed.position"]},
        ("head.proj", "norm.", "embed.position"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_changes_what_is_trained_and_nothing_else(case):
    from glassformer.recipe.train import OptimizerConfig
    from glassformer.training.loop.optimizer import Optimizer

    values, parts = CASES[case]
    model = copy.deepcopy(tiny.model(head="classify", n_classes=3, tied=False)).float().train()
    adapt(model, FinetuneConfig.parse(values), seed=0)
    stir(model)
    optimizer = Optimizer(model, OptimizerConfig(weight_decay=0.5))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    intended = {name for name in before if any(part in name for part in parts)}
    assert {name for name, p in model.named_parameters() if p.requires_grad} == intended
    batch = Batch(tiny.tokens(4, 6), targets=torch.tensor([0, 1, 2, 0]))
    TrainingStep(model, optimizer)(Share([batch]), 0, 1.0)
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) != (name in intended), name
    assert {key.rpartition(":")[0] for key in optimizer.state()} == intended


def test_what_cannot_be_trained_is_refused_in_a_sentence():
    model = copy.deepcopy(tiny.model())
    with pytest.raises(
        ConfigError, match=r"train_also: 'emd' fits no weight; .* one of embed, decoder"
    ):
        adapt(model, FinetuneConfig.parse({"method": "lora", "train_also": ["emd"]}), seed=0)
    with pytest.raises(ConfigError, match="method=frozen leaves nothing to learn"):
        adapt(copy.deepcopy(tiny.model()), FinetuneConfig.parse({"method": "frozen"}), seed=0)
    for values, sentence in (
        ({"rank": 4}, r"finetune: rank=4 is for method=lora"),
        ({"method": "frozen", "targets": ["k_proj"]}, r"targets=\['k_proj'\] is for method=lora"),
        ({"train_also": ["embed"]}, "method=full trains everything"),
        ({"method": "lora", "rank": 0}, r"train.finetune.rank: .*got 0"),
        ({"method": "lora", "targets": []}, r"train.finetune.targets: "),
    ):
        with pytest.raises(ConfigError, match=sentence):
            FinetuneConfig.parse(values)


@pytest.mark.parametrize("variant", ["causal rotary", "both learned"])
def test_looks_and_ledgers_of_adapters_are_those_of_the_merged_weights(variant):
    model, batch = adapted(variant)
    plain = copy.deepcopy(model)
    finetune.fold(plain)
    seen, expected = look(model, batch), look(plain, batch)
    side = "decoder.blocks.1.attention"
    for point in ("q", "k", "v", "pattern", "z"):
        torch.testing.assert_close(
            seen[f"{side}.{point}"].tensor,
            expected[f"{side}.{point}"].tensor,
            rtol=1e-11,
            atol=1e-11,
        )
    mine, theirs = (ledger(one, 3, position=2) for one in (seen, expected))
    assert [e.value for e in mine.entries] == pytest.approx(
        [e.value for e in theirs.entries], abs=1e-9
    )
