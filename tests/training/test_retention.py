"""Which checkpoints are kept: laws over any run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.recipe.train import SaveConfig
from glassformer.training.folder.checkpoints import thin, to_keep

EVERY, SAVES = st.integers(1, 700), st.integers(1, 600)


def test_the_last_the_best_and_the_multiples():
    save = SaveConfig(every=5, keep_last=2, keep_every=20)
    assert to_keep(range(5, 101, 5), save, best=45) == {20, 40, 45, 60, 80, 95, 100}
    assert to_keep([], save) == set()
    assert to_keep([5], save, best=3) == {5}, "nothing is made up"


@given(EVERY, SAVES, st.integers(1, 4), st.none() | st.integers(1, 5), st.booleans())
def test_one_after_the_other_is_all_at_once(every, saves, last, times, thin):
    """What was let go is never missed later."""
    save = SaveConfig(
        every=every,
        keep_last=last,
        keep_every=times and times * every,
        keep_thinned=thin,
    )
    steps = range(every, saves * every + 1, every)
    left: set[int] = set()
    for step in steps:
        left = to_keep({*left, step}, save)
    assert left == to_keep(steps, save)
    assert {*steps[-last:]} <= left


@given(EVERY, SAVES)
def test_few_are_left_and_one_of_each_age(every, saves):
    newest = every * saves
    left = thin(range(every, newest + 1, every), every)
    assert len(left) <= 2 + math.log2(saves)
    for age in range(every, newest // 3 + 1, every):
        assert any(age <= newest - step < 3 * age for step in left)


def test_steps_between_saves_are_not_kept_for_their_age():
    assert thin({7, 10, 13}, 10) == {10}


def test_multiples_that_are_never_saved_are_refused():
    with pytest.raises(ConfigError, match="keep_every=12 is no multiple of every=5"):
        SaveConfig.parse({"every": 5, "keep_every": 12})
