"""log p of answers is that of the whole sequence in one plain forward pass, however prompts are
shared, batched and padded."""

import copy
import random
from itertools import pairwise

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tiny
from every import slow_but
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.native import Program, compiler
from glassformer.runtime import scoring
from glassformer.tasks.predictors.likelihood import cut, likelihoods, rolling, split_answer
from glassformer.tokenizers.definition import byte_definition, word_definition
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer

pytestmark = pytest.mark.usefixtures("no_grad")
KINDS = (
    {"position": "rotary", "n_kv_heads": 2},
    {"position": "learned"},
    {"position": "buckets"},
    {"position": "alibi", "window": 3},
)


def ids(draw: random.Random, least: int, most: int) -> tuple[int, ...]:
    return tuple(draw.choices(range(tiny.VOCABULARY), k=draw.randint(least, most)))


def told(logits: torch.Tensor, wanted: tuple[int, ...]) -> tuple[list[float], bool]:
    """By definition, from the logits [A, V] at which an answer is predicted."""
    rows = logits.log_softmax(-1)
    return [row[i].item() for row, i in zip(rows, wanted, strict=True)], bool(
        (rows.argmax(-1) == torch.tensor(wanted)).all()
    )


def plainly(model, prompt, answer) -> tuple[list[float], bool]:
    ids = torch.tensor([prompt + answer[:-1]])
    return told(model(ids).logits[0, len(prompt) - 1 :], answer)


def agree(found, expected) -> None:
    for one, (log_probs, greedy) in zip(found, expected, strict=True):
        assert one.log_probs == pytest.approx(log_probs, rel=1e-10, abs=1e-10)
        assert one.log_prob == pytest.approx(sum(log_probs), rel=1e-10, abs=1e-10)
        assert one.greedy == greedy


few = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
"""So few ids that many texts begin alike, and prompts end where others go on."""


@pytest.fixture(params=slow_but([3, 50], 3))
def at_once(request, monkeypatch):
    monkeypatch.setattr(scoring, "TOKENS", request.param)  # some texts at a time


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "kind", slow_but(KINDS, KINDS[0], KINDS[-1]), ids=lambda kind: kind["position"]
)
@given(pairs=st.lists(st.tuples(few, few), min_size=1, max_size=12))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_decoder_scores_answers_as_one_pass_over_each_does(kind, pairs):
    model = tiny.model(architecture="decoder", **kind)
    greedy = int(model(torch.tensor([pairs[0][0]])).logits[0, -1].argmax())
    pairs = [*pairs, (pairs[0][0], (greedy,))]
    expected = [plainly(model, *pair) for pair in pairs]
    assert any(right for _, right in expected)
    agree(likelihoods(model, pairs), expected)


def test_rows_that_fill_the_context_are_scored_together():
    draw, model = random.Random(0), tiny.model(architecture="decoder", position="learned")
    pairs = [(ids(draw, 31, 31), (1, 2)), (ids(draw, 9, 9), ids(draw, 24, 24))]
    agree(likelihoods(model, pairs), [plainly(model, *pair) for pair in pairs])


def test_texts_of_one_size_attend_in_one_call(monkeypatch):
    """The first answer with its question, then the others after what they share."""
    model, real, calls = tiny.model(architecture="decoder", position="rotary"), scoring.advance, []

    def advance(*arguments):
        calls.extend([text.rows for text in piece.texts] for piece in arguments[3])
        return real(*arguments)

    monkeypatch.setattr(scoring, "advance", advance)
    pairs = [((q, 1, 2, 3), (a, 1, 1)) for q in range(5) for a in range(4)]
    agree(likelihoods(model, pairs), [plainly(model, *pair) for pair in pairs])
    assert calls == [[5, 15]]


@pytest.mark.usefixtures("at_once")
@given(pairs=st.lists(st.tuples(few, few), min_size=1, max_size=12))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_encoder_decoder_scores_answers_to_sources(pairs):
    model, expected = tiny.model(architecture="encoder_decoder", position="rotary"), []
    for source, answer in pairs:
        batch = Batch(torch.tensor([(1, *answer[:-1])]), source=Batch(torch.tensor([source])))
        expected.append(told(model(batch).logits[0], answer))
    agree(likelihoods(model, pairs, begin=1), expected)


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("changes", [KINDS[0], {"architecture": "encoder_decoder"}], ids=str)
def test_a_compiled_step_scores_as_the_model_does(changes):
    """300 elements, which it computes in parts, of which each reads keys of those before."""
    draw, model = random.Random(0), copy.deepcopy(tiny.model(**changes)).float()
    prompts = [ids(draw, 1, 9) for _ in range(40)]
    pairs = [(prompt, ids(draw, 1, 8)) for prompt in prompts for _ in range(3)]
    begin = 1 if model.encoder is not None else None
    expected = likelihoods(model, pairs, begin)
    model.compiled_step = Program(model)
    for one, other in zip(likelihoods(model, pairs, begin), expected, strict=True):
        # float32 adds in another order: errors of some 1e-6, of which stirred weights make more
        assert one.log_probs == pytest.approx(other.log_probs, rel=1e-4, abs=1e-4)


@given(length=st.integers(1, 40), longest=st.integers(1, 9))
def test_rolling_windows_predict_each_token_once_from_a_full_context(length, longest):
    pairs = rolling(range(1, length + 1), 0, longest)
    assert [token for _, answer in pairs for token in answer] == [*range(1, length + 1)]
    for prompt, answer in pairs:
        whole = (*prompt, *answer)
        assert all(b == a + 1 for a, b in pairwise(whole)), "they stand side by side"
        assert len(whole) - 1 == min(longest, length)
    assert pairs[0][0] == (0,)


def test_what_is_too_long_loses_its_beginning_or_is_refused():
    assert cut(((1, 2, 3, 4), (5, 6)), 4) == ((2, 3, 4), (5, 6))
    assert cut(((1, 2), (5, 6)), 4) == ((1, 2), (5, 6))
    model = tiny.model(architecture="decoder", max_length=4)
    assert likelihoods(model, [((1, 2, 3), (4, 5))])[0].log_probs
    with pytest.raises(ConfigError, match=r"Prompt 2 has 4 tokens .* answer 2, .* context is 4"):
        likelihoods(model, [((1,), (2,)), ((1, 2, 3, 4), (5, 6))])


def test_the_space_before_an_answer_is_the_answers():
    text = Tokenizer(byte_definition())
    byte = lambda text: tuple(text.encode())
    assert split_answer(text, "Label: ", "a") == (byte("Label:"), byte(" a"))
    assert split_answer(text, "Label:", " a") == (byte("Label:"), byte(" a"))
    begin = text.specials["eos"]
    assert split_answer(text, "", "ab") == ((begin,), byte("ab"))
    words = Tokenizer(word_definition(["the", "cat"], lowercase=True))
    framed = words.with_frame(Frame.of((words.specials["bos"],), ()))
    own = [words.encode(word).tolist()[0] for word in ("the", "cat")]
    assert split_answer(framed, "the", " cat") == ((framed.specials["bos"], own[0]), (own[1],))
    with pytest.raises(ConfigError, match="no token of its own"):
        split_answer(words, "the", " ")
