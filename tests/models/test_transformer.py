"""The Transformer as a whole: tying, devices, misuse, the class token."""

import copy
import io

import pytest
import torch
from safetensors.torch import load_file, save_model
from torch.nn import functional as F
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.cache import Cache
from glassformer.layers.position.vectors import sinusoidal
from glassformer.models import Transformer
from tiny import EXACT
from variants import VARIANTS


def shared(model: Transformer) -> bool:
    head = model.head.unembed if model.config.head == "masked_lm" else model.head
    return head.weight is model.embed.element.weight


@pytest.mark.parametrize("head", ["lm", "masked_lm"])
def test_a_tied_head_stays_tied(head, tmp_path):
    model = Transformer(tiny.config(head=head))
    assert shared(model)
    assert shared(model.double())
    assert shared(model.to(torch.bfloat16))
    assert shared(model.float())
    assert shared(copy.deepcopy(model))
    fresh = Transformer(tiny.config(head=head), seed=1)
    fresh.load_state_dict(model.state_dict())
    assert shared(fresh)
    assert torch.equal(fresh.embed.element.weight, model.embed.element.weight)
    empty = Transformer(tiny.config(head=head), device="meta").to_empty(device="cpu")
    assert shared(empty)
    empty.load_state_dict(model.state_dict())
    assert_close(empty(tiny.tokens(1, 4)).logits, model(tiny.tokens(1, 4)).logits)
    save_model(model, str(tmp_path / "model.safetensors"))
    assert len(load_file(tmp_path / "model.safetensors")) == len(list(model.parameters()))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_default_device_is_used_as_torchs_modules_use_it(name):
    """On meta nothing is allocated; after `to_empty`, `initialize` gives the model that is built at
    once, whatever the default device is by then."""
    config = tiny.config(**VARIANTS[name][0])
    whole = Transformer(config, seed=3)
    with torch.device("meta"):
        empty = Transformer(config, seed=3)
        explicit = Transformer(config, seed=3, device="cpu")
    shapes = lambda model: {name: p.shape for name, p in model.named_parameters()}
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert shapes(empty) == shapes(whole)
    made = empty.to_empty(device="cpu")
    with torch.device("meta"):
        made.initialize(3)
    for model in (made, explicit):
        for one, other in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_concatenated_positions_are_added_positions_of_padded_tables(position):
    """[x; p] = [x; 0] + [0; p]: a model that adds, with tables padded with zeros, is the same."""
    changes = {"position": position, "tied": False, "n_token_types": 2}
    beside = tiny.model(**changes, position_combination="concatenate", position_width=3)
    ids, positions = tiny.tokens(2, 6), Positions.pad([6, 4])
    added = Transformer(tiny.config(**changes | {"position": "learned"})).double().eval()
    weights = dict(beside.state_dict())
    weights["embed.element.weight"] = F.pad(weights["embed.element.weight"], (0, 3))
    table = (
        weights["embed.position.weight"]
        if position == "learned"
        else sinusoidal(torch.arange(32), 3, dtype=torch.float64)
    )
    weights["embed.position.weight"] = F.pad(table, (5, 0))
    added.load_state_dict(weights)
    got, expected = (model(Batch(ids, positions)).logits for model in (beside, added))
    real = positions.valid
    assert real is not None
    assert_close(got[real], expected[real], **tiny.EXACT)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_without_residual_connections_a_block_is_its_branches_alone(placement):
    """f(LN(x)) and LN(f(x)), with the layers put together by hand."""
    model = tiny.model(norm_placement=placement, residual=False, position="learned")
    ids, at = tiny.tokens(1, 5), Positions.arange(5)
    x, stack = model.embed(ids, at), model.decoder
    for block in stack.blocks:
        own = lambda y, b=block: b.attention(y, stack.scoring().context(at, at))
        for norm, branch in (
            (block.attention_norm, own),
            (block.feedforward_norm, block.feedforward),
        ):
            x = branch(norm(x)) if placement == "pre" else norm(branch(x))
    x = stack.norm(x) if placement == "pre" else x
    assert_close(model.features(Batch(ids)).hidden, x, **tiny.EXACT)


