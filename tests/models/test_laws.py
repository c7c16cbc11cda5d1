"""Laws that every model obeys whatever its configuration: causality, padding, packing, cache,
order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.layers.attention.cache import Cache
from glassformer.layers.attention.sequences import GroupedContext
from glassformer.layers.tap import Tape, recording
from tiny import EXACT, POSITIONS

pytestmark = pytest.mark.usefixtures("no_grad")

# Every position kind, with each of the other choices more than once; few enough that each model is
# built once.
variants = st.sampled_from(
    [
        {
            "position": position,
            "n_kv_heads": heads,
            "window": window,
            "norm_placement": placement,
            "qk_norm": qk_norm,
        }
        for position, heads, window, placement, qk_norm in [
            ("learned", 4, None, "pre", False),
            ("rotary", 2, None, "pre", True),
            ("buckets", 1, None, "post", False),
            ("sinusoidal", 2, 3, "post", True),
            ("relative", 4, 3, "pre", False),
            ("alibi", 2, None, "pre", False),
            ("none", 1, None, "post", True),
            ("sinusoidal_printed", 4, 1, "pre", False),
            ("sinusoidal_halves", 2, None, "post", False),
            ("rotary", 1, 3, "post", False),
        ]
    ]
)
SINUSOIDAL = "sinusoidal", "sinusoidal_printed", "sinusoidal_halves"
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)
sides = st.sampled_from(["left", "right"])


def pad(rows: list[torch.Tensor], side: str, filler: int) -> tuple[torch.Tensor, Positions]:
    positions = Positions.pad([len(row) for row in rows], side)
    ids = torch.full((len(rows), positions.length), filler)
    assert positions.valid is not None
    ids[positions.valid] = torch.cat(rows)
    return ids, positions


@given(variants, st.integers(2, 7), st.data())
def test_a_decoder_does_not_see_the_future(variant, length, data):
    model, ids = tiny.model(**variant), tiny.tokens(1, length)
    t = data.draw(st.integers(0, length - 2))
    other = ids.clone()
    other[:, t + 1 :] = (ids[:, t + 1 :] + 1) % tiny.VOCABULARY
    before, after = model(ids).logits, model(other).logits
    assert_close(before[:, : t + 1], after[:, : t + 1], **EXACT)
    assert not torch.allclose(before[:, t + 1], after[:, t + 1])  # and does see the present


@given(variants, lengths, sides, st.integers(0, tiny.VOCABULARY - 1))
def test_padding_on_either_side_changes_nothing(variant, sizes, side, filler):
    for architecture in ("decoder", "encoder"):
        model = tiny.model(architecture=architecture, **variant)
        rows = [tiny.tokens(size, seed=i) for i, size in enumerate(sizes)]
        ids, positions = pad(rows, side, filler)
        logits = model(Batch(ids, positions)).logits
        for i, row in enumerate(rows):
            assert_close(logits[i][positions.valid[i]], model(row[None]).logits[0], **EXACT)


@given(variants, lengths)
def test_packed_documents_are_as_if_alone(variant, sizes):
    for architecture in ("decoder", "encoder"):
        model = tiny.model(architecture=architecture, **variant)
        rows = [tiny.tokens(size, seed=i) for i, size in enumerate(sizes)]
        document = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))[None]
        packed = model(Batch(torch.cat(rows)[None], Positions.pack(document))).logits[0]
        alone = torch.cat([model(row[None]).logits[0] for row in rows])
        assert_close(packed, alone, **EXACT)


@given(variants, lengths, st.data())
def test_joined_documents_are_as_if_alone(variant, sizes, data):
    """Also where only some of their elements are read, in any order."""
    ids = torch.cat([tiny.tokens(size, seed=i) for i, size in enumerate(sizes)])
    at = torch.tensor(data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=9)))
    batch = Batch(ids[None], Positions.join(sizes), lengths=np.array(sizes))
    for architecture in ("decoder", "encoder"):
        model = tiny.model(architecture=architecture, **variant)
        alone = torch.cat([model(row[None]).logits[0] for row in ids.split(sizes)])
        with fired() as runs:
            assert_close(model(batch).logits[0], alone, **EXACT)
            assert_close(model(replace(batch, at=at)).logits, alone[at], **EXACT)
        assert runs == [len([*groupby(sizes)])] * 4, "neighbours of one length are one call"


def test_a_tape_reads_the_patterns_of_a_joined_row():
    model, sizes = tiny.model(architecture="encoder"), (2, 3)
    batch = Batch(tiny.tokens(1, 5), Positions.join(sizes), lengths=np.array(sizes))
    tape = Tape(model, keep=("*.attention.pattern",))
    with recording(tape):
        logits = model(batch).logits
    assert_close(logits, model(batch).logits, **EXACT)
    for pattern in tape.kept.values():
        assert pattern[:, :, :2, 2:].eq(0).all()
        assert pattern[:, :, 2:, :2].eq(0).all()
        assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]), **EXACT)


@contextmanager
def fired() -> Iterator[list[int]]:
    """How many calls of attention each block made that read a joined row."""
    found: list[int] = []
    attend = GroupedContext.attend

    def noted(self: GroupedContext, *rest: Any) -> torch.Tensor:
        found.append(len(self.groups))
        return attend(self, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupedContext, "attend", noted)
        yield found


@given(lengths, st.sampled_from(["sinusoidal", "rotary", "buckets"]))
def test_packed_pairs_are_as_if_alone_in_cross_attention_too(sizes, position):
    model = tiny.model(architecture="encoder_decoder", position=position)
    targets = [tiny.tokens(size, seed=i) for i, size in enumerate(sizes)]
    sources = [tiny.tokens(7 - size, seed=10 + i) for i, size in enumerate(sizes)]
    packed = [
        Batch(
            torch.cat(rows)[None],
            Positions.pack(
                torch.cat([torch.full((len(row),), i) for i, row in enumerate(rows)])[None]
            ),
        )
        for rows in (targets, sources)
    ]
    together = model(replace(packed[0], source=packed[1])).logits[0]
    alone = [
        model(Batch(target[None], source=Batch(source[None]))).logits[0]
        for target, source in zip(targets, sources, strict=True)
    ]
    assert_close(together, torch.cat(alone), **EXACT)


def decode(model, ids, positions, cuts, cache, memory=None):
    """The logits of `ids` fed in pieces that end at `cuts`."""
    logits, begin = [], 0
    for end in [*cuts, ids.shape[1]]:
        if end > begin:
            part = None if positions is None else tiny.piece(positions, begin, end)
            features = model.features(Batch(ids[:, begin:end], part), memory, cache)
            logits.append(model.head(features.hidden, features.positions))
            cache, begin = features.cache, end
    return torch.cat(logits, 1), cache


@given(variants, lengths, sides, st.data())
def test_a_cache_in_any_chunks_equals_no_cache(variant, sizes, side, data):
    model = tiny.model(**variant)
    ids, positions = pad([tiny.tokens(size, seed=i) for i, size in enumerate(sizes)], side, 0)
    cuts = sorted(data.draw(st.sets(st.integers(1, ids.shape[1]))))
    whole = model(Batch(ids, positions)).logits
    parts, cache = decode(model, ids, positions, cuts, Cache())
    assert_close(parts[positions.valid], whole[positions.valid], **EXACT)
    assert cache.positions.length == ids.shape[1]


@given(variants, st.integers(1, 8), st.data())
def test_a_cache_knows_the_positions_that_follow(variant, length, data):
    model, ids = tiny.model(**variant), tiny.tokens(2, length)
    cuts = sorted(data.draw(st.sets(st.integers(1, length))))
    parts, _ = decode(model, ids, None, cuts, Cache())
    assert_close(parts, model(ids).logits, **EXACT)


@given(variants, lengths, sides)
def test_prompts_of_different_lengths_continue_as_if_alone(variant, sizes, side):
    model = tiny.model(**variant)
    prompts = [tiny.tokens(size, seed=i) for i, size in enumerate(sizes)]
    more = tiny.tokens(len(sizes), 3, seed=99)
    ids, positions = pad(prompts, side, 0)
    cache = model.features(Batch(ids, positions), cache=Cache()).cache
    after, _ = decode(model, more, None, [1], cache)
    for i, prompt in enumerate(prompts):
        alone = model(torch.cat([prompt, more[i]])[None]).logits[0, len(prompt) :]
        assert_close(after[i], alone, **EXACT)


@given(st.sampled_from(POSITIONS), st.sampled_from([1, 4]), lengths, st.data())
def test_cross_attention_with_a_cache_equals_no_cache(position, n_kv_heads, sizes, data):
    model = tiny.model(architecture="encoder_decoder", position=position, n_kv_heads=n_kv_heads)
    source = Batch(*pad([tiny.tokens(size, seed=i) for i, size in enumerate(sizes)], "left", 0))
    ids = tiny.tokens(len(sizes), 6, seed=5)
    cuts = sorted(data.draw(st.sets(st.integers(1, 5))))
    memory = model.encode(source)
    parts, _ = decode(model, ids, None, cuts, Cache(), memory)
    assert_close(parts, model(Batch(ids, source=source)).logits, **EXACT)
    for i, size in enumerate(sizes):  # the source's padding is not seen
        alone = Batch(tiny.tokens(1, size, seed=i))
        assert_close(parts[i], model(Batch(ids[i : i + 1], source=alone)).logits[0], **EXACT)


def test_the_encoder_side_is_computed_once():
    model = tiny.model(architecture="encoder_decoder")
    memory = model.encode(Batch(tiny.tokens(1, 4)))
    calls = []
    handles = [
        model.encoder.blocks[0].register_forward_hook(lambda *_: calls.append("encoder")),
        *(
            block.cross.k_proj.register_forward_hook(lambda *_: calls.append("k"))
            for block in model.decoder.blocks
        ),
    ]
    try:
        decode(model, tiny.tokens(1, 4), None, [1, 2, 3], Cache(), memory)
    finally:
        for handle in handles:
            handle.remove()
    assert calls == ["k"] * 2  # once for each block, and no second pass of the encoder


def test_an_empty_cache_can_begin_two_generations_with_different_sources():
    model, start, ids = tiny.model(architecture="encoder_decoder"), Cache(), tiny.tokens(1, 3)
    for seed in (1, 2):
        batch = Batch(ids, source=Batch(tiny.tokens(1, 4, seed=seed)))
        assert_close(model(batch, start).logits, model(batch).logits, **EXACT)


@given(variants, st.permutations(range(5)))
def test_the_order_of_key_slots_does_not_matter(variant, slots):
    model, ids, more = tiny.model(**variant), tiny.tokens(2, 5), tiny.tokens(2, 2, seed=3)
    positions = Positions.pad([5, 3], "left")
    cache = model.features(Batch(ids, positions), cache=Cache()).cache
    expected = model(Batch(more, cache.positions.following(2)), cache).logits
    at = torch.tensor(slots)
    shuffled = Cache(
        Positions(cache.positions.position[:, at], valid=cache.positions.valid[:, at]),
        {layer: (k[:, :, at], v[:, :, at]) for layer, (k, v) in cache.own.items()},
    )
    assert_close(
        model(Batch(more, cache.positions.following(2)), shuffled).logits, expected, **EXACT
    )


@given(variants, st.permutations(range(3)), sides)
def test_the_order_of_rows_does_not_matter(variant, order, side):
    model = tiny.model(**variant)
    ids, positions = pad([tiny.tokens(size, seed=size) for size in (2, 5, 3)], side, 0)
    order = torch.tensor(order)
    expected = model(Batch(ids, positions)).logits[order]
    assert_close(model(Batch(ids[order], positions.select(order))).logits, expected, **EXACT)


@given(st.integers(1, 20), st.sampled_from(["encoder", "decoder"]))
def test_relative_kinds_of_position_depend_on_differences_only(shift, architecture):
    ids = tiny.tokens(2, 6)
    moved = Positions.arange(6, start=shift)
    for position in POSITIONS:
        model = tiny.model(architecture=architecture, position=position)
        same = torch.allclose(
            model(Batch(ids, moved)).logits, model(ids).logits, rtol=1e-9, atol=1e-9
        )
        assert same == (position not in ("learned", *SINUSOIDAL)), position


@given(st.permutations(range(6)), st.sampled_from(["pre", "post"]))
def test_an_encoder_without_positions_permutes_with_its_input(order, placement):
    ids, at = tiny.tokens(1, 6), torch.tensor(order)
    model = tiny.model(architecture="encoder", position="none", norm_placement=placement)
    assert_close(model(ids[:, at]).logits, model(ids).logits[:, at], **EXACT)
    if list(order) != sorted(order) and not torch.equal(ids[:, at], ids):
        model = tiny.model(architecture="encoder", position="sinusoidal", norm_placement=placement)
        assert not torch.allclose(model(ids[:, at]).logits, model(ids).logits[:, at])


@given(variants, st.permutations(range(5)))
def test_the_order_of_slots_does_not_matter_at_all(variant, order):
    """Shuffling elements together with their positions shuffles the answers: nothing reads a slot's
    index."""
    ids, at = tiny.tokens(2, 5), torch.tensor(order)
    for head in ("lm", "classify"):
        for pool in ("first", "last", "mean"):
            model = tiny.model(head=head, pool=pool, n_classes=3, **variant)
            expected = model(ids).logits
            got = model(Batch(ids[:, at], Positions(at[None]))).logits
            assert_close(got, expected[:, at] if head == "lm" else expected, **EXACT)


def test_a_growing_cache_may_branch():
    model = tiny.model(position="rotary")
    prompt, left, right = tiny.tokens(1, 4), tiny.tokens(1, 3, seed=1), tiny.tokens(1, 3, seed=2)
    trunk = model(prompt, Cache()).features.cache
    for tail in (left, right, left):
        expected = model(torch.cat([prompt, tail], 1)).logits[:, 4:]
        assert_close(model(tail, trunk).logits, expected, **EXACT)
    assert trunk.positions.length == 4
    assert trunk.own[0][0].shape[2] == 4


def test_a_window_is_a_window_with_a_cache():
    """One layer with window w: the answer at t is that of the last w tokens alone."""
    model = tiny.model(position="rotary", window=3, n_layers=1)
    ids = tiny.tokens(1, 8)
    logits, _ = decode(model, ids, None, [1, 2, 5], Cache())
    assert_close(logits[:, -1], model(ids[:, -3:]).logits[:, -1], **EXACT)
    assert not torch.allclose(logits[:, -1], model(ids[:, -2:]).logits[:, -1])
