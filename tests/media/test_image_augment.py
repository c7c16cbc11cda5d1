"""Augmentation is a function of (seed, step, sample); chances are hit as often as asked."""

import math
import multiprocessing
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from glassformer.core.errors import ConfigError
from glassformer.core.random_stream import RandomStream
from glassformer.media.image_augment import (
    ERASED,
    OPERATIONS,
    WEIGHTS,
    Augmentation,
    AugmentConfig,
    beta_quantile,
)

EVERYTHING = {"crop": 3, "flip": True, "erase": 0.5, "colour": 0.4, "policy": 2, "magnitude": 1.0}
STRETCHED = {**EVERYTHING, "crop": 0, "scale": (0.2, 1.0)}


def pictures(n=6, height=9, width=12, channels=3, seed=0) -> np.ndarray:
    """Smooth colours with noise on them: neither flat nor without any structure."""
    random = np.random.default_rng(seed)
    slopes = random.uniform(-20, 20, (2, n, 1, 1, channels))
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    return (
        (128 + slopes[0] * y + slopes[1] * x + random.normal(0, 20, (n, height, width, channels)))
        .clip(0, 255)
        .astype(np.uint8)
    )


shapes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]))
seeds = st.integers(-(2**70), 2**70)
steps = st.integers(0, 2**62)
strengths = st.floats(-1, 1)


def augmentation(seed=0, **fields) -> Augmentation:
    return Augmentation(AugmentConfig.parse(fields), seed)


def within(count: int, n: int, p: float) -> bool:
    """Within 5 standard errors of a binomial count: of a correct program, one test in 1.7 million
    would fail."""
    return abs(count - n * p) < 5 * math.sqrt(n * p * (1 - p))


# operations


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_keeps_shape_and_channels_and_grows_with_its_strength(name, channels):
    before = pictures(1, 30, 40, channels)[0] // 3 * 2
    image = Image.fromarray(before if channels == 3 else before[..., 0])
    changes = []
    for strength in (0.0, 0.3, 1.0):
        after = OPERATIONS[name](image, strength)
        assert (after.size, after.mode) == (image.size, image.mode)
        changes.append(np.abs(np.asarray(after).astype(int) - np.asarray(image)).mean())
    if name in ("invert", "equalize", "autocontrast"):
        assert changes[0] == changes[2] > 0
    else:
        assert changes[0] == 0
        assert changes[1] <= changes[2]


@pytest.mark.parametrize(("name", "sides"), [("translate_x", (0, 3)), ("translate_y", (3, 0))])
def test_a_translation_shows_what_lies_right_or_below(name, sides):
    before, (down, right) = pictures(1, 10, 10)[0], sides
    after = np.asarray(OPERATIONS[name](Image.fromarray(before), 1.0))  # 0.3 of 10 pixels
    assert (after[: 10 - down, : 10 - right] == before[down:, right:]).all()
    assert (after[10 - down :] == 128).all()
    assert (after[:, 10 - right :] == 128).all()


@pytest.mark.parametrize("name", ["shear_x", "shear_y"])
def test_a_shear_leaves_the_centre(name):
    before = pictures(1, 11, 11)[0]
    after = np.asarray(OPERATIONS[name](Image.fromarray(before), 1.0))
    assert (after[5, 5] == before[5, 5]).all()
    assert (after[0] == 128).any() or (after[:, 0] == 128).any()


@given(shapes, st.integers(0, 20), steps)
def test_a_crop_is_a_piece_of_the_picture_padded_by_reflection(shape, crop, step):
    before = pictures(2, *shape, seed=crop)
    moved = augmentation(crop=crop, flip=False)(before, np.arange(2), step)
    draws = RandomStream(0, step, np.arange(2)).uniform("crop", 2)
    for i in range(2):
        padded = np.pad(before[i], ((crop, crop), (crop, crop), (0, 0)), mode="reflect")
        top, left = np.floor(draws[:, i] * (2 * crop + 1)).astype(int)
        assert (moved[i] == padded[top : top + shape[0], left : left + shape[1]]).all()


