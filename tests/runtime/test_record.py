"""Generation that is watched: nothing changes by it, and every number is that of a whole forward
pass."""

import copy
import json
import math
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from every import slow_but
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import pad_examples
from glassformer.data.example import Example, Patches
from glassformer.layers.tap import Tape, recording
from glassformer.runtime import trace as watch_module
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode, steps
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import example_of
from glassformer.runtime.request import Request
from glassformer.runtime.selectors import sampling as transforms
from glassformer.runtime.selectors.sampling import stages
from glassformer.runtime.trace import Watch
from glassformer.tasks.predictors.text import finish
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_writers import continuations

BOTH = {"architecture": "encoder_decoder"}
KINDS = [
    {"position": "learned"},
    {"position": "rotary", "window": 5, "n_kv_heads": 2, "qk_norm": True},
    {"position": "alibi"},
    BOTH | {"position": "buckets"},
    BOTH | {"position": "rotary", "n_kv_heads": 1},
]
named = pytest.mark.parametrize(
    "changes", KINDS, ids=lambda c: "-".join(str(v) for v in c.values())
)
ALL = Watch(top=5, attention=True)


def how(**changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 8, "overflow": "window"} | changes)


def row(length: int, seed: int = 0) -> list[int]:
    return tiny.tokens(1, length, seed=seed)[0].tolist()


PROMPTS = [row(4, 1), row(1, 2), row(9, 3)]
SOURCES = [row(3, 4), row(6, 5), row(1, 6)]


def sources(model, rows=SOURCES):
    return rows if model.config.architecture == "encoder_decoder" else None


def alone(model, at: int) -> Batch | None:
    return None if sources(model) is None else Batch(torch.tensor([SOURCES[at]]))


def watched(model, prompts, config, ends=(), source=None, watch=ALL):
    """The choices of every row."""
    found = [[] for _ in prompts]
    for step in decode(model, prompts, config, ends, source, watch=watch):
        assert step.ids == tuple(one.id for one in step.choices)
        for at, choice in zip(step.rows, step.choices, strict=True):
            found[at].append(choice)
    return found


def branch(model, prompt, ids, step, token, config=None, ends=(), source=None, watch=ALL):
    """The choices from `step` on if `token` is taken there after the new tokens `ids` before it."""
    given = [*ids[:step], token]
    steps = decode(model, [prompt], config or how(), ends, source, watch=watch, given=given)
    for one in steps:
        yield one.choices[0]


