"""Costs known beforehand, held against what torch counts and measures."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.batch import Batch
from glassformer.layers.attention import context
from glassformer.layers.attention.attend import attend_reference
from glassformer.models import ModelConfig, Transformer
from glassformer.models.cost import forward_flops, matrices, training_bytes, training_flops

T = 12
BASE = {"vocab_size": 50, "d_model": 16, "n_layers": 2, "n_heads": 4, "max_length": 16}
CASES = {
    "decoder": {},
    "grouped and gated": {
        "n_kv_heads": 2,
        "gated": True,
        "d_head": 6,
        "position": "rotary",
        "tied": False,
    },
    "window": {"window": 4},
    "encoder": {"architecture": "encoder", "head": "masked_lm"},
    "encoder window": {"architecture": "encoder", "head": "none", "window": 4},
    "tags": {"architecture": "encoder", "head": "tag", "n_classes": 5},
    "classes": {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 5,
        "pooler": True,
        "pool": "first",
    },
    "classes of means": {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 5,
        "pooler": True,
        "pool": "mean",
    },
    "both": {"architecture": "encoder_decoder", "position": "sinusoidal", "n_encoder_layers": 3},
    "patches": {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 12,
        "head": "pool",
        "pool": "mean",
    },
    "patches beside positions": {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 12,
        "head": "pool",
        "pool": "mean",
        "position_combination": "concatenate",
    },
    "learned tokens": {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 12,
        "head": "classify",
        "n_classes": 5,
        "pool": "first",
        "n_registers": 3,
        "distilled": True,
    },
    "without residual connections": {"residual": False},
    "convolutions": {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 48,
        "patch": (4, 4),
        "grid": (3, 4),
        "max_length": 12,
        "stem": (5, 6),
        "head": "pool",
        "pool": "mean",
    },
}


def config(changes) -> ModelConfig:
    return ModelConfig.parse(BASE | changes)


def batch_of(made: ModelConfig) -> Batch:
    if made.elements == "patches":
        return Batch(torch.randn(2, T, made.patch_width))
    tokens = torch.randint(made.vocab_size, (2, T))
    return Batch(tokens, source=Batch(tokens) if made.architecture == "encoder_decoder" else None)


def dense_extra(made: ModelConfig) -> float:
    """Operations that the mask throws away after the written-out attention: all T keys for every
    query."""
    heads, w = made.n_heads * made.head_width, min(T, made.window or T)
    past = w - w * (w - 1) / (2 * T)
    around = T if made.window is None else 2 * past - 1
    lost = T - around if made.architecture == "encoder" else T - past  # none between two sides
    return 4 * heads * lost * made.n_layers


@pytest.mark.parametrize("name", CASES)
def test_operations_are_those_that_torch_counts(monkeypatch, name):
    monkeypatch.setattr(context, "attend", attend_reference)
    made = config(CASES[name])
    model = Transformer(made)
    with FlopCounterMode(display=False) as counter:
        model(batch_of(made))
    counted = counter.get_total_flops() / (2 * T)
    assert counted == pytest.approx(forward_flops(made, T) + dense_extra(made), rel=1e-9)


def test_operations_where_only_some_positions_are_read(monkeypatch):
    monkeypatch.setattr(context, "attend", attend_reference)
    made = config({"architecture": "encoder", "head": "masked_lm"})
    model, batch = Transformer(made), batch_of(made)
    with FlopCounterMode(display=False) as counter:
        model(replace(batch, at=torch.tensor([0, 2, T, 2 * T - 1])))
    assert counter.get_total_flops() / (2 * T) == pytest.approx(
        forward_flops(made, T, selected=2 / T), rel=1e-9
    )


def test_a_decoder_asks_from_its_end(monkeypatch):
    """All keys for the last, as many as a window has; one for the first, which sees itself."""
    monkeypatch.setattr(context, "attend", attend_reference)
    for pool, keys in (("last", T), ("first", 1)):
        made = config({"head": "classify", "n_classes": 5, "pool": pool, "n_layers": 1})
        with FlopCounterMode(display=False) as counter:
            Transformer(made)(batch_of(made))
        thrown = 4 * made.n_heads * made.head_width * (T - keys) / T
        assert counter.get_total_flops() / (2 * T) == pytest.approx(
            forward_flops(made, T) + thrown, rel=1e-9
        )


def test_keys_in_the_past_are_counted_by_the_mask_itself():
    for window in (None, 1, 3, T):
        made, n = config({"window": window}), 0
        for query in range(T):
            n += sum(query - key < (window or T) for key in range(query + 1))
        without = forward_flops(config({"window": 1}), T) - 4 * 16 * 2
        assert forward_flops(made, T) == pytest.approx(without + 4 * 16 * 2 * n / T)


def test_training_costs_three_times_as_much(monkeypatch):
    monkeypatch.setattr(context, "attend", attend_reference)
    made = config({"position": "learned"})
    model = Transformer(made)
    with FlopCounterMode(display=False) as counter:
        model(batch_of(made)).logits.sum().backward()
    # no gradient flows further than the embeddings, and everything before them is a lookup
    assert counter.get_total_flops() / (2 * T) == pytest.approx(
        training_flops(made, T) + 3 * dense_extra(made), rel=1e-9
    )


@pytest.mark.parametrize("name", CASES)
def test_matrices_are_all_parameters_once(name):
    made = config(CASES[name])
    listed, model = matrices(made), Transformer(made)
    assert sum(matrix.numbers for matrix in listed) == model.n_parameters
    assert [(m.name, m.shape) for m in listed] == [
        (name, tuple(p.shape)) for name, p in model.named_parameters()
    ]


def saved_bytes(model: Transformer, batch: Batch) -> int:
    """Bytes that autograd keeps for the backward pass, each storage once, without parameters."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(batch).logits
        loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), batch.elements.flatten())
        loss.backward()
    return sum(kept.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gated": True, "norm": "rms", "activation": "silu", "position": "rotary", "qk_norm": True},
        {"dropout": 0.1},
    ],
)
def test_memory_is_estimated_within_a_factor_of_two(changes):
    sizes = {"vocab_size": 200, "d_model": 64, "n_layers": 4, "n_heads": 4, "max_length": 64}
    made = ModelConfig.parse(sizes | changes)
    model = Transformer(made)
    tokens = torch.randint(200, (8, 64))
    measured = saved_bytes(model, Batch(tokens))
    parts = training_bytes(made, 8, 64, "adamw")
    estimated = (
        parts["activations"] + parts["logits"] / 3
    )  # of the three copies one is kept for the backward pass
    assert 0.5 < estimated / measured < 2
    assert (
        parts["weights"]
        == sum(p.nbytes for p in model.parameters())
        == sum(p.grad.nbytes for p in model.parameters())
    )


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_the_optimizers_memory_is_counted(kind):
    from glassformer.recipe.train import OptimizerConfig
    from glassformer.training.loop.optimizer import Optimizer

    made = config({})
    model = Transformer(made)
    optimizer = Optimizer(model, OptimizerConfig(kind=kind))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step(1.0)
    held = sum(t.nbytes for name, t in optimizer.state().items() if not name.endswith(":step"))
    assert held == training_bytes(made, 1, 4, kind)["optimizer"]


def test_parts_at_once_stand_in_memory_together_and_each_has_its_gradients():
    made = ModelConfig.parse(
        {"vocab_size": 50, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_length": 64}
    )
    whole, apart = (
        training_bytes(made, 8, 64, "adamw"),
        training_bytes(made, 4, 64, "adamw", parallel_micro_batches=2),
    )
    assert apart == whole | {"gradients": 2 * whole["gradients"]}
