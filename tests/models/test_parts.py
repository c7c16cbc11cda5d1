"""Pictures, sounds and text in one sequence: whole models obey with parts the laws that they obey
without."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import IGNORE, Batch, Part, Positions
from glassformer.layers.attention.cache import Cache
from glassformer.layers.losses import cross_entropy
from tiny import EXACT

pytestmark = pytest.mark.usefixtures("no_grad")

WIDTHS = {"image": 5, "audio": 3}
MIXED = {"parts": WIDTHS, "part_patches": {"image": 4}}
FORMS = {
    "a decoder that writes": {},
    "a decoder with rotary positions": {"position": "rotary"},
    "an encoder with classes": {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 3,
        "pool": "mean",
    },
    "a decoder with classes": {"head": "classify", "n_classes": 3, "pool": "last"},
}
rows_of_parts = st.lists(
    st.lists(st.sampled_from(["text", "image", "audio"]), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


def row(kinds: list[str], seed: int) -> Batch:
    """One sequence: two tokens for a text, three patches for a picture, two for a sound."""
    slots, parts = [], []
    for i, kind in enumerate(kinds):
        begin, n = len(slots), 3 if kind == "image" else 2
        slots += [kind] * n
        if kind != "text":
            values = torch.randn(
                n, WIDTHS[kind], generator=torch.Generator().manual_seed(10 * seed + i)
            ).double()
            parts.append(Part(kind, torch.arange(begin, begin + n), values, torch.arange(n)))
    return Batch(tiny.tokens(1, len(slots), seed=seed), parts=tuple(parts))


def together(rows: list[Batch], side: str = "right") -> Batch:
    """The rows as one batch, padded."""
    positions = Positions.pad([one.elements.shape[1] for one in rows], side)
    ids = torch.full((len(rows), positions.length), 5)
    parts = []
    for i, one in enumerate(rows):
        slots = positions.valid[i].nonzero().squeeze(1)
        ids[i, slots] = one.elements[0]
        parts += [replace(part, at=i * positions.length + slots[part.at]) for part in one.parts]
    return Batch(ids, positions, parts=tuple(parts))


@given(st.sampled_from(sorted(FORMS)), rows_of_parts, st.sampled_from(["left", "right"]))
def test_a_batch_is_its_rows_and_padding_changes_nothing(form, kinds, side):
    model = tiny.model(**MIXED, **FORMS[form])
    rows = [row(parts, seed) for seed, parts in enumerate(kinds)]
    batch = together(rows, side)
    logits = model(batch).logits
    for i, one in enumerate(rows):
        mine = logits[i][batch.positions.valid[i]] if logits.dim() == 3 else logits[i]
        assert_close(mine, model(one).logits[0], **EXACT)


@settings(max_examples=6)  # six forward passes for each row
@given(rows_of_parts)
def test_a_source_may_hold_parts_and_so_may_the_target(kinds):
    model = tiny.model(architecture="encoder_decoder", source_vocab_size=tiny.VOCABULARY, **MIXED)
    sources = [row(parts, seed) for seed, parts in enumerate(kinds)]
    targets = [row(["image", "text"], seed + 50) for seed in range(len(kinds))]
    logits = model(replace(together(targets), source=together(sources))).logits
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = model(replace(target, source=source)).logits[0]
        assert_close(logits[i], alone, **EXACT)
        without = model(replace(target, parts=(), source=source)).logits[0]
        assert not torch.allclose(alone, without)
        if source.parts:
            assert not torch.allclose(
                alone, model(replace(target, source=replace(source, parts=()))).logits[0]
            )


def test_a_picture_in_front_of_a_text_is_seen_by_all_of_it_and_sees_nothing_behind_it():
    model, batch = tiny.model(**MIXED), row(["text", "image", "text"], 0)
    logits = model(batch).logits[0]
    (image,) = batch.parts
    darker = image.values.clone()
    darker[1] += 1.0  # the second patch stands at slot 3
    changed = model(replace(batch, parts=(replace(image, values=darker),))).logits[0]
    assert torch.equal(changed[:3], logits[:3])
    assert all(not torch.allclose(changed[t], logits[t]) for t in range(3, 7))


def test_a_picture_goes_into_the_cache_and_text_follows_it():
    model, batch = tiny.model(**MIXED), row(["image", "text", "audio", "text"], 0)
    whole, length = model(batch).logits, batch.elements.shape[1]
    for cuts in ([3], [1, 4, 6], list(range(1, length))):
        cache, pieces = Cache(), []
        for begin, end in zip([0, *cuts], [*cuts, length], strict=True):
            parts = tuple(part.select(torch.arange(begin, end), length) for part in batch.parts)
            features = model.features(Batch(batch.elements[:, begin:end], parts=parts), cache=cache)
            cache = features.cache
            pieces.append(model.head(features.hidden, features.positions))
        assert_close(torch.cat(pieces, 1), whole, **EXACT)


def test_asking_behind_the_picture_alone_gives_the_loss_of_targets_there():
    model = tiny.model(**MIXED)
    batch = together([row(["image", "text"], 0), row(["text", "audio", "text"], 1)])
    at = torch.tensor([3, 4, 10, 11])
    targets = torch.full(batch.elements.shape, IGNORE)
    targets.view(-1)[at] = torch.tensor([1, 2, 3, 4])
    asked = cross_entropy(model(replace(batch, at=at)).logits, targets.view(-1)[at])
    every = cross_entropy(model(batch).logits, targets)
    assert asked.count == every.count == 4
    assert_close(asked.total, every.total, **EXACT)


PATCHES = {
    "architecture": "encoder", "elements": "patches", "patch_width": 3, "grid": (3, 4),
    "max_length": 12, "head": "classify", "n_classes": 4,
}  # fmt: skip


@settings(max_examples=6)  # twenty-four forward passes for each
@given(st.permutations(range(12)), st.sampled_from(["first", "mean"]))
def test_shuffled_patches_are_the_same_picture_only_without_positions(order, pool):
    picture, at = torch.randn(2, 12, 3, dtype=torch.float64), torch.tensor(order)
    for position in ("none", "sinusoidal_2d", "rotary_2d", "learned"):
        model = tiny.model(position=position, pool=pool, d_head=4, **PATCHES)
        same = torch.allclose(
            model(Batch(picture[:, at])).logits, model(Batch(picture)).logits, rtol=1e-9, atol=1e-9
        )
        assert same == (position == "none" or order == sorted(order))
        if position == "none":
            stream, moved = (model.features(Batch(p)).hidden for p in (picture, picture[:, at]))
            ahead = int(pool == "first")
            assert_close(moved[:, ahead:], stream[:, ahead:][:, at], **EXACT)
        positions = Positions(at[None])
        assert_close(
            model(Batch(picture[:, at], positions)).logits, model(Batch(picture)).logits, **EXACT
        )
