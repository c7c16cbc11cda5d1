"""Patches among tokens: their vectors by hand, and that nothing else changes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Part, Positions
from glassformer.core.errors import ConfigError
from glassformer.models import Transformer

WIDTHS = {"image": 5, "audio": 3}
MIXED = {"parts": WIDTHS, "part_patches": {"image": 4}}
ROWS, LENGTH = 2, 6


def part(name: str, at: list[int], index: list[int] | None = None, seed: int = 0) -> Part:
    values = torch.randn(len(at), WIDTHS[name], generator=torch.Generator().manual_seed(seed))
    return Part(
        name,
        torch.tensor(at),
        values.double(),
        torch.tensor(range(len(at)) if index is None else index),
    )


IMAGE, AUDIO = part("image", [9, 1, 2], [3, 0, 1]), part("audio", [4, 7], seed=1)
SPLICED = Batch(tiny.tokens(ROWS, LENGTH), parts=(IMAGE, AUDIO))


def embedded(model: Transformer, batch: Batch) -> torch.Tensor:
    return model.embed(batch.elements, batch.where(), batch.token_type_ids, batch.parts)


@pytest.mark.parametrize(
    "choices", [{}, {"embedding_scale": True, "n_token_types": 2}, {"position": "none"}]
)
def test_a_patch_by_hand(choices):
    """x = patch W + t + g_n (+ p_i + k_0); a clip has no positions of its own here, and a token is
    what it was."""
    model = tiny.model(**MIXED, **choices)
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}
    x = embedded(model, SPLICED).detach().numpy().reshape(ROWS * LENGTH, -1)
    factor = math.sqrt(8) if choices.get("embedding_scale") else 1.0
    found = {9: (IMAGE, 0), 1: (IMAGE, 1), 2: (IMAGE, 2), 4: (AUDIO, 0), 7: (AUDIO, 1)}
    for slot in range(ROWS * LENGTH):
        row, i = divmod(slot, LENGTH)
        if slot in found:
            of, n = found[slot]
            expected = np.einsum(
                "p,dp->d", of.values[n].numpy(), w[f"embed.parts.{of.name}.proj.weight"]
            )
            expected = expected + w[f"embed.parts.{of.name}.kind"]
            if of.name == "image":
                expected = expected + w["embed.parts.image.position.weight"][int(of.index[n])]
        else:
            expected = factor * w["embed.element.weight"][int(SPLICED.elements[row, i])]
        if choices.get("position") != "none":
            expected = expected + w["embed.position.weight"][i]
        if choices.get("n_token_types"):
            expected = expected + w["embed.kind.weight"][0]
        np.testing.assert_allclose(
            x[slot], expected, rtol=0, atol=1e-12
        )  # eight sums of numbers below 10
    assert "embed.parts.audio.position.weight" not in w


@pytest.mark.parametrize("architecture", ["encoder", "decoder", "encoder_decoder"])
def test_text_alone_is_exactly_the_text_model(architecture):
    """The same seed gives the same weights whether or not there are parts, and text the same
    logits, bit for bit."""
    text, mixed = (
        Transformer(tiny.config(architecture=architecture, **c), seed=3) for c in ({}, MIXED)
    )
    weights = dict(mixed.named_parameters())
    assert all(torch.equal(p, weights[name]) for name, p in text.named_parameters())
    batch = Batch(tiny.tokens(2, 5), Positions.pad([5, 3]))
    batch = replace(batch, source=batch) if architecture == "encoder_decoder" else batch
    assert torch.equal(text(batch).logits, mixed(batch).logits)
    empty = replace(
        batch,
        parts=(replace(IMAGE, at=IMAGE.at[:0], values=IMAGE.values[:0], index=IMAGE.index[:0]),),
    )
    assert torch.equal(text(batch).logits, mixed(empty).logits)


def test_the_placeholder_is_never_read():
    model = tiny.model(**MIXED)
    other = SPLICED.elements.clone()
    at = torch.cat([IMAGE.at, AUDIO.at])
    other.view(-1)[at] = (other.view(-1)[at] + 1) % tiny.VOCABULARY
    batch = replace(SPLICED, elements=other)
    assert torch.equal(embedded(model, batch), embedded(model, SPLICED))
    weight = model.embed.element.weight
    for one in (SPLICED, batch):
        (gradient,) = torch.autograd.grad(embedded(model, one).sum(), weight)
        kept = torch.ones(ROWS * LENGTH, dtype=torch.bool)
        kept[at] = False
        counts = SPLICED.elements.view(-1)[kept].bincount(minlength=tiny.VOCABULARY)
        assert_close(gradient, counts[:, None].expand_as(gradient).double())


@given(st.permutations(range(4)), st.booleans(), st.booleans())
def test_the_order_of_parts_and_of_their_patches_does_not_matter(order, backwards, apart):
    model = tiny.model(**MIXED)
    image = part("image", [9, 1, 2, 11], [3, 0, 1, 2])
    pick = torch.tensor(order)
    moved = Part("image", image.at[pick], image.values[pick], image.index[pick])
    halves = [moved.select(torch.arange(LENGTH), LENGTH), AUDIO] if not apart else [
        Part("image", moved.at[:2], moved.values[:2], moved.index[:2]), AUDIO,
        Part("image", moved.at[2:], moved.values[2:], moved.index[2:]),
    ]  # fmt: skip
    parts = tuple(reversed(halves)) if backwards else tuple(halves)
    expected = model(replace(SPLICED, parts=(image, AUDIO))).logits
    assert_close(model(replace(SPLICED, parts=parts)).logits, expected, **tiny.EXACT)


def test_gradients_are_those_of_differences():
    """Of every parameter of the parts, and of the patches themselves, along a random direction, in
    float64."""
    model = tiny.stir(Transformer(tiny.config(**MIXED)).double()).eval()
    weights = [p for name, p in model.named_parameters() if "parts" in name]
    assert len(weights) == 5
    values = IMAGE.values.clone().requires_grad_()

    def loss():
        return (
            model(replace(SPLICED, parts=(replace(IMAGE, values=values), AUDIO)))
            .logits.square()
            .sum()
        )

    inputs = [*weights, values]
    gradients = torch.autograd.grad(loss(), inputs)
    generator, h = torch.Generator().manual_seed(1), 1e-5
    for tensor, gradient in zip(inputs, gradients, strict=True):
        direction = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            ends = []
            for step in (h, -2 * h):
                tensor.add_(step * direction)
                ends.append(loss())
            tensor.add_(h * direction)
        # a central difference errs by h² times the third derivative
        assert_close(
            (gradient * direction).sum(), (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6
        )
        assert gradient.abs().max() > 1e-3


def test_types_are_told_apart_and_so_are_the_places_in_a_picture():
    config = tiny.config(parts={"image": 5, "depth": 5}, part_patches={"image": 4})
    model = tiny.stir(Transformer(config).double()).eval()
    with torch.no_grad():
        model.embed.parts["depth"].proj.weight.copy_(model.embed.parts["image"].proj.weight)
    image = part("image", [1], [0])
    vector = lambda p: embedded(model, replace(SPLICED, parts=(p,)))[0, 1]
    base = vector(image)
    assert not torch.allclose(base, vector(replace(image, name="depth")))
    assert not torch.allclose(base, vector(replace(image, index=torch.tensor([2]))))


def test_both_sides_share_the_maps_of_parts():
    """A source with a vocabulary of its own has an embedding of its own, but a picture is a
    picture."""
    model = Transformer(tiny.config(architecture="encoder_decoder", source_vocab_size=9, **MIXED))
    assert model.source_embed.parts is model.embed.parts
    names = [name for name, _ in model.named_parameters() if "image" in name]
    assert all(name.startswith("embed.parts.image") for name in names)
    moved = model.to(torch.float64)
    assert moved.source_embed.parts["image"].proj.weight is moved.embed.parts["image"].proj.weight


WRONG = {
    "no parts at all": (
        {},
        IMAGE,
        r"a part 'image', which is not in model\.parts; the model has none",
    ),
    "a misspelt part": (
        {"parts": WIDTHS},
        replace(IMAGE, name="imgae"),
        r"'imgae', which is not in model\.parts; did you mean 'image'\?",
    ),
    "another width": (
        {"parts": {"image": 7}},
        IMAGE,
        r"'image' has 5 numbers and model\.parts says 7; make them equal",
    ),
    "a larger picture": (
        {"parts": WIDTHS, "part_patches": {"image": 3}},
        IMAGE,
        r"'image' has a patch 3 and model\.part_patches says 3",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_one_sentence(case):
    choices, wrong, sentence = WRONG[case]
    with pytest.raises(ConfigError, match=sentence):
        tiny.model(**choices)(replace(SPLICED, parts=(wrong,)))


def test_half_precision_keeps_the_stream_as_it_is():
    """Under autocast the map is computed in bfloat16 and the stream stays float32; a bfloat16 model
    stays bfloat16."""
    model = Transformer(tiny.config(**MIXED))
    exact = embedded(model, SPLICED)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = embedded(model, SPLICED)
    assert mixed.dtype == torch.float32
    assert_close(mixed, exact, rtol=0.02, atol=0.02)  # 8 bits of sums of five products
    assert embedded(model.to(torch.bfloat16), SPLICED).dtype == torch.bfloat16