# chances


@given(seeds, steps, st.lists(st.integers(0, 2**62), min_size=1, max_size=6))
def test_chances_are_a_function_of_seed_step_and_sample(seed, step, samples):
    drawn = RandomStream(seed, step, np.array(samples)).uniform("crop", 3)
    assert ((drawn >= 0) & (drawn < 1)).all()
    for i, sample in enumerate(samples):
        alone = np.array([sample])
        assert (RandomStream(seed, step, alone).uniform("crop", 3)[:, 0] == drawn[:, i]).all()
        for other in (
            RandomStream(seed + 1, step, alone),
            RandomStream(seed, step + 1, alone),
            RandomStream(seed, step, alone + 1),
        ):
            assert not (other.uniform("crop", 3)[:, 0] == drawn[:, i]).any()
    assert not (RandomStream(seed, step, np.array(samples)).uniform("flip", 3) == drawn).any()


def test_chances_are_splitmix64():
    """Written out with Python's integers: a mixed start for each sample and purpose, then the
    sequence itself."""

    def mixed(value):
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    odd, chances = 0x9E3779B97F4A7C15, RandomStream(7, 5, np.array([40, 41]))
    key = mixed((mixed((7 + odd) % 2**64) + 5 * 0xBF58476D1CE4E5B9 + odd) % 2**64)
    start = mixed(mixed((41 * odd + key) % 2**64) ^ zlib.crc32(b"flip"))
    numbers = [mixed((start + i * odd) % 2**64) for i in (1, 2, 3)]
    assert chances.uniform("flip", 3)[:, 1].tolist() == [(n >> 11) / 2**53 for n in numbers]
    noise = chances.noise("flip", np.array([1]), 20)
    assert noise.tobytes() == b"".join(n.to_bytes(8, "little") for n in numbers)[:20]


