"""Laws of the learning rate: a function of the step, between 0 and 1, up and then never up
again."""

import math
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.recipe.train import Schedule, ScheduleConfig, TrainConfig
from glassformer.training.loop.schedule import rate_at

KINDS = get_args(Schedule)
plans = st.fixed_dictionaries(
    {
        "steps": st.integers(1, 300),
        "warmup_steps": st.integers(0, 320),
        "schedule": st.sampled_from(KINDS),
        "final_fraction": st.floats(0, 1),
        "decay_fraction": st.floats(0.01, 1),
    }
)


def rate(
    step: int,
    *,
    steps: int,
    warmup_steps: int,
    schedule: Schedule,
    final_fraction: float = 0.0,
    decay_fraction: float = 0.5,
) -> float:
    """As `rate_at`, by the fields of a schedule."""
    own = ScheduleConfig(
        kind=schedule,
        warmup_steps=warmup_steps,
        final_fraction=final_fraction,
        decay_fraction=decay_fraction,
    )
    return rate_at(step, TrainConfig(steps=steps, schedule=own))


@given(plans)
def test_it_rises_to_the_peak_and_then_falls_to_the_end_value(plan):
    rates = [rate(step, **plan) for step in range(plan["steps"])]
    warm, final = plan["warmup_steps"], plan["final_fraction"]
    assert all(0 <= r <= 1 for r in rates)
    assert all(a < b for a, b in pairwise(rates[:warm]))
    assert all(a >= b - 1e-12 for a, b in pairwise(rates[warm:]))
    assert plan["schedule"] == "inverse_sqrt" or all(r >= final - 1e-12 for r in rates[warm:])
    if warm < plan["steps"]:
        assert rates[warm] == 1.0
    assert all(r > 0 for r in rates), "a step that changes nothing is wasted"


@given(plans)
def test_the_warm_up_is_a_straight_line_that_would_reach_1_at_its_end(plan):
    for step in range(min(plan["warmup_steps"], plan["steps"])):
        assert rate(step, **plan) == (step + 1) / (plan["warmup_steps"] + 1)


@pytest.mark.parametrize("kind", ["cosine", "linear", "wsd"])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
def test_one_step_more_would_reach_the_end_value(kind, final):
    assert rate(50, steps=50, warmup_steps=5, schedule=kind, final_fraction=final) == pytest.approx(
        final
    )


def test_values_in_the_middle():
    plan = {"steps": 110, "warmup_steps": 10, "final_fraction": 0.2}
    assert rate(60, schedule="cosine", **plan) == pytest.approx(0.6)
    assert rate(35, schedule="cosine", **plan) == pytest.approx(
        0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2
    )
    assert rate(60, schedule="linear", **plan) == pytest.approx(0.6)
    assert rate(109, schedule="constant", **plan) == 1.0


@given(st.integers(0, 60), st.integers(0, 10_000), st.integers(1, 300), st.floats(0, 1))
def test_inverse_sqrt_is_a_function_of_the_step_alone(warmup, step, steps, final):
    """Of Vaswani et al. 2017: min(step^-1/2, step warmup^-3/2), scaled to 1 where its parts meet,
    steps from 1."""
    plan = {"warmup_steps": warmup, "schedule": "inverse_sqrt"}
    n, peak = step + 1, warmup + 1
    expected = min(n**-0.5, n * peak**-1.5) * peak**0.5
    assert rate(step, steps=steps, final_fraction=final, **plan) == pytest.approx(
        expected, rel=1e-12
    )


def test_wsd_is_flat_until_its_last_part():
    plan = {
        "steps": 100,
        "warmup_steps": 10,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "decay_fraction": 0.25,
    }
    rates = [rate(step, **plan) for step in range(100)]
    assert rates[10:76] == [1.0] * 66
    assert rates[75:] == pytest.approx([1 - i / 25 for i in range(25)])


def test_wsd_whose_decay_would_begin_in_the_warm_up_begins_after_it():
    plan = {
        "steps": 20,
        "warmup_steps": 15,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "decay_fraction": 1.0,
    }
    assert rate(15, **plan) == 1.0
    assert rate(19, **plan) == pytest.approx(0.2)
