"""Searches by a compiled step: the hypotheses of the model's own search, whoever else is searched
at the same time."""

import copy
import sys
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from glassformer.core.errors import GlassformerError
from glassformer.layers.attention.ragged import Pool
from glassformer.layers.tap import Tape, recording
from glassformer.native import Program, compiler
from glassformer.runtime.decode import beam_search
from glassformer.runtime.trace import Watch

sys.path.append(str(Path(__file__).parent))
from test_beam import BOTH, KINDS, flat, how, plainly, row, search, source_of
from test_record import watched_search

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
CLOSE = 1e-4
"""float32 beside float64, sums of up to 20 log-probabilities."""


class Counted(Program):
    """A compiled step that notes how many rows it computed at each step."""

    def __init__(self, model):
        super().__init__(model)
        self.rows = []

    def likeliest(self, batch, *rest):
        self.rows.append(batch.elements.shape[1])
        return super().likeliest(batch, *rest)


def pair(changes):
    """A model in float64, and in float32 with a compiled step."""
    exact = tiny.model(**changes)
    quick = copy.deepcopy(exact).float()
    quick.compiled_step = Counted(quick)
    return exact, quick


def assert_close(found, expected):
    for ones, others in zip(found, expected, strict=True):
        assert [(one.ids, one.finished) for one in ones] == [
            (one.ids, one.finished) for one in others
        ]
        for one, other in zip(ones, others, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=CLOSE)
            # a length_penalty of -1 multiplies the sum by the length, and its rounding too
            assert one.score == pytest.approx(other.score, abs=CLOSE, rel=1e-6)


PROMPTS = [row(2, 1), row(4, 2), row(1, 3), row(3, 7), row(1, 8)]
OPTIONS = [
    {"n_best": 4, "length_penalty": 0.6},
    {"length_penalty": -1.0},
    {"early_stopping": True, "n_best": 3},
    {"early_stopping": "never", "length_penalty": 2.0},
]
SOURCES = [row(3, 4), row(6, 5), row(1, 6), row(6, 9), row(2, 10)]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        (changes, options)
        if number % len(OPTIONS) == at
        else pytest.param(changes, options, marks=pytest.mark.slow)
        for number, changes in enumerate(KINDS)
        for at, options in enumerate(OPTIONS)
    ],
    ids=str,
)
def test_hypotheses_are_those_of_the_model(changes, options):
    exact, quick = pair(changes)
    config = how(4, **{"max_new_tokens": 20} | options)
    expected = search(exact, PROMPTS, SOURCES, config, (3, 5), limits=[20, 3, 20, 1, 20])
    for at_once in (1, 3, 20):
        source = source_of(quick, SOURCES)
        limits = [20, 3, 20, 1, 20]
        found = beam_search(quick, PROMPTS, config, (3, 5), source, limits, at_once)
        assert_close(found, expected)
        assert max(quick.compiled_step.rows) <= max(4, at_once * 4)
        quick.compiled_step.rows.clear()


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), min_size=1, max_size=9),
    st.sets(st.integers(0, 12), max_size=4),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(KINDS),
    st.booleans(),
)
@settings(max_examples=15)
def test_a_sentence_is_the_same_in_any_company(lengths, ends, beams, at_once, changes, compiled):
    """Also where freed slots hold no numbers, and where there are few."""
    exact, quick = pair(changes)
    model = quick if compiled else exact
    config = how(beams, n_best=beams, max_new_tokens=12)
    prompts = [row(n, seed=at) for at, (n, _) in enumerate(lengths)]
    sources = [row(n, seed=20 + at) for at, (_, n) in enumerate(lengths)]
    alone = zip(prompts, sources, strict=True)
    expected = [search(model, [a], [b], config, sorted(ends))[0] for a, b in alone]
    with pytest.MonkeyPatch.context() as patch:
        take = Pool.take

        def spoilt(pool, *which, **how):
            taken = take(pool, *which, **how)
            pool.numbers[:, :, :, torch.from_numpy(pool.users == 0)] = torch.nan
            return taken

        patch.setattr(Pool, "take", spoilt)
        source = source_of(model, sources)
        found = beam_search(model, prompts, config, sorted(ends), source, at_once=at_once)
    for ones, others in zip(found, expected, strict=True):  # prompts are read by the model's pass
        assert [one.ids for one in ones] == [one.ids for one in others]
        for one, other in zip(ones, others, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


def test_sentences_take_the_places_of_ended_ones():
    _, model = pair(BOTH)
    sources = [row(1 + n % 5, n) for n in range(40)]
    config = how(3, max_new_tokens=15)
    beam_search(model, [[1]] * 40, config, (3, 5), sources, at_once=8)
    rows = model.compiled_step.rows
    alone = []
    for one in sources:
        model.compiled_step.rows = alone
        beam_search(model, [[1]], config, (3, 5), [one], at_once=8)
    assert sum(rows) == sum(alone)
    assert max(rows) <= 24
    assert len(rows) < 2 * sum(alone) / 24 + 15


def test_of_equals_the_lower_token_comes_first():
    model = flat(**BOTH)
    expected = plainly(model, [1], [2, 3], how(4, n_best=4, max_new_tokens=4), (12,), 4)
    quick = model.float()
    quick.compiled_step = Program(quick)
    config = how(4, n_best=4, max_new_tokens=4)
    for ones in beam_search(quick, [[1]] * 3, config, (12,), [[2, 3], [5], row(7, 1)]):
        assert [one.ids for one in ones] == [ids for ids, *_ in expected]


def test_more_hypotheses_than_tokens():
    _, model = pair({})
    found = beam_search(model, [[1]], how(20, n_best=20, max_new_tokens=1))[0]
    assert sorted(one.ids[0] for one in found) == list(range(13))
    assert len(beam_search(model, [[1]], how(20, n_best=20, max_new_tokens=2))[0]) == 20


@pytest.mark.parametrize("changed", ["watch", "constraint", "tape"])
def test_what_a_compiled_step_cannot_do_is_the_models(changed):
    exact, model = pair(BOTH)
    source, config, watch = [[1, 2], [3]], how(3), None
    if changed == "watch":
        watch = Watch(top=3, attention=True)
    if changed == "constraint":
        config = how(3, no_repeat_ngram_size=1)
    with recording(Tape(model, keep=("*.z",))) if changed == "tape" else nullcontext():
        events = watched_search(model, [[1]] * 2, config, (4,), source, watch)
    ended = sorted((event for event in events if event.finish), key=attrgetter("request"))
    assert_close(
        [[*one.hypotheses] for one in ended], beam_search(exact, [[1]] * 2, config, (4,), source)
    )
    assert not model.compiled_step.rows


def test_damaged_weights_are_said():
    _, model = pair(BOTH)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    model.compiled_step = Program(model)
    with pytest.raises(GlassformerError, match="not a number"):
        beam_search(model, [[1]], how(2), (), [[1]])
