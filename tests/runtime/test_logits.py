"""The transforms of logits as laws, and against the processors of another library on random
numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.selectors.constraints import Rows, repetition_penalty
from glassformer.runtime.selectors.sampling import (
    choose,
    likeliest,
    min_p,
    next_tokens,
    temperature,
    top_k,
    top_p,
    uniform,
)

EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8)  # exact in binary, and ties are common


def rows(smallest: int = 1):
    return st.lists(EIGHTHS, min_size=smallest, max_size=12).map(lambda row: torch.tensor([row]))


def kept(logits: torch.Tensor) -> set[int]:
    return set(torch.isfinite(logits[0]).nonzero()[:, 0].tolist())


def penalized(logits: torch.Tensor, seen: list[list[int]], penalty: float) -> torch.Tensor:
    config = GenerateConfig.parse({"repetition_penalty": penalty})
    return repetition_penalty(logits, Rows(seen, [0] * len(seen)), config)


def ranked(logits: torch.Tensor) -> list[int]:
    """Token ids, the likeliest first; of equals, the lower id first."""
    return sorted(range(logits.shape[1]), key=lambda i: (-logits[0, i].item(), i))


@given(rows(), st.integers(1, 15))
def test_top_k_keeps_exactly_the_k_first_of_the_ranking(logits, k):
    out = top_k(logits, k)
    assert kept(out) == set(ranked(logits)[:k])
    assert all(out[0, i] == logits[0, i] for i in kept(out))


@given(
    st.lists(st.sampled_from([-math.inf, *range(6)]).map(float), min_size=1, max_size=70),
    st.integers(1, 6),
)
@settings(max_examples=300)
def test_the_likeliest_are_the_first_of_the_ranking_whatever_the_blocks(row, k):
    logits = torch.tensor([row, row[::-1]])
    assert likeliest(logits, k).tolist() == [ranked(logits[:1])[:k], ranked(logits[1:])[:k]]
    assert logits.tolist() == [row, row[::-1]]


@given(rows(), st.floats(0.01, 1.0))
def test_top_p_keeps_the_smallest_beginning_of_the_ranking_that_reaches_p(logits, p):
    out = top_p(logits, p)
    order, mass = ranked(logits), logits[0].double().softmax(0)
    n = len(kept(out))
    assert kept(out) == set(order[:n])
    sums = [float(mass[order[:i]].sum()) for i in range(n + 1)]
    # sums of at most 12 float64 numbers, in another order
    assert n >= 1
    assert sums[n] >= p - 1e-12
    assert n == 1 or sums[n - 1] < p + 1e-12


@given(rows(), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_larger_p_never_keeps_less_in_top_p_and_never_more_in_min_p(logits, p, q):
    low, high = sorted((p, q))
    assert kept(top_p(logits, low)) <= kept(top_p(logits, high))
    assert kept(min_p(logits, low)) >= kept(min_p(logits, high))


@given(rows(), st.floats(0.01, 1.0))
def test_min_p_keeps_what_is_at_least_p_times_as_likely_as_the_likeliest(logits, p):
    ratio = (logits[0] - logits.max()).exp()  # float32, as in the transform: the border is exact
    assert kept(min_p(logits, p)) == {i for i in range(logits.shape[1]) if ratio[i] >= p}


def test_top_p_of_one_and_top_k_of_all_change_nothing():
    logits = torch.randn(4, 50)
    assert torch.equal(top_p(logits, 1.0), logits)
    assert torch.equal(top_k(logits, 50), logits)


@pytest.mark.parametrize("seed", range(5))
def test_every_transform_equals_the_processor_of_transformers(seed):
    from transformers import (
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, 40, generator=generator)
    seen = torch.randint(0, 40, (6, 9), generator=generator)
    same = lambda ours, theirs: torch.testing.assert_close(
        ours.softmax(-1), theirs.softmax(-1), rtol=1e-5, atol=1e-7
    )
    same(
        penalized(logits, seen.tolist(), 1.3),
        RepetitionPenaltyLogitsProcessor(1.3)(seen, logits),
    )
    same(temperature(logits, 0.7), TemperatureLogitsWarper(0.7)(seen, logits))
    same(top_k(logits, 7), TopKLogitsWarper(7)(seen, logits))
    same(top_p(logits, 0.8), TopPLogitsWarper(0.8)(seen, logits))
    same(min_p(logits, 0.1), MinPLogitsWarper(0.1)(seen, logits))


def test_a_repetition_penalty_counts_a_token_once_and_leaves_its_input_alone():
    logits = torch.tensor([[2.0, -2.0, 1.0]])
    assert penalized(logits, [[0, 1, 0, 0]], 2.0).tolist() == [[1.0, -4.0, 1.0]]
    assert logits.tolist() == [[2.0, -2.0, 1.0]]
    assert penalized(logits, [[]], 2.0).tolist() == logits.tolist()


@pytest.mark.parametrize("tau", [1e-3, 1e-30, 5e-324])
def test_a_small_temperature_is_the_likeliest_token_whatever_the_random_number(tau):
    logits = 40 * torch.randn(8, 30)
    for u in (0.0, 0.5, 1 - 2**-53):
        assert torch.equal(
            choose(temperature(logits, tau), torch.full((8,), u, dtype=torch.float64)),
            logits.argmax(-1),
        )


def test_a_large_temperature_is_uniform():
    torch.testing.assert_close(
        temperature(torch.randn(2, 10), 1e9).softmax(-1), torch.full((2, 10), 0.1)
    )


def test_the_order_is_penalty_temperature_top_k_top_p_min_p():
    """Each pair of neighbours is told apart by a case in which the other order keeps another
    set."""
    config = lambda **how: GenerateConfig.parse(how)
    possible = lambda logits, seen, **how: {
        int(next_tokens(logits, Rows(seen, [0]), config(seed=seed, **how))) for seed in range(150)
    }
    # penalty before top-k: token 0 leads, and after its penalty it does not
    assert possible(torch.tensor([[2.0, 1.5, 0.0]]), [[0]], repetition_penalty=4.0, top_k=1) == {1}
    # temperature before top-p: at τ = 1 token 0 has 0.67 of the mass, at τ = 10 all three are
    # needed
    assert possible(torch.tensor([[2.0, 1.0, 0.0]]), [[]], temperature=10.0, top_p=0.66) == {0, 1}
    # top-k before top-p: of two equal tokens left, the first reaches 0.5; of four it would take two
    assert possible(torch.zeros(1, 4), [[]], top_k=2, top_p=0.5) == {0}
    # temperature before min-p: ratios 1, 0.37 become 1, 0.9
    assert possible(torch.tensor([[1.0, 0.0]]), [[]], temperature=10.0, min_p=0.5) == {0, 1}


def test_greedy_takes_the_first_of_equals_and_still_minds_the_penalty():
    greedy = GenerateConfig.parse({"temperature": 0})
    assert next_tokens(torch.tensor([[1.0, 3.0, 3.0]]), Rows([[]], [0]), greedy).tolist() == [1]
    minding = GenerateConfig.parse({"temperature": 0, "repetition_penalty": 2.0})
    assert next_tokens(torch.tensor([[1.0, 3.0, 2.9]]), Rows([[1]], [0]), minding).tolist() == [2]


def test_choices_are_distributed_as_softmax_chi_square():
    """Pearson's χ² over 20,000 draws; 9 degrees of freedom, 27.9 is exceeded with probability
    0.001."""
    logits = torch.linspace(-2, 2, 10)[None]
    n = 20_000
    u = torch.tensor([uniform(1, step) for step in range(n)], dtype=torch.float64)
    drawn = torch.bincount(choose(logits.expand(n, -1), u), minlength=10).double()
    expected = n * logits[0].double().softmax(0)
    assert float(((drawn - expected) ** 2 / expected).sum()) < 27.9


def test_choices_after_all_transforms_are_distributed_as_what_is_left():
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0, -6.0]])
    how = {"temperature": 1.5, "top_k": 5, "top_p": 0.95, "min_p": 0.15}
    left = min_p(top_p(top_k(temperature(logits, 1.5), 5), 0.95), 0.15)[0].double().softmax(0)
    n, config = 1_000, GenerateConfig.parse({**how, "seed": 5})
    drawn = torch.zeros(6, dtype=torch.float64)
    for step in range(n):
        drawn[int(next_tokens(logits, Rows([[]], [step]), config))] += 1
    alive = left > 0
    assert drawn[~alive].sum() == 0
    chi = ((drawn - n * left)[alive] ** 2 / (n * left)[alive]).sum()
    assert float(chi) < 18.5  # 4 degrees of freedom, probability 0.001


@given(st.integers(0, 2**40), st.integers(0, 2**20))
def test_a_random_number_depends_on_seed_and_step_alone_and_stays_below_one(seed, step):
    first = uniform(seed, step)
    torch.manual_seed(seed % 97)
    assert 0.0 <= first < 1.0
    assert uniform(seed, step) == first


def test_random_numbers_are_spread_evenly_and_do_not_repeat():
    numbers = np.array([uniform(seed, step) for seed in range(40) for step in range(250)])
    assert len(set(numbers)) == len(numbers)
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 43.8  # 19 degrees of freedom, probability 0.001


def test_a_digest_of_all_ones_gives_less_than_one(monkeypatch):
    monkeypatch.setattr("glassformer.runtime.selectors.sampling.seed_from", lambda text: 2**64 - 1)
    assert uniform(0, 0) == 1 - 2**-53


@pytest.mark.parametrize("u", [0.0, 0.25, 1 - 2**-53])
def test_a_token_that_was_ruled_out_is_never_chosen(u):
    logits = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]])
    assert choose(logits, torch.tensor([u], dtype=torch.float64)).item() in (1, 3)


def test_choices_go_through_the_vocabulary_in_order_of_u():
    logits = torch.tensor([[0.25, 0.25, 0.5]]).log()
    at = lambda u: choose(logits, torch.tensor([u], dtype=torch.float64)).item()
    assert [at(0.0), at(0.2), at(0.3), at(0.49), at(0.51), at(0.999)] == [0, 0, 1, 1, 2, 2]
