"""A look: what it shows is what the model computed, by every name, for every kind of attention."""

import copy
import itertools

import pytest
import torch
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect.edits import Add, Mask, Scale, Set, Zero
from glassformer.inspect.look import Look, look, run
from glassformer.inspect.points import AXES, Named
from glassformer.layers.attention.attend import attention_values
from glassformer.processors.tokens.elements import Element, token_label
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from tiny import EXACT
from variants import EACH, PATCHES, crossing, decoding, made

pytestmark = pytest.mark.usefixtures("no_grad")


def seen(model=None, batch=None, edits=()) -> Look:
    return look(model or tiny.model(), batch or decoding(), edits=edits)


def attentions(own: Look):
    """Every attention of a model: (layer, side, site)."""
    for point in own.points():
        if point.kind == "pattern":
            yield point.name.removesuffix(".pattern"), point.layer, point.side, point.site


@pytest.mark.parametrize("variant", EACH)
def test_what_is_worked_out_afterwards_is_what_the_model_does_when_it_writes_it_out(variant):
    model, batch = made(variant)
    own = seen(model, batch)
    _, written = run(model, batch, ("*",))
    assert not any(name.endswith((".scores", ".pattern")) for name in own.tape.axes), (
        "the fused kernel was taken"
    )
    found = list(attentions(own))
    assert len(found) == model.config.n_layers * (3 if batch.source is not None else 1)
    for place, layer, side, site in found:
        patterns = [own.pattern(layer, head, side=side, site=site) for head in range(4)]
        scores = [own.scores(layer, head, side=side, site=site) for head in range(4)]
        assert_close(torch.stack(patterns), written.kept[f"{place}.pattern"][0], rtol=0, atol=1e-6)
        whole = own[f"{place}.pattern"]
        assert whole.axes == ("head", "query", "key")
        assert_close(torch.stack(patterns), whole.tensor, rtol=0, atol=1e-7)
        assert_close(torch.stack(scores), written.kept[f"{place}.scores"][0], rtol=1e-5, atol=1e-5)
        fused = own[f"{place}.z"].tensor
        z = attention_values(whole.tensor[None], own[f"{place}.v"].tensor[None])[0]
        assert float((z - fused).abs().max()) <= 1e-6 * max(1.0, float(fused.abs().max()))
    assert_close(own.logits, model(batch).logits[0], rtol=1e-5, atol=1e-5)


def test_masks_are_the_models_own():
    """Against what a mask means, not against code that reads it."""
    causal = seen().pattern(0, 1)
    assert torch.equal(causal > 0, torch.ones(7, 7).tril() > 0)
    window = seen(tiny.model(window=3)).pattern(1, 0)
    assert torch.equal(window > 0, torch.ones(7, 7).tril() - torch.ones(7, 7).tril(-3) > 0)
    cross = seen(tiny.model(architecture="encoder_decoder"), crossing()).pattern(0, 2, site="cross")
    assert torch.equal(cross > 0, torch.tensor([[True, True, True, True, False]]).expand(4, 5))
    assert_close(cross.sum(1), torch.ones(4).double(), **EXACT)


@pytest.mark.parametrize(
    "variant", ["causal rotary", "both learned", "patches", "grouped", "encoder alibi", "mixture"]
)
def test_every_point_can_be_asked_for_by_its_name(variant):
    model, batch = made(variant, torch.float64)
    own = seen(model, batch)
    _, written = run(model, batch, ("*",))
    assert [point.name for point in own.points()] == written.points
    for point in own.points():
        named = own[point.name]
        assert named.axes == point.axes[1:]
        assert named.shape == point.shape[1:]
        assert set(point.axes) <= set(AXES), point
        assert_close(named.tensor, written.kept[point.name][0], **EXACT)
        assert not named.tensor.requires_grad
        assert not named.tensor.is_inference()


