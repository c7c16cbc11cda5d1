"""Speculative decoding: whatever is proposed, not a bit of a text changes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.layers.cpu_kernels import ONE_DNN
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.engine import Engine
from glassformer.runtime.request import Request
from glassformer.runtime.speculative import Counts, Drafts, Lookup, ModelDraft

from .test_engine import CONTEXT, KINDS, alone, model_of, requests, together

needs_one_dnn = pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
SMALL = {"n_layers": 1, "d_model": 32}


class Scripted:
    """A draft that knows the text, and is wrong where it is told to."""

    def __init__(self, text, n_prompt, wrong=()):
        self.text, self.n_prompt, self.wrong = text, n_prompt, dict(wrong)
        self.counts = Counts()
        self.learn = self.counts.learn

    def propose(self, ids, n):
        new = len(ids) - self.n_prompt
        return [self.wrong.get(at, self.text[at]) for at in range(new, len(self.text))][: n + 2]


def drafted(wanted, texts, wrongs):
    """Requests with scripted drafts."""
    return [
        replace(one, draft=Scripted(text, len(one.prompt), wrong), ahead=ahead)
        for one, text, (wrong, ahead) in zip(wanted, texts, wrongs, strict=True)
    ]


def ids_of(news):
    return [token.id for token, *_ in news]


MODEL = model_of(KINDS[0])
WANTED = [
    *requests(8, new=(1, 12, 40)),
    # Beyond the context; with penalties; ended by a token; of odd and even tokens in turn.
    Request((5,) * 140, GenerateConfig(max_new_tokens=40, temperature=0, overflow="window")),
    Request((1, 2, 3), GenerateConfig(max_new_tokens=30, no_repeat_ngram_size=2, seed=3)),
    Request((4, 5), GenerateConfig(max_new_tokens=30, seed=4), ends=tuple(range(40))),
    Request(
        (1, 2, 3),
        GenerateConfig(max_new_tokens=20, seed=1),
        allowed=lambda new: (torch.arange(300) % 2 == 1) ^ (len(new) % 2 == 1),
    ),
]


@cache
def expected():
    """What `WANTED` becomes without drafts."""
    return [alone(MODEL, one) for one in WANTED]


hostile = st.tuples(
    st.lists(st.tuples(st.integers(0, 39), st.integers(-2, 400)), max_size=12), st.integers(1, 9)
)


@needs_one_dnn
@given(st.lists(hostile, min_size=len(WANTED), max_size=len(WANTED)), st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_no_proposal_changes_a_bit(wrongs, seed):
    """Right ones, wrong ones, and what is no token, in company, with shared prefixes."""
    wanted = drafted(WANTED, [ids_of(one) for one in expected()], wrongs)
    assert together(MODEL, wanted, seed=seed, free=torch.nan, max_rows=5) == expected()


@needs_one_dnn
@pytest.mark.slow  # quick: the test before this one, and native/test_decoding.py
@pytest.mark.parametrize(
    "changes",
    KINDS,
    ids=lambda c: "-".join(str(v) for v in c.values()),
)
def test_no_draft_changes_a_bit(changes):
    """Drafts by n-grams of the text, by a smaller model and by the same one, both with a shorter
    context; alone and together."""
    model, wanted = model_of(changes), requests(6, new=(5, 40))
    texts = [alone(model, one) for one in wanted]
    for small in (None, SMALL, {}):
        of = None if small is None else model_of({**changes, **small, "max_length": CONTEXT - 30})
        drafts = Drafts(of, ahead=3)
        assert [alone(model, drafts.drafted(one)) for one in wanted] == texts
        assert together(model, [drafts.drafted(one) for one in wanted]) == texts
        assert 0 < drafts.counts.right <= drafts.counts.proposed


def test_right_proposals_save_steps():
    """Of 30 tokens 5 come in a step; with one wrong, the step ends there."""
    request = Request((1, 2, 3), GenerateConfig(max_new_tokens=30, seed=1))
    text = ids_of(alone(MODEL, request))
    for wrong, steps, right in (({}, 6, 24), ({3: 299}, 7, 23)):
        draft = Scripted(text, 3, wrong)
        engine = Engine(MODEL)
        engine.add(replace(request, draft=draft, ahead=4))
        sizes = []
        while not engine.idle:
            sizes.append(len(engine.step()))
        assert (len(sizes), sum(sizes)) == (steps, 30)
        assert draft.counts.right == right


def test_the_number_proposed_follows_what_was_right():
    """One more than were right, at most as many as allowed."""
    request = Request((1, 2, 3), GenerateConfig(max_new_tokens=30, seed=1))
    text, asked = ids_of(alone(MODEL, request)), []

    class Asked(Scripted):
        def propose(self, ids, n):
            asked.append(n)
            return super().propose(ids, n)

    alone(MODEL, replace(request, draft=Asked(text, 3, {6: 299, 7: 299, 8: 299}), ahead=4))
    assert asked[:6] == [4, 4, 2, 1, 1, 2]


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_small_model_proposes_what_it_would_write_itself_also_after_wrong_guesses(temperature):
    """Its cache follows the text: proposals equal those of a fresh one, beyond its context too."""
    small = model_of({**KINDS[0], "max_length": 40})
    how = GenerateConfig(max_new_tokens=60, temperature=temperature, seed=2)
    request, kept = Request((1, 2, 3), how), []
    draft = ModelDraft(small, request, Counts())
    text = [1, 2, 3]
    for step in range(25):
        guesses = draft.propose(text, 3)
        fresh = ModelDraft(small, request, Counts())
        assert guesses == fresh.propose(text, 3)
        kept.append(draft.text.cached)
        text += [*guesses[: step % 4], 7 + step]
    assert len(text) > 60
    assert max(kept) > 30


def test_a_draft_that_fails_proposes_nothing():
    small = model_of(KINDS[0])
    with torch.no_grad():
        small.head.weight.fill_(torch.nan)
    drafts, request = Drafts(small), requests(3)[1]
    assert alone(MODEL, drafts.drafted(request)) == alone(MODEL, request)
    assert drafts.counts.proposed == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 6))
def test_lookup_gives_what_followed_the_last_time(ids, n):
    found = Lookup(Counts()).propose(ids, n)
    for size in (4, 3, 2):
        tail = ids[-size:]
        ends = [end for end in range(size, len(ids)) if ids[end - size : end] == tail]
        if len(ids) > size and ends:
            whole = [*ids]
            for at in range(ends[-1], ends[-1] + n):
                whole.append(whole[at])
            assert found == whole[len(ids) :]
            return
    assert list(found) == []


def test_lookup_reads_a_text_as_it_grows():
    ids, one = [1, 2, 3, 1, 2, 3, 3, 1, 2, 1, 2, 3, 1, 2], Lookup(Counts())
    for end in range(1, len(ids) + 1):
        assert one.propose(ids[:end], 4) == Lookup(Counts()).propose(ids[:end], 4)


def test_targets_of_sources_are_the_same_with_a_draft():
    model = model_of({"architecture": "encoder_decoder", "position": "rotary"})
    how = GenerateConfig(max_new_tokens=30, temperature=0)
    sources = [Example(np.array(ids, np.int32)) for ids in ([1, 2, 3, 4], [5], [6, 7])]
    wanted = [Request((1,), how, source=source) for source in sources]
    plain, drafts = together(model, wanted), (Drafts(model_of(KINDS[0]), 2), Drafts())
    for draft in drafts:
        assert together(model, [draft.drafted(one) for one in wanted]) == plain
    assert drafts[1].counts.right > 10


def test_what_cannot_draft_is_refused():
    with pytest.raises(ConfigError, match="draft_tokens=0; raise it"):
        Drafts(ahead=0)
    with pytest.raises(ConfigError, match="architecture='encoder_decoder'; use a decoder"):
        Drafts(model_of({"architecture": "encoder_decoder"}))
