"""The ledger: its entries are the logit, and each is what that part alone wrote, the scales of the
run kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch, Part
from glassformer.core.errors import ConfigError
from glassformer.inspect.edits import Add, Mean, Patch, Scale, Set, Zero
from glassformer.inspect.ledger import Ledger, ledger
from glassformer.inspect.look import Look, look
from glassformer.layers.tap import Tape, recording
from glassformer.models import ModelConfig, Transformer, presets

VARIANTS = [
    *((name, None) for name in presets.TABLE),
    *(("original-2017", size) for size in presets.TABLE["original-2017"]["sizes"]),
    *(("note", note) for note in presets.TABLE["note"]["sizes"]),
]
SMALL = {"max_length": 8, "d_model": 24, "n_heads": 3, "n_layers": 2}
HEADS = ("lm", "masked_lm", "tag", "classify", "pool", "none")
GAP = 3e-6
"""Rounding of float32 through two blocks, 1.2e-6 at most as seen here; 1e-5 is promised."""


def looked(model: Transformer, **changes) -> Look:
    """A look at random input of the kind that the model reads."""
    config = model.config
    if config.elements == "patches":
        return look(
            model,
            Batch(
                torch.randn(1, config.max_length, config.patch_width).to(next(model.parameters()))
            ),
        )
    source = Batch(tiny.tokens(1, 5, seed=3)) if config.architecture == "encoder_decoder" else None
    return look(model, replace(Batch(tiny.tokens(1, 6), source=source), **changes))


def exactly(found: Ledger, seen: Look, target: int, position: int, against: int | None) -> None:
    logits = seen.logits if seen.logits.dim() == 1 else seen.logits[position]
    wanted = float(logits[target]) - (0.0 if against is None else float(logits[against]))
    assert found.logit == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert found.total == pytest.approx(sum(entry.value for entry in found.entries) + found.bias)
    assert any(entry.value for entry in found.entries) or target == against


def places_of(found: Ledger, name: str) -> list[tuple[int | None, int | None]]:
    """Layer and head of every entry of a name, in order."""
    return [(entry.layer, entry.head) for entry in found.entries if entry.name == name]


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize(
    "changes",
    [{"residual": False}, {"position_combination": "concatenate", "tied": False}],
    ids=["no residual", "concatenated"],
)
def test_it_is_the_logit_without_residual_connections_and_with_positions_beside(changes, placement):
    seen = looked(tiny.model(norm_placement=placement, **changes))
    found = ledger(seen, 3)
    exactly(found, seen, 3, -1, None)
    if "residual" in changes:  # nothing passes a branch but through it
        last = [entry.value for entry in found.entries if entry.value]
        assert len(last) == 1


@pytest.mark.parametrize(("name", "size"), VARIANTS)
def test_it_is_the_logit_of_every_preset_in_float32(name, size):
    of = {"patch_width": 12, "n_classes": 5, "grid": None} if name == "vit" else {"vocab_size": 13}
    config = presets.preset(name, size, **SMALL, **of)
    model = tiny.stir(Transformer(config))
    seen = looked(model)
    for target, position, against in ((3, -1, None), (0, 2, 4)):
        found = ledger(seen, target, position=position, against=against)
        exactly(found, seen, target, position, against)
        assert found.gap < GAP
    layers, heads = config.n_layers, config.n_heads
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    assert places_of(found, "head") == every
    assert places_of(found, "feedforward") == [(layer, None) for layer in range(layers)]
    assert places_of(found, "cross") == (every if config.architecture == "encoder_decoder" else [])
    assert places_of(found, "elements") == [(None, None)]


@st.composite
def configurations(draw) -> dict:
    """A model that differs from the others in everything that meets the stream."""
    flag = st.booleans()
    chosen = {
        "architecture": draw(st.sampled_from(["encoder", "decoder", "encoder_decoder"])),
        "head": draw(st.sampled_from(HEADS)),
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "norm_placement": draw(st.sampled_from(["pre", "post"])),
        "position": draw(st.sampled_from(tiny.POSITIONS)),
        "pool": draw(st.sampled_from(["last", "first", "mean"])),
        "n_token_types": draw(st.sampled_from([0, 2])),
        "n_kv_heads": draw(st.sampled_from([1, 4])),
        "d_head": draw(st.sampled_from([2, 6])),
        "n_classes": 3,
        **{
            name: draw(flag)
            for name in ("bias", "tied", "pooler", "gated", "embedding_norm", "embedding_scale")
        },
        **{name: draw(flag) for name in ("head_bias", "head_scale")},
    }
    return chosen


@given(configurations(), st.integers(0, 2), st.integers(-6, 5), st.sampled_from([None, 0, 1]))
def test_it_is_the_logit_of_every_configuration(chosen, target, position, against):
    seen = looked(
        tiny.model(**chosen),
        token_type_ids=torch.tensor([[0, 0, 1, 1, 0, 1]]) if chosen["n_token_types"] else None,
    )
    found = ledger(seen, target, position=position, against=against)
    exactly(found, seen, target, position, against)
    assert found.gap < 1e-13
    assert not places_of(found, "edit")


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_it_is_the_logit_under_edits(architecture, placement):
    plain = looked(tiny.model(architecture=architecture, norm_placement=placement))
    other = plain.edit([Zero("embed.elements", position=1)])
    for edit in (
        Zero("embed.elements", position=2),
        Zero("decoder.blocks.0.attention.z", head=1),
        Mean("decoder.blocks.1.attention.v"),
        Zero("decoder.blocks.0.attention_out", position=[3, 5]),
        Add("decoder.blocks.1.resid_mid", vector=0.5),
        Patch("decoder.blocks.1.resid_pre", source=other, position=5),
        Zero("decoder.blocks.0.feedforward_out"),
        Add("decoder.blocks.1.resid_post", vector=list(range(8))),
        Set("decoder.out", to=0.25),
    ):
        seen = plain.edit([edit])
        found = ledger(seen, 2, against=5)
        exactly(found, seen, 2, -1, 5)
        assert found.gap < 1e-13, edit
        own = edit.point.startswith("decoder") and not edit.point.endswith(
            ("attention.z", "attention.v")
        )
        assert len(places_of(found, "edit")) == (own and not edit.point.endswith("feedforward_out"))


def test_it_is_the_logit_under_edits_of_the_head():
    pooled = looked(tiny.model(architecture="encoder", head="classify", n_classes=3, pooler=True))
    seen = pooled.edit([Add("head.pooled", vector=1.0), Scale("head.logits", by=3.0)])
    found = ledger(seen, 2)
    exactly(found, seen, 2, -1, None)
    assert found.gap < 1e-13
    first, last = (entry.value for entry in found.entries if entry.name == "edit")
    row = seen.model.head.proj.weight[2].detach()
    assert first == pytest.approx(float(row.sum()), rel=1e-9)
    assert last == pytest.approx(float(seen.logits[2]) * 2 / 3, rel=1e-9)


def test_what_an_edit_wrote_is_an_entry():
    seen = looked(tiny.model(norm="rms", norm_placement="pre", tied=False))
    vector = np.linspace(-1, 1, 8)
    found = ledger(seen.edit([Add("decoder.blocks.1.resid_post", vector=vector.tolist())]), 4)
    model = seen.model
    x = seen["decoder.blocks.1.resid_post"].tensor[-1].numpy() + vector
    scale = 1 / np.sqrt((x * x).mean() + model.config.epsilon)
    direction = (
        model.head.weight[4].detach().numpy() * model.decoder.norm.weight.detach().numpy() * scale
    )
    (entry,) = [entry for entry in found.entries if entry.name == "edit"]
    assert (entry.layer, entry.head) == (1, None)
    assert entry.value == pytest.approx(float(vector @ direction), rel=1e-10)


def frozen(x, weight, bias, scale, centred):
    """A norm by loops, at a scale that is given."""
    mean = sum(x) / len(x) if centred else 0.0
    return np.array(
        [(value - mean) * scale * w + b for value, w, b in zip(x, weight, bias, strict=True)]
    )


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("head", ["lm", "masked_lm"])
def test_each_entry_is_what_is_missing_without_it_at_the_same_scales(placement, norm, head):
    """Against the stream put together in NumPy: with one part left out, and every scale and gate as
    in the run."""
    model = tiny.model(norm=norm, norm_placement=placement, head=head, architecture="encoder")
    seen, at, target = looked(model), 3, 7
    keep = [f"encoder.blocks.*.{name}" for name in ("attention.z", "feedforward_out")]
    tape = Tape(model, ("embed.elements", "embed.positions", *keep))
    with torch.no_grad(), recording(tape):
        model(seen.batch)
    w = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    scales: list[float] = []
    gates: list[np.ndarray] = []

    def rerun(left_out, first: bool) -> float:
        remembered = iter(list(scales))

        def normed(name, x):
            centred = f"{name}.bias" in w
            if first:
                about = x - x.mean() if centred else x
                scales.append(1 / np.sqrt((about * about).mean() + model.config.epsilon))
            scale = scales[-1] if first else next(remembered)
            return frozen(
                x, w[f"{name}.weight"], w.get(f"{name}.bias", np.zeros(len(x))), scale, centred
            )

        def joined(name, x, branch):
            return x + branch if placement == "pre" else normed(name, x + branch)

        def value(point, row=at):
            return tape.kept[point][0].detach().numpy()[row]

        x = np.zeros(8)
        x += 0 if left_out == ("elements", None, None) else value("embed.elements")
        x += 0 if left_out == ("positions", None, None) else value("embed.positions")
        for layer in range(2):
            block, branch = (
                f"encoder.blocks.{layer}",
                w[f"encoder.blocks.{layer}.attention.out_proj.bias"].copy(),
            )
            z = tape.kept[f"{block}.attention.z"][0].numpy()
            for h in range(4):
                out = w[f"{block}.attention.out_proj.weight"][:, 2 * h : 2 * h + 2]
                branch += 0 if left_out == ("head", layer, h) else out @ z[h, at]
            x = joined(f"{block}.attention_norm", x, branch)
            fed = (
                0 if left_out == ("feedforward", layer, None) else value(f"{block}.feedforward_out")
            )
            x = joined(f"{block}.feedforward_norm", x, fed)
        x = normed("encoder.norm", x) if placement == "pre" else x
        if head == "lm":
            return float(w["embed.element.weight"][target] @ x)
        u = w["head.dense.weight"] @ x + w["head.dense.bias"]
        if first:
            gates.append(torch.nn.functional.gelu(torch.from_numpy(u)).numpy() / u)
        x = normed("head.norm", u * gates[0])
        return float(w["embed.element.weight"][target] @ x + w["head.unembed.bias"][target])

    whole = rerun(None, True)
    found = ledger(seen, target, position=at)
    assert whole == pytest.approx(float(seen.logits[at, target]), rel=1e-9)
    assert [(entry.name, entry.layer) for entry in found.entries][:3] == [
        ("elements", None),
        ("positions", None),
        ("head", 0),
    ]
    assert len(found.entries) == 2 + 2 * (4 + 1)
    for entry in found.entries:
        without = rerun((entry.name, entry.layer, entry.head), False)
        assert entry.value == pytest.approx(whole - without, rel=1e-8, abs=1e-9), entry


def test_parts_and_a_class_token_are_elements():
    choices = {
        "architecture": "encoder",
        "elements": "patches",
        "head": "classify",
        "n_classes": 3,
        "pool": "first",
    }
    for changes in ({}, {"n_registers": 2}, {"n_registers": 1, "distilled": True}):
        vit = tiny.model(**choices, **changes, patch_width=4, max_length=6)
        assert ledger(looked(vit), 1).gap < 1e-13
    vqa = tiny.model(parts={"image": 5}, part_patches={"image": 3}, position="learned")
    part = Part("image", torch.tensor([1, 2, 3]), torch.randn(3, 5).double(), torch.arange(3))
    seen = look(vqa, Batch(tiny.tokens(1, 6), parts=(part,)))
    for position in (2, 5):
        assert ledger(seen, 1, position=position).gap < 1e-13


def test_what_is_not_there_is_refused():
    seen = looked(tiny.model())
    with pytest.raises(ConfigError, match="no outcome 13 in this model; its outcomes are 0 to 12"):
        ledger(seen, 13)
    with pytest.raises(ConfigError, match="no outcome -1"):
        ledger(seen, 0, against=-1)
    with pytest.raises(
        ConfigError, match="no position 6 in this sequence; its positions are 0 to 5"
    ):
        ledger(seen, 0, position=6)


def test_the_model_stays_as_it_was():
    model = tiny.stir(
        Transformer(ModelConfig.parse({"vocab_size": 13, **SMALL, "dropout": 0.5}))
    ).train()
    seen = looked(model)
    assert ledger(seen, 1).gap < GAP
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