def test_points_say_where_they_are():
    points = {
        point.name: point
        for point in seen(tiny.model(architecture="encoder_decoder"), crossing()).points()
    }
    pattern = points["decoder.blocks.1.cross.pattern"]
    assert (pattern.kind, pattern.layer, pattern.side, pattern.site) == (
        "pattern",
        1,
        "decoder",
        "cross",
    )
    assert (pattern.axes, pattern.shape) == (("batch", "head", "query", "key"), (1, 4, 4, 5))
    assert points["encoder.blocks.0.attention.q"].site == "self"
    out = points["decoder.blocks.0.cross_out"]
    assert (out.kind, out.layer, out.side, out.site) == ("cross_out", 0, "decoder", "")
    assert (
        points["head.logits"].side,
        points["embed.elements"].layer,
        points["decoder.out"].side,
    ) == (
        "",
        None,
        "decoder",
    )
    edited = seen(edits=[Scale("*.1.attention.z", by=2.0)]).points()
    assert [point.name for point in edited if point.edited] == ["decoder.blocks.1.attention.z"]


def test_a_named_tensor_is_cut_by_the_names_of_its_axes():
    tensor = torch.arange(24).view(2, 3, 4)
    named = Named(tensor, ("head", "query", "class"))
    assert torch.equal(named.sel(query=1).tensor, tensor[:, 1])
    assert named.sel(query=1).axes == ("head", "class")
    assert torch.equal(named.sel(class_=[3, 0], head=-1).tensor, tensor[1][:, [3, 0]])
    assert torch.equal(named.sel(query=slice(1, None)).tensor, tensor[:, 1:])
    assert named.sel(query=slice(1, None)).axes == named.axes
    for at, said in (
        ({"hed": 1}, r"no axis 'hed'; did you mean 'head'"),
        ({"head": 2}, r"head=2 is not there; head runs from 0 to 1"),
        ({"query": [0, -4]}, r"query=\[0, -4\] is not there; query runs from 0 to 2"),
        ({"query": slice(4, 9)}, r"query=4:9 is not there"),
        ({"query": slice(2, 2)}, r"query=2:2 is not there"),
    ):
        with pytest.raises(ConfigError, match=said):
            named.sel(**at)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda own: own["decoder.blocks.0.attention.patern"], "did you mean '.*pattern'"),
        (lambda own: own["xyz"], r"no point 'xyz' in this model; known are"),
        (lambda own: own["decoder.blocks.2.attention.pattern"], "no point"),
        (lambda own: own.pattern(2, 0), "no layer 2 in this model; its layers are 0 to 1"),
        (lambda own: own.pattern(0, 4), "no head 4 in this model; its heads are 0 to 3"),
        (lambda own: own.pattern(0, -1), "no head -1"),
        (
            lambda own: own.pattern(0, 0, side="encoder"),
            "side='encoder' is not in this model; it has decoder",
        ),
        (lambda own: own.pattern(0, 0, site="cross"), "The decoder has no cross-attention"),
        (lambda own: own.scores(0, 0, site="crss"), "did you mean 'cross'"),
        (lambda own: own.probabilities(7), "position=7 is not there; position runs from 0 to 6"),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(ask, said):
    with pytest.raises(ConfigError, match=said):
        ask(seen())


def test_a_look_is_at_one_sequence():
    with pytest.raises(ConfigError, match="the batch has 2; give them one by one"):
        look(tiny.model(), Batch(tiny.tokens(2, 3)))


def test_edits_of_scores_and_patterns_are_seen_in_what_is_worked_out():
    edits = [
        Mask("decoder.blocks.0.attention.scores", head=1, query=[3, 4], key=1),
        Set("decoder.blocks.1.attention.pattern", head=2, query=5, key=0, to=0.5, renormalise=True),
        Add("decoder.blocks.0.resid_post", vector=0.25, position=2, model=1),
    ]
    own = seen(edits=edits)
    _, written = run(own.model, own.batch, ("*.scores", "*.pattern", "*.resid_post"), edits)
    for layer, head in itertools.product(range(2), range(4)):
        for kind in ("scores", "pattern"):
            expected = written.kept[f"decoder.blocks.{layer}.attention.{kind}"][0, head]
            assert_close(getattr(own, kind)(layer, head), expected, **EXACT)
    assert own.pattern(0, 1)[3, 1] == 0
    assert own.pattern(1, 2)[5, 0] == 0.5
    before, after = (tape["decoder.blocks.0.resid_post"] for tape in (written.before, written.kept))
    assert (after - before).nonzero().tolist() == [[0, 2, 1]]
    assert written.before["decoder.blocks.1.attention.pattern"][0, 2, 5, 0] != 0.5