def whole(model, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Logits [T, V] and patterns [L, H, T, S] of one forward pass without a cache, written out."""
    tape = Tape(model, keep=("decoder.blocks.*.pattern",))
    with torch.no_grad(), recording(tape):
        logits = model(batch).logits[0]
    sites = [
        [tape.kept[name][0] for name in sorted(tape.kept) if name.endswith(f"{site}.pattern")]
        for site in ("attention", "cross")
    ]
    return logits, torch.stack(sites[0]), torch.stack(sites[1]) if sites[1] else None


def near(given, expected):
    # float64 (see tiny.EXACT): sums in another order, of a cache and of a whole pass
    exactly = lambda numbers: torch.as_tensor(numbers, dtype=torch.float64)
    torch.testing.assert_close(exactly(given), exactly(expected), rtol=1e-10, atol=1e-10)


def assert_told(choice, logits, own, cross, place: int, first: int = 0):
    """A choice read from element `place` of a whole pass that begins at element `first`."""
    p = logits[place].softmax(0)
    order = sorted(range(len(p)), key=lambda i: (-float(logits[place, i]), i))
    near(choice.before, p[choice.id])
    near(choice.entropy, -(p * p.log2()).sum())
    assert choice.rank == order.index(choice.id)
    assert [one.id for one in choice.alternatives] == order[:5]
    near([one.before for one in choice.alternatives], p[order[:5]])
    near(choice.rows.own, own[:, :, place, : place + 1])
    assert choice.rows.first == first
    if cross is None:
        assert choice.rows.cross == []
    else:
        near(choice.rows.cross, cross[:, :, place])


@named
@pytest.mark.parametrize("double", slow_but([True, False], False))
def test_watching_changes_no_token_and_no_probability_not_even_in_the_last_bit(changes, double):
    model = tiny.model(**changes)
    model = model if double else copy.deepcopy(model).float()
    for config in (
        how(seed=3, max_new_tokens=40),
        how(temperature=0),
        how(top_k=4, repetition_penalty=2.0),
    ):
        plain = list(decode(model, PROMPTS, config, (3,), sources(model)))
        seen = list(decode(model, PROMPTS, config, (3,), sources(model), watch=ALL))
        assert plain == [replace(step, choices=()) for step in seen]
        assert all(len(step.choices) == len(step.ids) for step in seen)


def test_nothing_is_recorded_unless_asked(monkeypatch):
    monkeypatch.setattr(watch_module, "Tape", None)
    steps = list(decode(tiny.model(), PROMPTS, how(), watch=Watch()))
    assert all(one.rows is None for step in steps for one in step.choices)
    assert all(step.choices == () for step in decode(tiny.model(), PROMPTS, how()))


@named
def test_what_is_told_of_a_batch_is_what_a_whole_forward_pass_over_each_text_gives(changes):
    model = tiny.model(**changes)
    for at, told in enumerate(watched(model, PROMPTS, how(seed=5), (3,), sources(model))):
        text = PROMPTS[at] + [one.id for one in told]
        logits, own, cross = whole(model, Batch(torch.tensor([text]), source=alone(model, at)))
        for step, choice in enumerate(told):
            assert_told(choice, logits, own, cross, len(PROMPTS[at]) - 1 + step)


def test_beyond_the_context_the_rows_begin_where_the_window_does():
    model, context, text, begin = tiny.model(max_length=10), 10, row(7), 0
    told = watched(model, [text, [1]], how(max_new_tokens=20))[0]
    for choice in told:
        begin = len(text) - context // 2 if len(text) - begin > context else begin
        logits, own, _ = whole(model, Batch(torch.tensor([text[begin:]])))
        assert_told(choice, logits, own, None, len(text) - begin - 1, begin)
        text = [*text, choice.id]
    assert begin > context


def parts(seed: int, before: int) -> Example:
    values = np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32)
    return Example(
        np.array([*row(before, seed), 0, 0, 0, *row(2, seed)], np.int32),
        patches=(Patches("image", before, values),),
    )


def mixed():
    return tiny.model(parts={"image": 5}, position="rotary")


def test_prompts_with_patches_are_told_over_all_their_elements():
    model, prompts = mixed(), [parts(1, 1), parts(2, 4)]
    for prompt, told in zip(prompts, watched(model, prompts, how()), strict=True):
        ids = np.array([one.id for one in told], np.int32)
        logits, own, _ = whole(
            model, pad_examples([replace(prompt, ids=np.concatenate([prompt.ids, ids]))])
        )
        for step, choice in enumerate(told):
            assert_told(choice, logits, own, None, len(prompt.ids) - 1 + step)


WAYS = [
    {},
    {"temperature": 0.01},
    {"temperature": 0},
    {"top_k": 3, "temperature": 2.0},
    {"top_p": 0.6, "repetition_penalty": 3.0},
    {"min_p": 0.3, "top_k": 9, "top_p": 0.95, "temperature": 1.7, "repetition_penalty": 1.5},
]


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_probabilities_after_the_transforms_are_those_that_a_token_was_drawn_by(ways, monkeypatch):
    """What `choose` was given, and `stages` of a whole forward pass; greedy decoding draws
    nothing."""
    drawn, choose, model, prompt = [], transforms.choose, tiny.model(), row(5)
    monkeypatch.setattr(
        transforms, "choose", lambda logits, u: drawn.append(logits) or choose(logits, u)
    )
    told = watched(model, [prompt], how(**ways))[0]
    text = prompt + [one.id for one in told]
    logits = whole(model, Batch(torch.tensor([text])))[0]
    for step, choice in enumerate(told):
        seen = text[: len(prompt) + step]
        shown = stages(logits[len(seen) - 1], **{"seen": seen, **ways})
        *_, last = shown.values()
        near(choice.after, last[choice.id])
        near(
            [one.after for one in choice.alternatives],
            shown["min_p"][[one.id for one in choice.alternatives]],
        )
        if drawn:
            near(last.tolist(), drawn[step][0].softmax(0))
    assert len(drawn) == (0 if ways.get("temperature") == 0 else len(told))


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20),
    st.sampled_from([0, 5e-324, 0.01, 0.3, 1.0, 50.0]),
    st.none() | st.integers(1, 25),
    st.none() | st.floats(0.01, 1),
    st.none() | st.floats(0.01, 1),
)
def test_every_stage_is_a_distribution_and_each_keeps_less_than_the_one_before(
    row, temperature, top_k, top_p, min_p
):
    ways = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    shown = stages(torch.tensor(row), **ways)
    assert [*shown] == ["model", "constraints", "temperature", "top_k", "top_p", "min_p"]
    p = torch.stack([*shown.values()])
    assert p.dtype == torch.float64
    assert bool((p >= 0).all())
    near(p.sum(1).tolist(), torch.ones(6))
    near(p[0].tolist(), torch.tensor(row).double().softmax(0))
    for earlier, later in pairwise(p[2:]):
        assert set(later.nonzero()[:, 0].tolist()) <= set(earlier.nonzero()[:, 0].tolist())
    if temperature == 0.01:
        exact = (torch.tensor(row).double() - max(row)) / 0.01
        # the shifted logits are rounded to float32 once: 2^-24 of at most 2e6, but what is that low
        # has e^-100 left
        torch.testing.assert_close(p[2], exact.softmax(0), rtol=1e-4, atol=1e-9)


def test_stages_not_asked_for_change_nothing_and_a_misspelt_one_is_named():
    shown = stages(torch.tensor([1.0, 2.0, 3.0]), top_k=2)
    assert torch.equal(shown["model"], shown["temperature"])
    assert shown["top_k"][0] == 0
    with pytest.raises(ConfigError, match=r"topk.*did you mean 'top_k'|topk.*top_k"):
        stages(torch.zeros(3), topk=2)
    with pytest.raises(ConfigError, match=r"generate\.temperature: .*got -1"):
        stages(torch.zeros(3), temperature=-1)


def search(model, config, ends=(2, 9)):
    """The events of a watched search."""
    return watched_search(model, PROMPTS, config, ends, sources(model))


def watched_steps(model, prompts, config, ends=(), source=None, watch=ALL):
    """The events of each step of a search, its prompts numbered from 0."""
    read = source or [None] * len(prompts)
    wanted = [
        Request(prompt, config, tuple(ends), source=of and example_of(of))
        for prompt, of in zip(prompts, read, strict=True)
    ]
    for events in steps(Engine.of(model, wanted, watch)):
        yield [replace(event, request=event.request - 1) for event in events]


def watched_search(*given):
    """All events of such a search."""
    return [event for events in watched_steps(*given) for event in events]


@named
def test_a_watched_search_is_the_search_and_its_candidates_grow_into_its_hypotheses(changes):
    model, config = tiny.model(**changes), how(beams=3, n_best=3, length_penalty=0.7)
    told = search(model, config)
    best = beam_search(model, PROMPTS, config, (2, 9), sources(model))
    ended = {event.request: [*event.hypotheses] for event in told if event.finish}
    assert [ended[number] for number in range(len(PROMPTS))] == best
    for sentence, hypotheses in enumerate(best):
        lines = [[]]
        for step in (one.candidates for one in told if one.request == sentence):
            before = lines
            lines = [(before[one.parent] if one.parent is not None else []) + [one] for one in step]
            for line in (line for line in lines if line[-1].kept and not line[-1].live):
                found = [one for one in hypotheses if one.ids == [node.id for node in line]]
                for one in found:
                    assert (one.finished, one.score) == (line[-1].finished, line[-1].score)
                    assert one.log_probs == [node.log_prob for node in line]
                    hypotheses = [other for other in hypotheses if other is not one]
        assert not hypotheses


@named
def test_the_beam_keeps_the_likeliest_candidates_and_only_what_lives_goes_on(changes):
    model, config = tiny.model(**changes), how(beams=4, n_best=4)
    told = [one.candidates for one in search(model, config) if one.request == 2]
    room = 4
    for step, following in zip(told, [*told[1:], ()], strict=True):
        kept = [one.total for one in step if one.kept]
        assert len(kept) == min(room, len(step))
        assert min(kept) >= max((one.total for one in step if not one.kept), default=-np.inf)
        room -= sum(one.finished for one in step)
        live = {i for i, one in enumerate(step) if one.live}
        assert {one.parent for one in following} == live
        assert all(one.kept for one in step if one.live or one.finished)
        assert all(one.finished == (one.id in (2, 9)) for one in step if one.kept)


@named
def test_log_p_of_a_candidate_is_that_of_a_whole_forward_pass(changes):
    model, config = tiny.model(**changes), how(beams=3, max_new_tokens=5)
    told = search(model, config, ())
    for sentence, prompt in enumerate(PROMPTS):
        lines = [prompt]
        for step in (one.candidates for one in told if one.request == sentence):
            texts, passes = [lines[one.parent or 0] for one in step], {}
            for one, text in zip(step, texts, strict=True):
                if one.parent not in passes:
                    batch = Batch(torch.tensor([text]), source=alone(model, sentence))
                    passes[one.parent] = whole(model, batch)[0][-1].log_softmax(0)
                near(one.log_prob, passes[one.parent][one.id])
            lines = [[*text, one.id] for one, text in zip(step, texts, strict=True)]


@named
@pytest.mark.parametrize("step", [0, 3, 7])
def test_a_branch_by_the_token_that_was_chosen_is_what_was_written(changes, step):
    model, config = tiny.model(**changes), how(seed=4)
    told = watched(model, PROMPTS[:1], config, (3,), sources(model, SOURCES[:1]))[0]
    ids = [one.id for one in told]
    at = min(step, len(ids) - 1)
    again = list(
        branch(model, PROMPTS[0], ids, at, ids[at], config, (3,), sources(model, SOURCES[:1]), ALL)
    )
    assert [one.id for one in again] == ids[at:]
    for one, other in zip(again, told[at:], strict=True):
        near([one.before, one.after, one.entropy], [other.before, other.after, other.entropy])
        near(one.rows.own, other.rows.own)


@pytest.mark.parametrize(
    ("length", "step", "seed"), [(1, 23, 0), (7, 9, 1), (30, 0, 2), (12, 15, 3), (10, 4, 4)]
)
def test_a_branch_far_beyond_the_context_reads_the_window_that_the_loop_had(length, step, seed):
    model, config, prompt = (
        tiny.model(max_length=10),
        how(seed=seed, max_new_tokens=24),
        row(length, seed),
    )
    told = watched(model, [prompt], config)[0]
    ids = [one.id for one in told]
    again = list(branch(model, prompt, ids, step, ids[step], config, watch=ALL))
    assert [(one.id, one.rows.first) for one in again] == [
        (one.id, one.rows.first) for one in told[step:]
    ]


def test_a_branch_by_another_token_goes_on_from_it_and_may_end_at_once():
    model, prompt, config = tiny.model(), row(3), how(temperature=0)
    ids = [one.id for one in watched(model, [prompt], config)[0]]
    text, other = prompt + ids[:2], (ids[2] + 1) % 13
    expected = [other]
    with torch.no_grad():
        while len(expected) < 6:
            expected.append(int(model(torch.tensor([[*text, *expected]])).logits[0, -1].argmax()))
    assert [one.id for one in branch(model, prompt, ids, 2, other, config)] == expected
    assert [one.id for one in branch(model, prompt, ids, 2, other, config, (other,))] == [other]


def test_branches_of_a_picture_and_its_question():
    model, prompt, config = mixed(), parts(1, 2), how(seed=1)
    first = [one.id for one in watched(model, [prompt], config)[0]]
    second = [*first[:3], *(one.id for one in branch(model, prompt, first, 3, 5, config))]
    last = list(branch(model, prompt, second, 5, 6, config))
    assert second[3] == 5
    assert last[0].id == 6
    assert len(second) == 5 + len(last) == 8
    ids = np.concatenate([prompt.ids, np.array(second[:5] + [one.id for one in last], np.int32)])
    logits = whole(model, pad_examples([replace(prompt, ids=ids)]))[0].softmax(-1)
    near(
        [one.before for one in last],
        logits[len(prompt.ids) + 4 : -1, :][torch.arange(3), [one.id for one in last]],
    )


def test_what_is_known_of_each_token_comes_with_the_text_and_a_search_is_refused():
    tokenizer = train_tokenizer(TokenizerConfig.parse({"kind": "character"}), ["the song"])
    model = tiny.model(vocab_size=tokenizer.vocab_size)
    found = finish(continuations(model, tokenizer, ["the", "so"], how(seed=1), watch=ALL))
    assert [one.text for one in found] == [
        one.text for one in finish(continuations(model, tokenizer, ["the", "so"], how(seed=1)))
    ]
    for one in found:
        assert [choice.id for choice in one.choices] == one.ids
        near([math.log(choice.before) for choice in one.choices], one.log_probs)
    with pytest.raises(ConfigError, match="beams=2; use Engine"):
        finish(continuations(model, tokenizer, ["the"], how(beams=2), watch=ALL))


def test_all_that_is_told_goes_over_the_wire():
    model = tiny.model(**BOTH)
    told = watched(model, PROMPTS, how(temperature=0.01, top_k=2), (), sources(model))[0][0]
    first = next(watched_steps(model, PROMPTS, how(beams=2), (), sources(model)))
    for one in (told, *(candidate for event in first for candidate in event.candidates)):
        assert json.loads(json.dumps(asdict(one), allow_nan=False)) == asdict(one)


def test_a_model_in_training_mode_stays_so_and_can_be_trained_between_watched_steps():
    model = copy.deepcopy(tiny.model(**BOTH, position="buckets", dropout=0.5)).train()
    sampled = decode(model, PROMPTS, how(), (), sources(model), watch=ALL)
    searched = watched_steps(model, PROMPTS, how(beams=2), (), sources(model))
    for _ in range(2):
        next(sampled), next(searched)
        assert model.training
        assert not torch.is_inference_mode_enabled()
        model(Batch(tiny.tokens(2, 5), source=Batch(tiny.tokens(2, 4)))).logits.sum().backward()


def test_what_cannot_be_watched_is_said():
    model = tiny.model()
    ask = lambda **what: next(decode(model, [[1]], how(), watch=Watch(**what)))
    with pytest.raises(ConfigError, match="top=0; raise it"):
        ask(top=0)
    with recording(Tape(model)), pytest.raises(ConfigError, match="another is active"):
        ask(attention=True)
    with pytest.raises(ConfigError, match="given beginning has 9 tokens and 8 may come"):
        next(branch(model, [1], row(8), 8, 4, how()))
    with pytest.raises(ConfigError, match="given beginning holds token id 13"):
        next(branch(model, [1], [], 0, 13))
