"""The lens: final norm and head on the stream after every block, as written out in NumPy; the last
is the answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect import lens as lenses
from glassformer.inspect.edits import Zero
from glassformer.inspect.lens import lens, log_probabilities
from glassformer.inspect.look import Look, look
from glassformer.layers.tap import Tape, recording
from glassformer.models import Transformer


def looked(**changes) -> Look:
    source = (
        Batch(tiny.tokens(1, 5, seed=3))
        if changes.get("architecture") == "encoder_decoder"
        else None
    )
    return look(tiny.model(**changes), replace(Batch(tiny.tokens(1, 6)), source=source))


def streams(seen: Look) -> list[np.ndarray]:
    """After the embedding and after every block, taken down by a tape of its own."""
    side = "encoder" if seen.model.decoder is None else "decoder"
    tape = Tape(seen.model, (f"{side}.blocks.*.resid_pre", f"{side}.blocks.*.resid_post"))
    with torch.no_grad(), recording(tape):
        seen.model(seen.batch, all_positions=True)
    after = [
        tape.kept[f"{side}.blocks.{layer}.resid_post"]
        for layer in range(seen.model.config.n_layers)
    ]
    return [x[0].numpy() for x in (tape.kept[f"{side}.blocks.0.resid_pre"], *after)]


def softmax(u: np.ndarray) -> np.ndarray:
    e = np.exp(u - u.max())
    return e / e.sum()


def normed(x: np.ndarray, module) -> np.ndarray:
    x = x - x.mean() if hasattr(module, "bias") else x
    x = x / np.sqrt((x * x).mean() + module.epsilon) * module.weight.detach().numpy()
    return x + module.bias.detach().numpy() if getattr(module, "bias", None) is not None else x


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_every_cell_is_the_head_on_the_stream(placement, norm, architecture):
    seen = looked(norm_placement=placement, norm=norm, architecture=architecture, head_scale=True)
    found = lens(seen, 4, target=5)
    assert found.layers == (0, 1, 2)
    assert found.positions == tuple(range(6))
    assert found.ids.shape == found.probabilities.shape == (3, 6, 4)
    table = seen.model.head.weight.detach().numpy()
    for layer, stream in enumerate(streams(seen)):
        for position in range(6):
            x = stream[position]
            x = normed(x, seen.model.decoder.norm) if placement == "pre" else x
            p = softmax(table @ x * 8**-0.5)
            order = np.argsort(-p)[:4]
            assert found.ids[layer, position].tolist() == order.tolist()
            np.testing.assert_allclose(found.probabilities[layer, position], p[order], rtol=1e-9)
            assert float(found.of_target[layer, position]) == pytest.approx(p[5], rel=1e-9)


@pytest.mark.parametrize("head", ["lm", "masked_lm", "tag"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_last_layer_is_the_models_own_answer(head, placement):
    seen = looked(head=head, n_classes=3, norm_placement=placement, architecture="encoder")
    for edits in ([], [Zero("encoder.blocks.1.attention.z", head=2)]):
        look_ = seen.edit(edits)
        found = lens(look_, 3)
        own = look_.logits.softmax(-1).topk(3)
        torch.testing.assert_close(found.probabilities[-1], own.values, rtol=1e-9, atol=0)
        assert found.ids[-1].tolist() == own.indices.tolist()
        assert found.of_target is None


@pytest.mark.parametrize("pool", ["first", "last", "mean"])
@pytest.mark.parametrize("pooler", [False, True])
@pytest.mark.parametrize("elements", ["tokens", "patches"])
@pytest.mark.parametrize("several", [False, True])
def test_a_head_that_pools_answers_once_after_every_layer(pool, pooler, elements, several):
    changes = {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 3,
        "pool": pool,
        "pooler": pooler,
    }
    model = tiny.model(**changes, multi_label=several, elements=elements, patch_width=4)
    seen = look(
        model, Batch(tiny.tokens(1, 6) if elements == "tokens" else torch.randn(1, 6, 4).double())
    )
    found = lens(seen, 9, target=2)
    assert (found.layers, found.positions, found.ids.shape) == ((0, 1, 2), (), (3, 1, 3))
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    for layer, stream in enumerate(streams(seen)):
        x = np.stack([normed(row, model.encoder.norm) for row in stream])
        x = {"first": x[0], "last": x[-1], "mean": x.mean(0)}[pool]
        x = np.tanh(weights["head.dense.weight"] @ x + weights["head.dense.bias"]) if pooler else x
        u = weights["head.proj.weight"] @ x + weights["head.proj.bias"]
        p = 1 / (1 + np.exp(-u)) if several else softmax(u)
        np.testing.assert_allclose(found.probabilities[layer, 0], np.sort(p)[::-1], rtol=1e-9)
        assert float(found.of_target[layer, 0]) == pytest.approx(p[2], rel=1e-9)
    torch.testing.assert_close(seen.probabilities(), torch.from_numpy(p))  # the last layer's


def test_only_the_cells_that_are_asked_for_are_computed_some_at_a_time(monkeypatch):
    seen = looked()
    whole = lens(seen, 3)
    monkeypatch.setattr(lenses, "NUMBERS", 2 * 13)  # two cells
    assert [len(cells) for cells in log_probabilities(seen, [0, 2], [0, 3, 5])] == [2, 1, 2, 1]
    part = lens(seen, 3, layers=[2, 0], positions=[-1, 0, 3])
    assert (part.layers, part.positions) == ((2, 0), (5, 0, 3))
    torch.testing.assert_close(part.probabilities, whole.probabilities[[2, 0]][:, [5, 0, 3]])
    assert part.ids.tolist() == whole.ids[[2, 0]][:, [5, 0, 3]].tolist()


def test_a_model_in_training_is_looked_at_without_dropout_and_stays_so():
    model = Transformer(
        tiny.config(dropout=0.5, head="tag", n_classes=3, architecture="encoder")
    ).train()
    seen = look(model, Batch(tiny.tokens(1, 6)))
    first, second = lens(seen), lens(seen)
    assert model.training
    torch.testing.assert_close(first.probabilities, second.probabilities, rtol=0, atol=0)
    first.probabilities.add_(1)  # an ordinary tensor


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        (
            {},
            {"layers": [3]},
            "no layer 3 in this model; its layers are 0 to 2",
        ),
        ({}, {"positions": [6]}, "no position 6 in this sequence; its positions are 0 to 5"),
        ({}, {"target": 13}, "no outcome 13 in this model; its outcomes are 0 to 12"),
        ({"head": "none"}, {}, "head='none' gives vectors, not probabilities"),
        ({"head": "pool"}, {}, "head='pool' gives vectors, not probabilities"),
        ({"head": "classify", "n_classes": 2}, {"positions": [0]}, "answers to the whole sequence"),
    ],
)
def test_what_is_not_there_is_refused(changes, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        lens(looked(**changes), **options)