def test_the_same_input_under_other_edits():
    own = seen()
    cut = own.edit([Zero("decoder.blocks.0.attention.z", head=0)])
    assert not torch.allclose(cut.logits, own.logits)
    assert torch.equal(cut.edit([]).logits, own.logits)  # other edits, not more of them
    assert cut.elements is own.elements
    assert torch.equal(own.logits, seen().logits)  # nothing is left of the edit


def test_probabilities_are_those_of_the_head():
    own = seen()
    assert_close(own.probabilities(), own.logits[-1].softmax(-1), **EXACT)
    assert_close(own.probabilities(2), own.logits[2].softmax(-1), **EXACT)
    classes = {"architecture": "encoder", "head": "classify", "n_classes": 3, "tied": False}
    own = seen(tiny.model(**classes))
    assert own.logits.shape == (3,)
    assert_close(own.probabilities().sum(), torch.tensor(1.0).double(), **EXACT)
    with pytest.raises(ConfigError, match="position=1 was given"):
        own.probabilities(1)
    several = seen(tiny.model(**classes, multi_label=True))
    assert_close(several.probabilities(), several.logits.sigmoid(), **EXACT)
    with pytest.raises(ConfigError, match=r"model.head='none' gives vectors"):
        seen(tiny.model(architecture="encoder", head="none", tied=False)).probabilities()


def test_elements_are_as_many_as_places():
    own = seen(tiny.model(**PATCHES), Batch(torch.zeros(1, 6, 5).double()))
    assert [element.kind for element in own.elements] == ["class"] + ["image"] * 6
    own = seen(tiny.model(architecture="encoder_decoder"), crossing())
    assert (len(own.elements), len(own.source_elements)) == (4, 5)
    assert own.elements[0] == Element(
        str(int(own.batch.elements[0, 0])), int(own.batch.elements[0, 0]), "token"
    )


def test_gradients_are_those_of_the_embedded_elements():
    """Even where everything is frozen, and the caller is in inference mode; against differences."""
    model = copy.deepcopy(tiny.model(position="rotary", norm="rms")).requires_grad_(False)
    with torch.inference_mode():
        output, tape = run(model, decoding(), ("*.0.resid_post", "*.pattern"), gradients=True)
    leaf, pattern = tape.kept["embed.elements"], tape.kept["decoder.blocks.0.attention.pattern"]
    with torch.enable_grad():
        gradients = torch.autograd.grad(output.logits[0, -1, 3], [leaf, pattern])
    assert gradients[1].abs().sum() > 0
    direction = torch.randn(7, 8, generator=torch.Generator().manual_seed(1)).double()
    step = 1e-5
    ends = [
        run(model, decoding(), (), [Add("embed.elements", vector=sign * step * direction)])[0]
        for sign in (1, -1)
    ]
    slope = (ends[0].logits[0, -1, 3] - ends[1].logits[0, -1, 3]) / (2 * step)
    assert_close((gradients[0][0] * direction).sum(), slope, rtol=1e-6, atol=1e-8)
    plain, tape = run(model, decoding(), ("*.q",))
    assert not plain.logits.requires_grad
    assert "embed.elements" not in tape.kept


def test_a_look_leaves_the_model_as_it_was():
    model = copy.deepcopy(tiny.model(dropout=0.5, attention_dropout=0.5)).train()
    first, second = seen(model), seen(model)
    assert torch.equal(first.logits, second.logits)  # nothing was dropped
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_labels_are_the_text_as_it_stands():
    text = "the cat\n the cät 😀" * 3
    byte = train_tokenizer(TokenizerConfig(kind="byte"), [])
    assert [token_label(byte, int(i)) for i in byte.encode("a\n é")] == [
        "a",
        "\n",
        " ",
        "\\xc3",
        "\\xa9",
    ]
    assert token_label(byte, byte.specials["eos"]) == byte.piece(byte.specials["eos"])
    bpe = train_tokenizer(TokenizerConfig(kind="bpe", vocab_size=300), [text])
    assert (
        "".join(token_label(bpe, int(i)) for i in bpe.encode("the cat\n the cat"))
        == "the cat\n the cat"
    )