def test_a_tied_matrix_gets_both_gradients_and_counts_once():
    model = Transformer(tiny.config())
    untied = Transformer(tiny.config(tied=False))
    assert untied.n_parameters - model.n_parameters == tiny.VOCABULARY * 8
    ids = torch.zeros(1, 3, dtype=torch.long)
    model(ids).logits.sum().backward()
    gradient = model.embed.element.weight.grad
    assert (gradient[1:] != 0).all()  # from the head: words that never came in
    assert not torch.allclose(gradient[0], gradient[1])  # from the embedding: the one that did


def test_an_untied_model_has_its_own_head():
    assert not shared(Transformer(tiny.config(tied=False)).double())


def test_weights_are_a_function_of_config_and_seed():
    one, again, other = (Transformer(tiny.config(), seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["embed.element.weight"], other["embed.element.weight"])


def test_a_model_survives_torch_s_own_file_format():
    model = tiny.model()
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    fresh = Transformer(model.config).double()
    fresh.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(fresh(tiny.tokens(1, 4)).logits, model(tiny.tokens(1, 4)).logits)


def test_misuse_is_refused():
    ids = tiny.tokens(1, 3)
    with pytest.raises(ConfigError, match="needs a source"):
        tiny.model(architecture="encoder_decoder")(ids)
    with pytest.raises(ConfigError, match="takes no cache"):
        tiny.model(architecture="encoder")(ids, Cache())
    for architecture in ("encoder", "decoder"):
        with pytest.raises(
            ConfigError, match=rf"has a source, and model\.architecture={architecture} reads none"
        ):
            tiny.model(architecture=architecture)(Batch(ids, source=Batch(ids)))
    with pytest.raises(ConfigError, match=r"the model has none; set model\.n_token_types"):
        tiny.model()(Batch(ids, token_type_ids=ids))
    with pytest.raises(ConfigError, match=r"Position 32 is outside the table of 32"):
        tiny.model()(tiny.tokens(1, 33))


def vision(**changes) -> Transformer:
    choices = {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 6,
        "head": "classify",
        "n_classes": 3,
    }
    return tiny.model(**choices | {"pool": "first"} | changes)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
@pytest.mark.parametrize("pool", ["first", "last", "mean"])
@pytest.mark.parametrize("n_registers", [0, 2])
def test_padded_patches_change_nothing(position, pool, n_registers):
    """Pictures of different sizes in one batch, with learned tokens before them or without."""
    distilled = pool == "first" and n_registers > 0
    model = vision(position=position, pool=pool, n_registers=n_registers, distilled=distilled)
    patches = torch.randn(2, 5, 6, dtype=torch.float64)
    for side, real in (("right", slice(0, 3)), ("left", slice(2, 5))):
        got = model(Batch(patches, Positions.pad([5, 3], side))).logits
        assert_close(got[0], model(Batch(patches[:1])).logits[0], **EXACT)
        assert_close(got[1], model(Batch(patches[1:, real])).logits[0], **EXACT)


def test_the_class_token_stands_first_and_takes_a_place():
    model = vision()
    features = model.features(Batch(torch.randn(2, 5, 6, dtype=torch.float64)))
    assert features.hidden.shape == (2, 6, 8)
    assert features.positions.position.tolist() == [list(range(6))]
    assert model.embed.position.weight.shape[0] == model.config.max_length + 1


@pytest.mark.parametrize("position", [*tiny.POSITIONS, "sinusoidal_2d", "rotary_2d"])
def test_a_register_is_a_token_like_the_class_token(position):
    """Two registers, and a class token before one, are the same stream; a mean leaves them out."""
    own = {"position": position, "grid": (2, 3), "max_length": 6, "d_head": 4}
    classed = vision(**own, n_registers=1)
    plain = copy.deepcopy(vision(**own, n_registers=2, pool="mean"))
    weights = dict(classed.state_dict())
    both = [weights.pop(f"embed.element.{name}") for name in ("class_token", "registers")]
    plain.load_state_dict(weights | {"embed.element.registers": torch.cat(both, 1)})
    batch = Batch(torch.randn(2, 6, 6, dtype=torch.float64))
    hidden = classed.features(batch).hidden
    assert_close(plain.features(batch).hidden, hidden, **EXACT)
    assert_close(plain(batch).logits, plain.head.proj(hidden[:, 2:].mean(1)), **EXACT)


def test_two_maps_score_a_distilled_model():
    """Read at once or from the whole stream, whose other elements do not count."""
    model = vision(n_registers=2, distilled=True)
    batch = Batch(torch.randn(2, 5, 6, dtype=torch.float64))
    h = model.features(batch).hidden
    expected = (model.head.proj(h[:, 0]) + model.head.distilled_proj(h[:, 1])) / 2
    assert_close(model(batch).logits, expected, **EXACT)
    assert_close(model(batch, all_positions=True).logits, expected, **EXACT)


def test_segments_default_to_the_first_kind():
    model, ids = tiny.model(n_token_types=2), tiny.tokens(2, 4)
    assert_close(
        model(ids).logits, model(Batch(ids, token_type_ids=torch.zeros_like(ids))).logits, **EXACT
    )
    assert not torch.allclose(
        model(ids).logits, model(Batch(ids, token_type_ids=torch.ones_like(ids))).logits
    )


@pytest.mark.parametrize("architecture", ["encoder", "decoder", "encoder_decoder"])
def test_dropout_is_there_in_training_only(architecture):
    model = tiny.stir(
        Transformer(tiny.config(architecture=architecture, dropout=0.3, attention_dropout=0.3))
    )
    ids = tiny.tokens(2, 5)
    batch = Batch(ids, source=Batch(ids) if architecture == "encoder_decoder" else None)
    assert not torch.equal(model(batch).logits, model(batch).logits)
    model.eval()
    assert torch.equal(model(batch).logits, model(batch).logits)


def test_inside_and_outside_placement_of_the_bias():
    """Note C: (QKᵀ + B)/√d_k equals QKᵀ/√d_k + B' with B' = B/√d_k."""
    inside, outside = (
        copy.deepcopy(tiny.model(position="relative", bias_placement=where))
        for where in ("inside", "outside")
    )
    outside.decoder.bias.weight.data *= inside.config.head_width**-0.5
    assert_close(inside(tiny.tokens(1, 6)).logits, outside(tiny.tokens(1, 6)).logits, **EXACT)


def test_the_residual_stream_passes_gradients_straight_through():
    """Note C: dx_{i+1}/dx_i = 1 + df_i/dx_i; with branches that give 0 it is the identity."""
    model = copy.deepcopy(tiny.model())
    for block in model.decoder.blocks:
        block.attention.out_proj.weight.data.zero_()
        block.feedforward.down_proj.weight.data.zero_()
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    run = lambda x: model.decoder.blocks[0](
        x, model.decoder.scoring().context(Positions.arange(4), Positions.arange(4))
    )
    jacobian = torch.autograd.functional.jacobian(run, x).view(32, 32)
    assert_close(jacobian, torch.eye(32, dtype=torch.float64), **EXACT)


def test_a_padded_row_of_nothing_but_padding_gives_finite_gradients():
    model = copy.deepcopy(tiny.model(position="rotary"))
    positions = Positions(
        torch.zeros(2, 4, dtype=torch.long), valid=torch.tensor([[True] * 4, [False] * 4])
    )
    model(Batch(tiny.tokens(2, 4), positions)).logits[0].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("head", ["tag", "classify"])
def test_a_head_without_classes_is_refused_when_it_is_built(head):
    with pytest.raises(ConfigError, match=f"head='{head}' needs model.n_classes"):
        Transformer(tiny.config(head=head))


def test_the_head_reads_selected_positions_only():
    model = tiny.stir(
        Transformer(tiny.config(architecture="encoder", head="tag", classes=("a", "b", "c")))
    )
    ids, at = tiny.tokens(3, 6), torch.tensor([0, 7, 7, 17])
    everywhere = model(Batch(ids)).logits
    assert everywhere.shape == (3, 6, 3)
    assert torch.allclose(model(Batch(ids, at=at)).logits, everywhere.flatten(0, 1)[at], atol=1e-12)
