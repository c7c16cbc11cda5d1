"""The decoding loop: a batch is its rows one by one, the cache is no cache, and nothing leaks to
the caller."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.data.collate import split_rows
from glassformer.models import Transformer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode

KINDS = [
    *({"position": kind} for kind in tiny.POSITIONS),
    {"position": "rotary", "window": 5},
    {"position": "rotary", "n_kv_heads": 2, "qk_norm": True, "norm": "rms"},
]
named = pytest.mark.parametrize(
    "changes", tiny.usual(*KINDS), ids=lambda c: "-".join(str(v) for v in c.values())
)


def how(**changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 12, "overflow": "window"} | changes)


def run(model, prompts, config, ends=()):
    """Ids and log-probabilities of every row."""
    ids, log_probs = [[] for _ in prompts], [[] for _ in prompts]
    for step in decode(model, prompts, config, ends):
        for row, token, log_prob in zip(step.rows, step.ids, step.log_probs, strict=True):
            ids[row].append(token)
            log_probs[row].append(log_prob)
    return ids, log_probs


def prompt(length: int, seed: int = 0) -> list[int]:
    return tiny.tokens(1, length, seed=seed)[0].tolist()


def assert_batch_is_rows(model, prompts, config, ends=()):
    together_ids, together_log_probs = run(model, prompts, config, ends)
    for row, one in enumerate(prompts):
        alone_ids, alone_log_probs = run(model, [one], config, ends)
        assert together_ids[row] == alone_ids[0]
        assert together_log_probs[row] == pytest.approx(alone_log_probs[0], abs=1e-10)


@named
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_of_prompts_of_different_lengths_equals_its_rows_alone(changes, temperature):
    prompts = [prompt(length, seed=length) for length in (1, 9, 4, 9)]
    assert_batch_is_rows(tiny.model(**changes), prompts, how(temperature=temperature, seed=3))


@named
def test_rows_that_overflow_the_context_equal_those_rows_alone(changes):
    prompts = [prompt(length, seed=length) for length in (30, 2, 50)]
    assert_batch_is_rows(tiny.model(**changes), prompts, how(max_new_tokens=20, seed=1))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sets(st.integers(0, 12), max_size=6),
    st.integers(0, 5),
    st.sampled_from(KINDS[:4]),
)
@settings(max_examples=12)
def test_rows_that_stop_at_different_steps_equal_those_rows_alone(lengths, ends, seed, changes):
    prompts = [prompt(length, seed=at) for at, length in enumerate(lengths)]
    assert_batch_is_rows(
        tiny.model(**changes), prompts, how(max_new_tokens=20, seed=seed), sorted(ends)
    )


@named
def test_greedy_equals_the_likeliest_token_by_full_recomputation(changes):
    model, row, expected, log_probs = tiny.model(**changes), prompt(5), [], []
    with torch.no_grad():
        for _ in range(20):
            logits = model(torch.tensor([[*row, *expected]])).logits[0, -1]
            expected.append(int(logits.argmax()))
            log_probs.append(float(logits.log_softmax(0)[expected[-1]]))
    ids, given_log_probs = run(model, [row], how(max_new_tokens=20, temperature=0))
    assert ids[0] == expected
    assert given_log_probs[0] == pytest.approx(log_probs, abs=1e-10)


def test_a_full_row_goes_on_from_the_last_half_of_the_context():
    """Recomputed by the definition: never more than the context, and after a cut exactly half of it
    is kept."""
    model, context = tiny.model(), 32
    row, begin = prompt(40), 40 - context // 2
    expected = []
    with torch.no_grad():
        for _ in range(40):
            whole = [*row, *expected]
            if len(whole) - begin > context:
                begin = len(whole) - context // 2
            expected.append(int(model(torch.tensor([whole[begin:]])).logits[0, -1].argmax()))
    assert run(model, [row], how(max_new_tokens=40, temperature=0))[0][0] == expected


def with_source(model, prompts, sources, config, ends=(), side="right"):
    """Ids of every row of an encoder-decoder; sources padded on a side."""
    lengths = [len(ids) for ids in sources]
    fill = lambda ids: [7] * (max(lengths) - len(ids))
    elements = [ids + fill(ids) if side == "right" else fill(ids) + ids for ids in sources]
    source = Batch(torch.tensor(elements), Positions.pad(lengths, side))
    ids = [[] for _ in prompts]
    for step in decode(model, prompts, config, ends, split_rows(source)):
        for row, token in zip(step.rows, step.ids, strict=True):
            ids[row].append(token)
    return ids


@pytest.mark.parametrize("position", ["sinusoidal", "buckets", "rotary"])
def test_greedy_with_a_source_is_recomputation_also_beyond_the_context(position):
    model, context = (
        tiny.model(architecture="encoder_decoder", position=position, max_length=10),
        10,
    )
    source, row, begin = prompt(6, seed=1), [1], 0
    with torch.no_grad():
        for _ in range(25):
            begin = len(row) - context // 2 if len(row) - begin > context else begin
            logits = model(
                Batch(torch.tensor([row[begin:]]), source=Batch(torch.tensor([source])))
            ).logits
            row.append(int(logits[0, -1].argmax()))
    config = how(max_new_tokens=25, temperature=0)
    assert with_source(model, [[1]], [source], config) == [row[1:]]
    # beside others, of which one ends before and one after the first cut
    others = with_source(
        model,
        [[2], [1], [3, 4, 5]],
        [prompt(3), source, prompt(8)],
        config,
        (row[9], row[18]),
        "left",
    )
    assert (
        others[1]
        == row[1 : 1 + next(i for i, token in enumerate(row[1:], 1) if token in (row[9], row[18]))]
    )


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7)), min_size=1, max_size=4),
    st.sets(st.integers(0, 12), max_size=4),
    st.sampled_from(["left", "right"]),
    st.sampled_from(tiny.POSITIONS),
)
@settings(max_examples=12)
def test_targets_of_a_batch_of_sources_equal_those_alone(lengths, ends, side, position):
    model, config = tiny.model(architecture="encoder_decoder", position=position), how(seed=2)
    prompts = [prompt(n, seed=at) for at, (n, _) in enumerate(lengths)]
    sources = [prompt(n, seed=9 + at) for at, (_, n) in enumerate(lengths)]
    together = with_source(model, prompts, sources, config, sorted(ends), side)
    for row, (one, source) in enumerate(zip(prompts, sources, strict=True)):
        assert with_source(model, [one], [source], config, sorted(ends)) == [together[row]]


def test_log_probabilities_are_the_models_own_whatever_the_sampling():
    model, row = tiny.model(), prompt(6)
    ids, log_probs = run(model, [row], how(temperature=3.0, top_k=5, repetition_penalty=2.0))
    with torch.no_grad():
        whole = model(torch.tensor([row + ids[0]])).logits[0].log_softmax(-1)
    assert log_probs[0] == pytest.approx(
        [float(whole[5 + i, token]) for i, token in enumerate(ids[0])], abs=1e-10
    )


def test_a_prompt_longer_than_the_context_is_refused_unless_a_window_is_asked_for():
    config = how(overflow="refuse")
    with pytest.raises(ConfigError, match=r"has 33 tokens and the context 32.*--overflow window"):
        run(tiny.model(), [prompt(33)], config)
    assert len(run(tiny.model(), [prompt(32)], config)[0][0]) == 12
    assert len(run(tiny.model(), [prompt(33)], how(overflow="window"))[0][0]) == 12


def test_one_bad_prompt_of_a_batch_is_named():
    with pytest.raises(ConfigError, match="The prompt is empty"):
        run(tiny.model(), [[1], []], how())
    with pytest.raises(ConfigError, match="token id 13; this model's ids run from 0 to 12"):
        run(tiny.model(), [[1], [2, 13]], how())
    with pytest.raises(ConfigError, match="token id -1"):
        run(tiny.model(), [[-1]], how())


def test_no_prompts_give_no_steps():
    assert list(decode(tiny.model(), [], how())) == []


@pytest.mark.parametrize("changes", [{"architecture": "encoder"}, {"head": "tag", "n_classes": 3}])
def test_only_a_decoder_with_a_language_model_head_is_decoded(changes):
    with pytest.raises(
        ConfigError, match="Only a decoder or encoder-decoder with a language model head"
    ):
        run(tiny.model(**changes), [[1, 2]], how())


def test_an_end_token_ends_its_row_and_is_the_last():
    model = tiny.model()
    free = run(model, [prompt(3)], how(max_new_tokens=30, seed=4))[0][0]
    end = free[7]
    ids = run(model, [prompt(3)], how(max_new_tokens=30, seed=4), (end,))[0][0]
    assert ids == free[: free.index(end) + 1]


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33])
def test_exactly_max_new_tokens_come(n):
    assert [
        len(ids) for ids in run(tiny.model(), [prompt(3), prompt(1)], how(max_new_tokens=n))[0]
    ] == [n, n]


def test_the_same_seed_gives_the_same_tokens_and_another_one_others():
    model = tiny.model()
    first, again, other = (
        run(model, [prompt(3)], how(seed=seed, max_new_tokens=30))[0] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_random_state_of_the_program_is_neither_read_nor_changed():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = run(tiny.model(), [prompt(3)], how())[0]
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert run(tiny.model(), [prompt(3)], how())[0] == first


def dropping() -> Transformer:
    """A model whose output would differ in training mode."""
    return copy.deepcopy(tiny.model(dropout=0.5)).train()


def assert_untouched(model):
    assert model.training
    assert all(module.training for module in model.modules())
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_modes_are_the_callers_own_between_steps_and_after_an_early_close():
    model = dropping()
    steps = decode(model, [prompt(3), prompt(30)], how(max_new_tokens=20))
    assert_untouched(model)
    for _ in range(8):
        next(steps)
        assert_untouched(model)
        assert torch.ones(1, requires_grad=True).mul(2).requires_grad
    steps.close()
    assert_untouched(model)


def test_modes_are_the_callers_own_after_an_error():
    model = dropping()
    steps = decode(model, [prompt(3)], how())
    next(steps)
    with pytest.raises(RuntimeError, match="thrown in"):
        steps.throw(RuntimeError("thrown in"))
    assert_untouched(model)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(GlassformerError, match="not a number"):
        run(model, [prompt(3)], how())
    assert_untouched(model)


def test_inference_mode_of_the_caller_stays_on():
    with torch.inference_mode():
        for _ in decode(tiny.model(), [prompt(3)], how()):
            assert torch.is_inference_mode_enabled()


def test_a_model_can_be_trained_while_it_generates():
    """A step of training between two steps of decoding: nothing that decoding left behind is an
    inference tensor."""
    for changes in KINDS:
        model = copy.deepcopy(tiny.model(**changes)).train()
        steps = decode(model, [prompt(3), prompt(6)], how())
        next(steps)
        model(tiny.tokens(2, 8)).logits.sum().backward()
        next(steps)
        assert all(p.grad is not None for p in model.parameters())


def test_dropout_is_off_while_decoding():
    model = dropping()
    assert run(model, [prompt(5)], how()) == run(copy.deepcopy(model).eval(), [prompt(5)], how())
