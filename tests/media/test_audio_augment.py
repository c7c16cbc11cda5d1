"""Sound augmented: what is done to a clip is a function of (seed, step, its number), within what
was asked for."""

import math
import multiprocessing

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.media.audio_augment import SoundAugmentation, SoundAugmentConfig, move

RATE, N, T, FRAMES, MELS = 8_000, 6, 400, 30, 16
EVERYTHING = {
    "time_masks": 2, "time_width": 7, "mel_masks": 1, "mel_width": 5,
    "shift_ms": 10.0, "gain_db": 6.0, "noise": 0.3, "speed": 0.05,
}  # fmt: skip
NUMBERS = np.array([5, 0, 99, 7, 2**40, 3])


def augmentation(seed=0, **fields) -> SoundAugmentation:
    return SoundAugmentation(SoundAugmentConfig.parse(fields), RATE, seed)


def clips(n=N, seed=0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((n, T)) * 0.1).astype(np.float32)


def ones(n=N) -> torch.Tensor:
    return torch.ones(n, FRAMES, MELS)


def both(
    one: SoundAugmentation, numbers: np.ndarray, step: int, sound: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return one.clips(sound, numbers, step), one.spectrograms(
        ones(len(numbers)), numbers, step
    ).numpy()


# What it is a function of


@given(st.permutations(range(N)), st.integers(0, 2**40), st.integers(-(2**70), 2**70))
def test_a_clip_is_changed_the_same_in_every_batch(order, step, seed):
    one, sound = augmentation(seed, **EVERYTHING), clips()
    together = both(one, NUMBERS, step, sound)
    others = both(augmentation(seed, **EVERYTHING), NUMBERS[order], step, sound[order])
    alone = both(one, NUMBERS[2:3], step, sound[2:3])
    for whole, other, single in zip(together, others, alone, strict=True):
        assert np.array_equal(whole[order], other)
        assert np.array_equal(whole[2:3], single)


def test_other_seeds_steps_and_numbers_change_it_otherwise():
    sound = np.repeat(clips(1), N, axis=0)
    base = both(augmentation(**EVERYTHING), NUMBERS, 1, sound)
    for other in (
        both(augmentation(seed=1, **EVERYTHING), NUMBERS, 1, sound),
        both(augmentation(**EVERYTHING), NUMBERS, 2, sound),
        both(augmentation(**EVERYTHING), NUMBERS + 1, 1, sound),
    ):
        for left, right in zip(base, other, strict=True):
            assert (left != right).any(
                (1, 2) if left.ndim == 3 else 1
            ).sum() >= N - 1  # two masks may coincide
    assert len({clip.tobytes() for clip in base[0]}) == N


def test_another_process_does_the_same():
    one = augmentation(seed=3, **EVERYTHING)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        theirs = (
            pool.apply(one.clips, (clips(), NUMBERS, 4)),
            pool.apply(one.spectrograms, (ones(), NUMBERS, 4)),
        )
    for left, right in zip(theirs, both(one, NUMBERS, 4, clips()), strict=True):
        assert np.array_equal(left, right)


def test_a_setting_does_not_move_the_numbers_of_another():
    sound = clips()
    alone = augmentation(gain_db=6.0).clips(sound, NUMBERS, 0)
    gains = np.abs(alone).max(1) / np.abs(sound).max(1)
    with_noise = augmentation(gain_db=6.0, noise=1e-6).clips(sound, NUMBERS, 0)
    np.testing.assert_allclose(np.abs(with_noise).max(1) / np.abs(sound).max(1), gains, rtol=1e-4)


# Nothing asked, nothing done


def test_nothing_is_done_unasked():
    idle = augmentation()
    sound = clips()
    assert idle.clips(sound, NUMBERS, 0) is sound
    spectrograms = ones()
    assert idle.spectrograms(spectrograms, NUMBERS, 0) is spectrograms
    masks = augmentation(time_masks=1, time_width=2)
    assert masks.clips(sound, NUMBERS, 0) is sound
    assert augmentation(noise=0.1).spectrograms(spectrograms, NUMBERS, 0) is spectrograms


def test_what_came_in_stays_as_it_was():
    sound, spectrograms = clips(), ones()
    both(augmentation(**EVERYTHING), NUMBERS, 0, sound)
    augmentation(**EVERYTHING).spectrograms(spectrograms, NUMBERS, 0)
    assert np.array_equal(sound, clips())
    assert torch.equal(spectrograms, ones())


# Masks


def test_masks_are_whole_stretches_no_wider_than_asked():
    n = 400
    one = augmentation(time_masks=1, time_width=7)
    hidden = one.spectrograms(ones(n), np.arange(n), 0) == 0
    assert torch.equal(hidden.all(2), hidden.any(2))  # whole frames
    widths = hidden.any(2).sum(1)
    assert set(widths.tolist()) == set(range(8))
    edges = (
        hidden.any(2)
        .int()
        .diff(dim=1, prepend=torch.zeros(n, 1), append=torch.zeros(n, 1))
        .abs()
        .sum(1)
    )
    assert (edges <= 2).all()  # one stretch each
    assert (
        abs(widths.double().mean() - 3.5) < 0.5
    )  # four standard deviations of a mean of 400 are 0.46
    assert hidden.any(2).any(0).all()  # and everywhere


def test_bands_are_masked_beside_frames():
    n = 300
    one = augmentation(mel_masks=2, mel_width=3, time_masks=2, time_width=4)
    hidden = (one.spectrograms(ones(n), np.arange(n), 0) == 0).numpy()
    frames, bands = hidden.all(2), hidden.all(1)
    assert np.array_equal(hidden, frames[:, :, None] | bands[:, None, :])
    assert frames.sum(1).max() == 8
    assert bands.sum(1).max() == 6
    assert frames.sum(1).min() == bands.sum(1).min() == 0


def test_a_mask_may_be_wider_than_the_spectrogram():
    hidden = (
        augmentation(time_masks=1, time_width=10**6).spectrograms(ones(900), np.arange(900), 0) == 0
    )
    assert set(hidden.any(2).sum(1).tolist()) <= set(range(FRAMES + 1))
    assert hidden.all((1, 2)).any()  # one of 31 is as wide as it is


# Sound


def test_gain_is_within_what_was_asked_on_both_sides():
    n = 500
    sound = clips(n)
    gains = 20 * np.log10(
        np.abs(augmentation(gain_db=6.0).clips(sound, np.arange(n), 0)).max(1)
        / np.abs(sound).max(1)
    )
    assert np.abs(gains).max() <= 6.0001
    assert gains.min() < -5.5
    assert gains.max() > 5.5
    assert abs(gains.mean()) < 4 * 6 / math.sqrt(3 * n)


def test_noise_is_white_and_no_louder_than_asked():
    n = 500
    sound = clips(n)
    added = augmentation(noise=0.5).clips(sound, np.arange(n), 0) - sound
    share = np.sqrt((added**2).mean(1) / (sound**2).mean(1))
    assert share.max() < 0.5 * 1.15  # the spread of a root mean square of 400 numbers is 3.5 %
    assert abs(share.mean() - 0.25) < 0.03
    following = (added[:, 1:] * added[:, :-1]).sum(1) / (added**2).sum(1)
    assert abs(following.mean()) < 4 / math.sqrt(n * T)
    silence = np.zeros((1, T), np.float32)
    assert not augmentation(noise=0.5).clips(silence, np.zeros(1, np.int64), 0).any()


def test_shifts_are_whole_samples_with_silence_behind_them():
    n, most = 300, 80
    sound = clips(1).repeat(n, axis=0)
    changed = augmentation(shift_ms=10.0).clips(sound, np.arange(n), 0)
    found = []
    for clip in changed:
        (shift,) = [s for s in range(-most, most + 1) if np.array_equal(clip, shifted(sound[0], s))]
        found.append(shift)
    assert min(found) < -70
    assert max(found) > 70


def shifted(clip: np.ndarray, shift: int) -> np.ndarray:
    out = np.zeros_like(clip)
    out[max(0, shift) : len(clip) + min(0, shift)] = clip[
        max(0, -shift) : len(clip) - max(0, shift)
    ]
    return out


@pytest.mark.parametrize("speed", [0.95, 1.0, 1.03, 1.3])
def test_faster_is_the_same_sine_at_a_higher_pitch(speed):
    n = 1_000
    times = np.arange(n) - (n - 1) / 2
    for frequency in (0.01, 0.05):  # of the rate
        slow = np.cos(2 * np.pi * frequency * times).astype(np.float32)
        found = move(slow, 0, speed)
        assert found.dtype == np.float32
        # away from the edges; soxr's first sample stands where the clip's first one does, and the
        # shorter or longer sound is centred by a whole number of places
        inside = np.abs(times) < n / 2 / speed - 60
        first = (n - round(n / speed)) // 2
        at = (np.arange(n) - first) * speed - (n - 1) / 2
        fast = np.cos(2 * np.pi * frequency * at)
        assert np.abs(found - fast)[inside].max() < 1e-3
        # within a place of the middle
        assert np.abs(at - times * speed)[inside].max() <= 1


@given(st.integers(-30, 30), st.integers(3, 20))
def test_moved_at_the_same_speed_is_a_shift(shift, n):
    line = np.arange(n, dtype=np.float32)
    assert np.array_equal(move(line, shift, 1.0), shifted(line, max(-n, min(n, shift))))


def test_all_of_it_together_stays_finite_and_small():
    changed = augmentation(**EVERYTHING).clips(clips(), NUMBERS, 0)
    assert changed.dtype == np.float32
    assert changed.shape == (N, T)
    assert np.isfinite(changed).all()
    assert np.abs(changed).max() < 4 * np.abs(clips()).max()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"time_masks": 2}, "time_masks = 2 with time_width = 0 masks nothing"),
        ({"mel_width": 2}, "mel_masks = 0 with mel_width = 2 masks nothing"),
        ({"speed": 0.5}, "augment.audio.speed"),
        ({"noise": -0.1}, "augment.audio.noise"),
        ({"gain": 3}, "did you mean 'gain_db'"),
        ({"time_masks": True}, "yes or no"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(fields, words):
    with pytest.raises(ConfigError) as caught:
        SoundAugmentConfig.parse(fields)
    assert words in str(caught.value)