def test_chances_are_even_in_every_direction():
    """Over samples, steps, seeds and draws: means, and products of neighbours, within 5 standard
    errors."""
    n = 1 << 14
    alone, many = np.array([3]), np.arange(n)
    rows = {
        "samples": RandomStream(1, 2, many).uniform("x", 1)[0],
        "draws": RandomStream(1, 2, alone).uniform("x", n)[:, 0],
        "steps": np.concatenate(
            [RandomStream(1, step, alone).uniform("x", 1)[0] for step in range(n // 16)]
        ),
        "seeds": np.concatenate(
            [RandomStream(seed, 2, alone).uniform("x", 1)[0] for seed in range(n // 16)]
        ),
    }
    for name, row in rows.items():
        assert abs(row.mean() - 0.5) < 5 * math.sqrt(1 / 12 / len(row)), name
        neighbours = (row[:-1] - 0.5) * (row[1:] - 0.5)
        assert abs(neighbours.mean()) < 5 / 12 / math.sqrt(len(row) - 1), name
        assert (np.bincount((row * 16).astype(int), minlength=16) > len(row) / 16 * 0.6).all(), name


# the whole


@pytest.mark.parametrize("fields", [EVERYTHING, STRETCHED])
@given(shape=shapes, seed=seeds, step=steps, data=st.data())
def test_a_sample_does_not_depend_on_the_batch(fields, shape, seed, step, data):
    augment, before = augmentation(seed, **fields), pictures(7, *shape, seed=step % 100)
    samples, kept = np.arange(7) * 3 + step % 11, before.copy()
    together = augment(before, samples, step)
    assert together.dtype == np.uint8
    assert together.shape == before.shape
    assert (before == kept).all(), "what is given is left alone"
    order = np.array(data.draw(st.permutations(range(7)))[: data.draw(st.integers(1, 7))])
    assert (augment(before[order], samples[order], step) == together[order]).all()


@pytest.mark.parametrize(
    "one", [*({name: value} for name, value in STRETCHED.items() if name != "magnitude" and value)]
)
def test_other_steps_samples_and_seeds_give_others(one):
    samples, before = np.arange(32), np.repeat(pictures(1), 32, axis=0)
    first = augmentation(0, **one)(before, samples, 5)
    assert len(np.unique(first, axis=0)) > 1, "other samples"
    assert (augmentation(0, **one)(before, samples, 6) != first).any(), "another step"
    assert (augmentation(1, **one)(before, samples, 5) != first).any(), "another seed"
    assert (augmentation(0, **one)(before, samples, 5) == first).all()


def test_nothing_asked_for_changes_nothing():
    before = pictures()
    assert not AugmentConfig().changes
    assert not AugmentConfig().mixes
    assert (augmentation()(before, np.arange(6), 3) == before).all()


def test_read_only_pixels_will_do():
    before = pictures()
    before.flags.writeable = False
    for fields in (EVERYTHING, STRETCHED):
        augmentation(**fields)(before, np.arange(6), 3)
    augmentation(mixup=1, cutmix=1).mix(before, np.arange(6), 6, np.arange(6), 0)


@given(shapes, st.integers(0, 255), steps)
def test_windows_of_a_constant_picture_are_constant(shape, value, step):
    flat = np.full((5, *shape), value, np.uint8)
    for fields in ({"crop": 4, "flip": True}, {"scale": [0.1, 1], "flip": True}):
        assert (augmentation(**fields)(flat, np.arange(5), step) == value).all()


def test_a_crop_is_every_window_equally_often():
    n, before = 9000, np.arange(7 * 7, dtype=np.uint8).reshape(1, 7, 7, 1)
    after = augmentation(crop=1)(np.repeat(before, n, axis=0), np.arange(n), 0)
    shown, counts = np.unique(after[:, 3, 3, 0], return_counts=True)
    assert shown.tolist() == sorted(7 * y + x for y in (2, 3, 4) for x in (2, 3, 4))
    assert all(within(count, n, 1 / 9) for count in counts)


def test_half_are_mirrored():
    n, before = 50_000, np.arange(6, dtype=np.uint8).reshape(1, 1, 6, 1)
    after = augmentation(flip=True)(np.repeat(before, n, axis=0), np.arange(n), 0)
    mirrored = (after[:, 0, 0, 0] == 5).sum()
    assert mirrored + (after[:, 0, 0, 0] == 0).sum() == n
    assert within(mirrored, n, 0.5)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_erased_as_often_and_as_much_as_asked(share):
    n, side = 8000, 32
    after = augmentation(erase=share)(np.full((n, side, side, 1), 77, np.uint8), np.arange(n), 0)[
        ..., 0
    ]
    touched = after != 77
    erased = touched.any(axis=(1, 2))
    assert within(erased.sum(), n, share)
    ys, xs = (touched[erased].any(axis=axis) for axis in (2, 1))
    tall, wide = (np.array([np.ptp(np.flatnonzero(row)) + 1 for row in rows]) for rows in (ys, xs))
    areas = tall * wide / side**2
    # each edge is rounded by at most half a pixel
    assert ((tall - 1) * (wide - 1) <= ERASED[1] * side**2).all()
    assert ((tall + 1) * (wide + 1) >= ERASED[0] * side**2).all()
    assert (
        abs(areas.mean() - sum(ERASED) / 2)
        < 5 * (ERASED[1] - ERASED[0]) / math.sqrt(12 * erased.sum()) + 0.002
    )
    noise = after[touched]
    assert (
        abs(noise.mean() - 127.5) < 5 * 74 / math.sqrt(len(noise)) + 0.5
    )  # 77 is not seen among them


def test_erasing_leaves_the_rest():
    before = pictures(64, 16, 16)
    after = augmentation(erase=1)(before, np.arange(64), 0)
    changed = (after != before).any(axis=-1)
    for picture in changed:
        ys, xs = np.flatnonzero(picture.any(axis=1)), np.flatnonzero(picture.any(axis=0))
        assert (
            picture[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1].mean() > 0.9
        )  # of noise in three channels all but 1/256^3
        assert picture.mean() <= 0.5


@given(st.floats(0.05, 1), st.floats(0, 1), steps)
def test_the_area_of_a_window_is_the_one_asked_for(low, more, step):
    """A picture of two slopes tells the map, so the size of the window can be read off."""
    high = low + (1 - low) * more
    y, x = np.mgrid[:64, :64]
    before = np.stack((x * 4, y * 4, 0 * x), axis=-1).astype(np.uint8)
    after = augmentation(scale=[low, high])(
        np.repeat(before[None], 4, axis=0), np.arange(4), step
    ).astype(float)
    wide = (after[:, 32, 48, 0] - after[:, 32, 16, 0]) / 128
    tall = (after[:, 48, 32, 1] - after[:, 16, 32, 1]) / 128
    assert (
        wide * tall > low - 0.02
    ).all()  # both differences of bytes that were rounded: within 1/128 of the side
    assert (wide * tall < high + 0.02).all()
    ratio, slack = wide / tall, 1 + 2 / (128 * np.minimum(wide, tall))
    assert ((ratio > 3 / 4 / slack) & (ratio < 4 / 3 * slack)).all()


def test_a_policy_moves_what_the_window_shows(monkeypatch):
    monkeypatch.setattr(
        "glassformer.media.image_augment.WEIGHTS",
        tuple(float(name == "translate_x") for name in OPERATIONS),
    )
    samples, fields = np.arange(64), {"scale": [0.3, 0.3]}
    before = np.broadcast_to((np.arange(64) * 4).astype(np.uint8)[:, None], (64, 64, 64, 1))
    window = augmentation(**fields)(before, samples, 3)[:, 32, :, 0].astype(float)
    both = augmentation(**fields, policy=1, magnitude=1.0)(before, samples, 3)[:, 32, :, 0].astype(
        float
    )
    shift = 0.3 * 64 * (2 * RandomStream(0, 3, samples).uniform("strength", 1)[0] - 1)
    slope = (window[:, 48] - window[:, 16]) / 32
    assert (slope < 3).all()  # of 4 before: the window is stretched
    # both were rounded, and so were the two of the slope: 1/32 of a shift of at most 20
    assert np.abs(both[:, 32] - window[:, 32] - slope * shift).max() < 2


def test_operations_are_drawn_by_their_weights_and_strengths_evenly(monkeypatch):
    n, counts, drawn = 6000, dict.fromkeys(OPERATIONS, 0), []

    def watch(name):
        def call(image, strength):
            counts[name] += 1
            drawn.append(strength)
            return image

        return call

    for name in OPERATIONS:
        monkeypatch.setitem(OPERATIONS, name, watch(name))
    augmentation(policy=2, magnitude=0.6)(pictures(n, 3, 3, seed=1), np.arange(n), 0)
    assert counts["invert"] < counts["solarize"] / 2
    for name, weight in zip(OPERATIONS, WEIGHTS, strict=True):
        assert within(counts[name], 2 * n, weight / sum(WEIGHTS)), name
    strength = np.array(drawn)
    assert abs(strength).max() <= 0.6
    assert within((strength > 0).sum(), len(strength), 0.5)
    assert within((abs(strength) < 0.15).sum(), len(strength), 0.25)


def test_colours_move_as_far_as_asked():
    grey, n = np.full((1, 4, 4, 3), 100, np.uint8), 2000
    after = augmentation(colour=0.4)(np.repeat(grey, n, axis=0), np.arange(n), 0)
    levels = after[:, 0, 0, 0] / 100  # of a flat grey picture only the brightness can be seen
    assert (after == after[:, :1, :1, :1]).all()
    assert levels.min() >= 0.595
    assert levels.max() <= 1.405
    assert within((levels < 0.8).sum(), n, 0.25 - 0.005 / 0.8)  # up to rounding
    assert within((levels > 1.2).sum(), n, 0.25 - 0.005 / 0.8)


# mixtures

MIXTURES = [{"mixup": 0.3}, {"cutmix": 1.0}, {"mixup": 1.0, "cutmix": 0.5, "mix_probability": 0.7}]
mixtures = pytest.mark.parametrize("fields", MIXTURES)


def coded(n: int, side: int = 8) -> np.ndarray:
    """Each picture is flat, of a value that tells its class, which is its number."""
    return np.repeat(np.arange(n, dtype=np.float32), side * side * 3).reshape(n, side, side, 3)


@mixtures
@given(n=st.integers(1, 9), seed=seeds, step=steps)
def test_targets_sum_to_one_and_say_what_is_seen(fields, n, seed, step):
    pixels, classes = coded(n), np.arange(n)
    mixed, targets = augmentation(seed, **fields).mix(pixels, classes, n + 1, classes, step)
    assert mixed.dtype == targets.dtype == np.float32
    assert targets.shape == (n, n + 1)
    np.testing.assert_allclose(targets.sum(axis=1), 1, atol=1e-6)  # one float32 rounding
    assert (targets >= 0).all()
    assert ((targets > 0).sum(axis=1) <= 2).all()
    # flat pictures of their class's number: the mean of pixels is that of classes (float32 up to 9)
    np.testing.assert_allclose(mixed.mean(axis=(1, 2, 3)), targets @ np.arange(n + 1), atol=1e-5)
    own = targets[classes, classes]
    if "mixup" not in fields:
        np.testing.assert_allclose(
            own, (mixed[..., 0] == pixels[..., 0]).mean(axis=(1, 2)), atol=1e-6
        )
    if "cutmix" not in fields:
        assert (mixed == mixed[:, :1, :1, :1]).all(), "blended evenly"


@mixtures
@given(seed=seeds, step=steps, order=st.permutations(range(8)))
def test_mixtures_do_not_depend_on_the_order_of_the_batch(fields, seed, step, order):
    pixels, classes, samples, order = (
        pictures(8),
        np.arange(8) % 3,
        np.arange(8) * 7,
        np.array(order),
    )
    augment = augmentation(seed, **fields)
    mixed, targets = augment.mix(pixels, classes, 3, samples, step)
    assert mixed.dtype == np.uint8
    again, others = augment.mix(pixels[order], classes[order], 3, samples[order], step)
    assert (again == mixed[order]).all()
    assert (others == targets[order]).all()


@given(st.integers(2, 40), seeds, steps)
def test_everyone_has_another_partner_and_is_the_partner_of_one(n, seed, step):
    numbers = np.arange(n)
    _, targets = augmentation(seed, mixup=100.0).mix(coded(n, 1), numbers, n, numbers, step)
    targets[numbers, numbers] = 0
    assert ((targets > 0).sum(axis=1) == 1).all(), "one other class: that of the partner"
    assert sorted(targets.argmax(axis=1)) == numbers.tolist()


def test_mixed_as_often_as_asked_and_half_by_each():
    n = 4000
    numbers = np.arange(n)
    fields = {"mixup": 1.0, "cutmix": 1.0, "mix_probability": 0.6}
    pixels = np.random.default_rng(0).random((n, 16, 16, 1), np.float32)
    mixed, _ = augmentation(3, **fields).mix(pixels, numbers % 2, 2, numbers, 0)
    same = (mixed == pixels).mean(axis=(1, 2, 3))
    blended, cut = (same == 0).sum(), ((same > 0) & (same < 1)).sum()
    # of those that are cut, a rectangle of less than a pixel changes nothing, and one of all leaves
    # nothing of its own: of areas that are evenly spread, about 1 in 500 each
    assert within(blended, n, 0.3 * (1 + 1 / 30))
    assert within(cut, n, 0.3 * (1 - 2 / 30))
    assert within((same == 1).sum(), n, 0.4 + 0.01)


def test_cutmix_shares_are_beta():
    n = 1500
    numbers = np.arange(n)
    _, targets = augmentation(cutmix=0.5).mix(
        np.zeros((n, 32, 32, 1), np.uint8), numbers, n, numbers, 0
    )
    own = targets[numbers, numbers]
    # Beta(1/2, 1/2) is the arcsine law: P(x < 1/4) = 1/3; rounding to one of 1024 areas moves few
    # over the line
    assert abs((own < 0.25).mean() - 1 / 3) < 5 * math.sqrt(2 / 9 / n) + 0.01
    assert abs((own > 0.75).mean() - 1 / 3) < 5 * math.sqrt(2 / 9 / n) + 0.01


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.3, 0.8, 1.0, 2.0, 100.0])
def test_the_quantile_of_beta_is_scipys(alpha):
    beta = pytest.importorskip("scipy.stats").beta
    level = np.linspace(0.001, 0.499, 333)  # close to 1, small alphas are beyond float64
    ours = beta_quantile(level, alpha)
    # a table of 4097 entries, read linearly
    np.testing.assert_allclose(beta.cdf(ours, alpha, alpha), level, atol=2e-5)
    np.testing.assert_allclose(ours, beta.ppf(level, alpha, alpha), atol=1e-4)
    np.testing.assert_allclose(beta_quantile(1 - level, alpha), 1 - ours, atol=1e-12)
    assert beta_quantile(np.array([0.0]), alpha)[0] < 1e-3


# processes


def test_processes_that_know_nothing_of_each_other_make_the_same():
    augment, before = augmentation(9, **EVERYTHING, mixup=1.0), pictures(16)
    pieces = [np.array(piece) for piece in ([0, 1, 2, 3], [9, 5, 7])]
    batches = [(before[piece], piece, 4) for piece in pieces]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.starmap(augment, batches)
        mixed, targets = pool.apply(augment.mix, (before, np.arange(16), 16, np.arange(16), 4))
    whole = augment(before, np.arange(16), 4)
    for piece, alone in zip(pieces, made, strict=True):
        assert (alone == whole[piece]).all()
    for here, there in zip(
        augment.mix(before, np.arange(16), 16, np.arange(16), 4), (mixed, targets), strict=True
    ):
        assert (here == there).all()


# configuration


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"crop": -1}, "augment.image.crop"),
        ({"flip": 1.5}, "augment.image.flip"),
        ({"erase": 1.5}, "augment.image.erase"),
        ({"magnitude": 0.0, "policy": 1}, "augment.image.magnitude"),
        ({"scale": [0.5]}, "augment.image.scale"),
        ({"scale": [0.5, 0.2]}, "smaller first"),
        ({"scale": [0.0, 1.0]}, r"scale=\[0.0, 1.0\]"),
        ({"scale": [0.5, 1.0], "crop": 4}, "set one of them"),
        ({"magnitude": 0.3}, "set policy"),
        ({"mix_probability": 0.3}, "set one of them"),
        ({"color": 0.3}, "'colour'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(fields, says):
    with pytest.raises(ConfigError, match=says):
        AugmentConfig.parse(fields)


def test_what_is_changed():
    for name, field in AugmentConfig.model_fields.items():
        assert field.description, name
    for fields in (
        {"crop": 1},
        {"scale": [0.5, 1]},
        {"flip": True},
        {"erase": 0.1},
        {"colour": 0.1},
        {"policy": 1},
    ):
        config = AugmentConfig.parse(fields)
        assert (config.changes, config.mixes) == (True, False)
    for fields in ({"mixup": 0.1}, {"cutmix": 0.1}):
        config = AugmentConfig.parse(fields)
        assert (config.changes, config.mixes) == (False, True)
