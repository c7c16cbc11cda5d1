"""AdamW equals torch's own, decays what it should, and Muon's directions are nearly orthogonal."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.finetune.adapters import adapt
from glassformer.finetune.config import FinetuneConfig
from glassformer.models import ModelConfig, Transformer
from glassformer.recipe.train import OptimizerConfig
from glassformer.training.loop.optimizer import (
    Muon,
    Optimizer,
    is_block_matrix,
    layer_share,
    orthogonalize,
)

SIZES = {"vocab_size": 11, "d_model": 8, "n_layers": 2, "n_heads": 2, "max_length": 8}


def model(**changes) -> Transformer:
    made = Transformer(ModelConfig.parse(SIZES | changes), seed=3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 0.1)
    return made


def give_gradients(made: torch.nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in made.parameters():
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)


def decays(made: torch.nn.Module, optimizer: Optimizer) -> dict[str, bool]:
    """Which parameters one step with gradients of zero changes: decoupled decay alone does that."""
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    for p in made.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step(1.0)
    return {name: not torch.equal(before[name], p) for name, p in made.named_parameters()}


VARIANTS = [
    {},
    {
        "norm": "rms",
        "qk_norm": True,
        "tied": False,
        "head_bias": True,
        "gated": True,
        "position": "rotary",
    },
    {"architecture": "encoder", "head": "masked_lm", "n_token_types": 2, "embedding_norm": True},
    {"architecture": "encoder_decoder", "position": "sinusoidal"},
]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("changes", VARIANTS)
def test_matrices_decay_and_norms_and_biases_never_do(kind, changes):
    made = model(**changes)
    decayed = decays(made, Optimizer(made, OptimizerConfig(kind=kind, weight_decay=0.1)))
    for name, p in made.named_parameters():
        spared = p.ndim < 2 or "norm" in name or name.endswith("bias")
        assert decayed[name] != spared, name


def test_without_weight_decay_a_gradient_of_zero_changes_nothing():
    made = model()
    assert not any(decays(made, Optimizer(made, OptimizerConfig(weight_decay=0.0))).values())


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_adamw_is_torchs_step_by_step(factor):
    mine = model().double()
    theirs = copy.deepcopy(mine)
    config = OptimizerConfig(learning_rate=0.01, beta1=0.8, beta2=0.9, weight_decay=0.2)
    optimizer = Optimizer(mine, config)
    groups = [
        {"params": [p for p in theirs.parameters() if p.ndim >= 2], "weight_decay": 0.2},
        {"params": [p for p in theirs.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(
        groups, lr=0.01 * factor, betas=(0.8, 0.9), foreach=False, fused=False
    )
    for step in range(6):
        for made in (mine, theirs):
            give_gradients(made, step)
        optimizer.step(factor)
        reference.step()
        for (name, p), q in zip(mine.named_parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(p, q, rtol=1e-12, atol=1e-14), (name, step)  # rounding of float64


def test_a_step_forgets_its_gradients():
    made = model()
    optimizer = Optimizer(made, OptimizerConfig(kind="muon"))
    give_gradients(made, 0)
    optimizer.step(1.0)
    assert all(p.grad is None or not p.grad.any() for p in made.parameters())


def test_a_factor_of_zero_changes_nothing_but_the_moments():
    made = model()
    optimizer = Optimizer(made, OptimizerConfig(kind="muon"))
    before = [p.detach().clone() for p in made.parameters()]
    give_gradients(made, 0)
    optimizer.step(0.0)
    assert all(torch.equal(p, q) for p, q in zip(made.parameters(), before, strict=True))
    assert optimizer.state()


def test_muon_takes_the_matrices_of_blocks_alone():
    made = model(tied=False, norm="rms", qk_norm=True)
    chosen = {name for name, p in made.named_parameters() if is_block_matrix(name, p)}
    assert chosen == {n for n, p in made.named_parameters() if "proj.weight" in n}
    optimizer = Optimizer(made, OptimizerConfig(kind="muon"))
    give_gradients(made, 0)
    optimizer.step(1.0)
    assert {
        key.rpartition(":")[0] for key in optimizer.state() if key.endswith(":momentum")
    } == chosen


@given(st.integers(1, 24), st.integers(1, 24), st.integers(0, 5), st.sampled_from([1e-3, 1.0, 1e4]))
def test_singular_values_go_to_about_one_and_directions_stay(rows, columns, seed, size):
    x = torch.randn(2, rows, columns, generator=torch.Generator().manual_seed(seed)).double() * size
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    new = torch.linalg.svdvals(orthogonalize(x))
    # Five steps of this quintic take what is above 1% of the norm into [0.68, 1.21] (the band of
    # Jordan et al.).
    large = values / values.norm(dim=-1, keepdim=True) > 0.01
    assert new.max() < 1.25
    kept = torch.diagonal(left.mT @ orthogonalize(x) @ right.mT, dim1=1, dim2=2)
    assert ((kept[large] > 0.65) & (kept[large] < 1.25)).all()


def test_a_transposed_matrix_gets_the_transposed_direction():
    x = torch.randn(3, 5, 9, dtype=torch.float64)
    assert torch.allclose(orthogonalize(x.mT), orthogonalize(x).mT, atol=1e-12)


def test_a_matrix_of_zeros_has_no_direction():
    assert not orthogonalize(torch.zeros(1, 4, 3)).any()


def test_muon_is_its_formula():
    weight = torch.nn.Parameter(torch.randn(6, 3, dtype=torch.float64))
    expected, momentum = weight.detach().clone(), torch.zeros(6, 3, dtype=torch.float64)
    muon = Muon([weight], lr=0.1, momentum=0.9, weight_decay=0.5)
    for step in range(3):
        gradient = torch.randn(6, 3, generator=torch.Generator().manual_seed(step)).double()
        weight.grad = gradient.clone()
        muon.step()
        momentum = 0.9 * momentum + gradient
        direction = orthogonalize((gradient + 0.9 * momentum)[None])[0]
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * 2**0.5 * direction
        # products of many matrices at once may round otherwise than one
        assert torch.allclose(weight, expected, rtol=1e-10, atol=1e-12)


def fill(optimizer: Optimizer, saved: dict[str, torch.Tensor]) -> None:
    for name, value in optimizer.blank(saved).items():
        value.copy_(saved[name])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_restored_optimizer_takes_the_same_next_step(kind):
    mine, config = model(), OptimizerConfig(kind=kind, learning_rate=0.01)
    optimizer = Optimizer(mine, config)
    for step in range(3):
        give_gradients(mine, step)
        optimizer.step(0.5)
    saved = {name: value.clone() for name, value in optimizer.state().items()}
    other = copy.deepcopy(mine)
    restored = Optimizer(other, config)
    fill(restored, saved)
    for made, used in ((mine, optimizer), (other, restored)):
        give_gradients(made, 9)
        used.step(0.7)
    assert all(
        torch.equal(p, q) for p, q in zip(mine.parameters(), other.parameters(), strict=True)
    )
    assert all(
        torch.equal(value, restored.state()[name]) for name, value in optimizer.state().items()
    )
    assert set(restored.state()) == set(saved)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_is_filled_is_the_state_itself_and_nothing_of_the_one_before(kind):
    made = model()
    optimizer = Optimizer(made, OptimizerConfig(kind=kind))
    give_gradients(made, 0)
    optimizer.step(1.0)
    some = [key for key in optimizer.state() if key.startswith("embed.")]
    blank = optimizer.blank(some)
    state = optimizer.state()
    assert blank.keys() == state.keys() == {*some}
    assert all(blank[key] is own and not own.any() for key, own in state.items())


@pytest.mark.parametrize(("one", "two"), [("adamw", "muon"), ("muon", "adamw")])
def test_the_state_of_the_other_optimizer_is_refused(one, two):
    made = model()
    optimizer = Optimizer(made, OptimizerConfig(kind=one))
    give_gradients(made, 0)
    optimizer.step(1.0)
    with pytest.raises(CheckpointError, match="optimizer"):
        Optimizer(made, OptimizerConfig(kind=two)).blank(optimizer.state())


DEEP = {
    "n_layers": 4,
    "architecture": "encoder",
    "head": "tag",
    "n_classes": 3,
    "embedding_norm": True,
    "n_token_types": 2,
}


def rates(optimizer: Optimizer) -> dict[str, float]:
    """The learning rate at which each parameter was last moved."""
    groups = [group for part, _ in optimizer._parts for group in part.param_groups]
    return {optimizer._names[p]: group["lr"] for group in groups for p in group["params"]}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize(
    "changes",
    [
        DEEP,
        {"n_layers": 3, "n_encoder_layers": 4, "architecture": "encoder_decoder"},
        {"position": "relative"},
    ],
)
def test_each_layer_learns_as_many_times_slower_as_asked(kind, changes):
    """Head and final norm by 1; block k of its stack's n by d^(n - k) with k = 0 the lowest;
    everything below by d^(n + 1) of the deepest."""
    made, decay = model(**changes), 0.7
    depths = {side: made.config.depth(side) for side in ("encoder", "decoder")}
    deepest = max(depths.values())
    config = OptimizerConfig(
        kind=kind, layer_decay=decay, learning_rate=0.01, matrix_learning_rate=0.3
    )
    optimizer = Optimizer(made, config)
    give_gradients(made, 0)
    optimizer.step(0.5)
    found = rates(optimizer)
    assert found.keys() == dict(made.named_parameters()).keys()
    shares = set()
    for name, p in made.named_parameters():
        peak = 0.3 if kind == "muon" and is_block_matrix(name, p) else 0.01
        parts = name.split(".")
        if "blocks" in parts:
            share = decay ** (depths[parts[0]] - int(parts[parts.index("blocks") + 1]))
        else:
            share = decay ** (deepest + 1) if parts[0] == "embed" else 1.0
        assert found[name] == pytest.approx(0.5 * peak * share, rel=1e-12), name
        assert layer_share(name, depths, decay) == pytest.approx(share)
        shares.add(round(share, 9))
    assert len(shares) == deepest + 2


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_layer_decay_of_1_is_the_optimizer_without_it_bit_for_bit(kind):
    """The two groups that there always were: matrices decay, vectors do not."""
    mine = model()
    theirs = copy.deepcopy(mine)
    optimizer = Optimizer(mine, OptimizerConfig(kind=kind, layer_decay=1.0, weight_decay=0.2))
    named = dict(theirs.named_parameters())
    chosen = [n for n, p in named.items() if kind == "muon" and is_block_matrix(n, p)]
    rest = [p for n, p in named.items() if n not in chosen]
    groups = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": 0.2},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    references: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    ]
    if chosen:
        references.append(Muon([named[n] for n in chosen], lr=0.02, weight_decay=0.2))
    for step in range(4):
        for made in (mine, theirs):
            give_gradients(made, step)
        optimizer.step(1.0)
        for reference in references:
            reference.step()
        assert all(
            torch.equal(p, q) for p, q in zip(mine.parameters(), theirs.parameters(), strict=True)
        ), step


def test_slower_layers_move_less():
    made = model(**DEEP)
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    optimizer = Optimizer(
        made, OptimizerConfig(layer_decay=0.5, weight_decay=0.0, learning_rate=0.01)
    )
    give_gradients(made, 0)
    optimizer.step(1.0)
    # AdamW's first step is the sign of the gradient times the rate
    moved = {
        name: float((p.detach() - before[name]).abs().max()) for name, p in made.named_parameters()
    }
    assert moved["head.proj.weight"] == pytest.approx(0.01, rel=1e-3)
    assert moved["encoder.blocks.3.attention.q_proj.weight"] == pytest.approx(0.005, rel=1e-3)
    assert moved["encoder.blocks.0.attention.q_proj.weight"] == pytest.approx(
        0.01 * 0.5**4, rel=1e-3
    )
    assert moved["embed.element.weight"] == pytest.approx(0.01 * 0.5**5, rel=1e-3)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("head", [{"head": "tag", "n_classes": 3}, {"head": "masked_lm"}])
def test_a_frozen_trunk_is_not_moved_and_needs_no_gradient(kind, head):
    made = model(architecture="encoder", **head)
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    adapt(made, FinetuneConfig(method="frozen"), seed=0)
    optimizer = Optimizer(made, OptimizerConfig(kind=kind, layer_decay=0.5))
    assert len(optimizer.parameters) == sum(name.startswith("head.") for name in before)
    assert {name for name, p in made.named_parameters() if p.requires_grad} == {
        n for n in before if n.startswith("head.")
    }
    give_gradients(made, 0)
    optimizer.step(1.0)
    for name, p in made.named_parameters():
        assert torch.equal(p, before[name]) != name.startswith("head."), name
    restored = Optimizer(copy.deepcopy(made), OptimizerConfig(kind=kind))
    assert restored.blank(optimizer.state()).keys() == optimizer.state().keys()
    adapt(made, FinetuneConfig(), seed=0)
    assert all(p.requires_grad for p in made.parameters())
    assert len(Optimizer(made, OptimizerConfig(kind=kind)).parameters) == len(before)


def test_a_head_that_is_all_trunk_cannot_be_trained_alone():
    with pytest.raises(ConfigError, match="method=frozen leaves nothing to learn"):
        adapt(model(), FinetuneConfig(method="frozen"), seed=0)
