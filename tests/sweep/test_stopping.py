"""The median rule."""

import pytest

from glassformer.sweep.stopping import Stopped, falls_behind, stopping


def curve(*scores):
    return [(10 * (place + 1), score) for place, score in enumerate(scores)]


OTHERS = [curve(3, 2, 1), curve(4, 3, 2), curve(5, 4, 3)]


def test_worse_than_the_median_at_the_same_step():
    assert falls_behind(curve(4.1), OTHERS, float)
    assert not falls_behind(curve(4.0), OTHERS, float)
    assert not falls_behind(curve(4.0, 9.0, 2.0), OTHERS, float)
    assert falls_behind(curve(4.0, 9.0, 2.1), OTHERS, float)
    assert not falls_behind(curve(3.0, 9.0), OTHERS, float)  # its best counts
    assert falls_behind([(15, 4.5)], OTHERS, float)  # evaluated at other steps


def test_higher_may_be_better():
    assert falls_behind(curve(3.9), OTHERS, lambda score: -score)
    assert not falls_behind(curve(4.0), OTHERS, lambda score: -score)


def test_at_least_three_others_must_have_come_as_far():
    assert not falls_behind(curve(9), OTHERS[:2], float)
    assert not falls_behind(curve(9, 9, 9, 9), OTHERS, float)
    assert not falls_behind(curve(9, 9), [*OTHERS[:2], curve(1)], float)


def test_a_listener_stops_a_trial_but_not_at_its_last_step():
    listener = stopping([], OTHERS, "loss", float, 30)
    listener({"step": 10, "train_loss": 9.0})
    listener({"step": 10, "validation_loss": 3.9})
    listener({"step": 20, "validation_loss": 9.0, "averaged": [10, 20]})
    with pytest.raises(Stopped):
        listener({"step": 20, "validation_loss": 3.8})
    listener({"step": 30, "validation_loss": 3.8})
    resumed = stopping(curve(1.0), OTHERS, "loss", float, 30)
    resumed({"step": 20, "validation_loss": 3.8})
