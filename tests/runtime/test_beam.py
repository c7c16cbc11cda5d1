"""Beam search: a plain search without cache, batch or early stop finds the same; k = 1 is greedy;
rows are alone."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.layers.attention.ragged import Pool
from glassformer.runtime import memory
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode
from glassformer.runtime.selectors.beam_search import BeamSearch
from glassformer.runtime.selectors.hypotheses import Beams
from glassformer.tasks.predictors.likelihood import likelihoods, score

BOTH = {"architecture": "encoder_decoder"}
KINDS = [
    *(BOTH | {"position": kind} for kind in tiny.POSITIONS),
    BOTH | {"position": "rotary", "window": 4, "n_kv_heads": 2, "qk_norm": True},
    {"position": "learned"},
    {"position": "rotary", "n_kv_heads": 1},
    {"position": "alibi", "window": 5},
]
named = pytest.mark.parametrize(
    "changes", tiny.usual(*KINDS), ids=lambda c: "-".join(str(v) for v in c.values())
)


def how(beams: int, **changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 9, "beams": beams} | changes)


def row(length: int, seed: int) -> list[int]:
    return tiny.tokens(1, length, seed=seed)[0].tolist()


def source_of(model, sources):
    return sources if model.config.architecture == "encoder_decoder" else None


def search(model, prompts, sources, config, ends=(), limits=None):
    return beam_search(model, prompts, config, ends, source_of(model, sources), limits)


def plainly(
    model, prompt, source, config, ends, limit
) -> list[tuple[list[int], list[float], float, bool]]:
    """The search by its definition, recomputing everything at every step."""

    def table(live: list[list[int]]) -> list[list[float]]:
        read = None if source is None else Batch(torch.tensor([source] * len(live)))
        with torch.no_grad():
            logits = model(Batch(torch.tensor([prompt + ids for ids in live]), source=read)).logits
        return logits[:, -1].log_softmax(-1).tolist()

    return defined(table, config, ends, limit)


def defined(table_of, config, ends, limit) -> list[tuple[list[int], list[float], float, bool]]:
    """The definition: at every step every continuation of every live hypothesis is ranked; nothing
    stops early."""
    live, finished = [([], [])], []
    for _ in range(limit):
        if not live:
            break
        table = table_of([ids for ids, _ in live])
        offers = [
            (-sum([*log_probs, log_prob]), at, token)
            for at, (_, log_probs) in enumerate(live)
            for token, log_prob in enumerate(table[at])
        ]
        chosen = sorted(offers)[: config.beams - len(finished)]
        grown = [
            (live[at][0] + [token], live[at][1] + [table[at][token]]) for _, at, token in chosen
        ]
        finished += [one for one in grown if one[0][-1] in ends]
        live = [one for one in grown if one[0][-1] not in ends]
    rank = lambda ones, end: sorted(
        ((ids, gains, sum(gains) / len(ids) ** config.length_penalty, end) for ids, gains in ones),
        key=lambda o: -o[2],
    )
    return (rank(finished, True) + rank(live, False))[: config.n_best]


def assert_same(found, expected):
    """Hypotheses, or tuples of their fields."""
    fields = lambda one: (
        one if isinstance(one, tuple) else (one.ids, one.log_probs, one.score, one.finished)
    )
    found, expected = [fields(one) for one in found], [fields(one) for one in expected]
    assert [(one[0], one[3]) for one in found] == [(one[0], one[3]) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one[1] == pytest.approx(other[1], abs=1e-10)
        assert one[2] == pytest.approx(other[2], rel=1e-10)


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([0.0, 1.0, 2.5, -0.5, -2.0]),
    st.integers(0, 3),
)
@settings(max_examples=100)
def test_the_choices_are_those_of_the_definition_for_any_probabilities(
    seed, beams, n_best, penalty, n_ends
):
    """A model of dice: log p depends on the sentence, the step and the last token, and falls and
    rises at will."""
    config, ends, size = (
        how(beams, n_best=min(n_best, beams), length_penalty=penalty),
        range(n_ends),
        5,
    )
    generator = torch.Generator().manual_seed(seed)
    limits = torch.randint(1, 13, (12,), generator=generator).tolist()
    dice = 3 * torch.randn(
        len(limits), 12, size + 1, size, generator=generator, dtype=torch.float64
    )
    dice = dice.log_softmax(-1)
    search = Beams(config, list(ends))
    search.begin(limits)
    lasts, sentences = torch.full((len(limits),), size), torch.arange(len(limits))
    for step in range(12):
        ranked = dice[sentences, step, lasts].sort(dim=-1, descending=True, stable=True)
        offered = min(search.widest, size)
        offers = ranked.values[:, :offered].numpy(), ranked.indices[:, :offered].numpy()
        chosen = search.extend(*offers)
        if not chosen.live.any():
            break
        lasts = torch.from_numpy(chosen.tokens[chosen.live])
        sentences = torch.from_numpy(search.sentence)
    for at, limit in enumerate(limits):
        table = lambda live, at=at: [
            dice[at, len(ids), ids[-1] if ids else size].tolist() for ids in live
        ]
        assert_same(search.best(at), defined(table, config, ends, limit))


@named
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([1.0, 0.0, 0.6, 2.5, -1.0]),
    st.sets(st.integers(0, 12), max_size=5),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3),
    st.integers(0, 9),
)
@settings(max_examples=5)
def test_the_plain_search_without_cache_batch_or_early_stop_finds_the_same(
    changes, beams, n_best, penalty, ends, lengths, seed
):
    model = tiny.model(**changes)
    config = how(beams, n_best=min(n_best, beams), length_penalty=penalty)
    prompts = [row(n, seed=seed + at) for at, (n, _) in enumerate(lengths)]
    sources = [row(n, seed=50 + seed + at) for at, (_, n) in enumerate(lengths)]
    limits = [9 - at for at in range(len(prompts))]
    found = search(model, prompts, sources, config, sorted(ends), limits=limits)
    for at, prompt in enumerate(prompts):
        source = sources[at] if model.config.architecture == "encoder_decoder" else None
        assert_same(found[at], plainly(model, prompt, source, config, ends, limits[at]))


@named
def test_a_beam_of_one_is_greedy_decoding_token_by_token(changes):
    model, ends = tiny.model(**changes), (3, 5)
    prompts, sources = [row(2, 1), row(4, 2), row(1, 3)], [row(3, 4), row(6, 5), row(1, 6)]
    ids, log_probs = [[] for _ in prompts], [[] for _ in prompts]
    greedy = GenerateConfig.parse({"temperature": 0, "max_new_tokens": 9})
    for step in decode(model, prompts, greedy, ends, source_of(model, sources)):
        for at, token, log_prob in zip(step.rows, step.ids, step.log_probs, strict=True):
            ids[at].append(token)
            log_probs[at].append(log_prob)
    found = search(model, prompts, sources, how(1), ends)
    assert [[one.ids for one in ones] for ones in found] == [[one] for one in ids]
    for (one,), gains in zip(found, log_probs, strict=True):
        assert one.log_probs == pytest.approx(gains, abs=1e-10)
        assert one.finished == (one.ids[-1] in ends)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), min_size=2, max_size=5),
    st.sets(st.integers(0, 12), max_size=4),
    st.integers(1, 4),
    st.sampled_from(KINDS),
)
@settings(max_examples=10)
def test_a_batch_equals_its_sentences_alone(lengths, ends, beams, changes):
    model, config = tiny.model(**changes), how(beams, n_best=beams)
    prompts = [row(n, seed=at) for at, (n, _) in enumerate(lengths)]
    sources = [row(n, seed=20 + at) for at, (_, n) in enumerate(lengths)]
    together = search(model, prompts, sources, config, sorted(ends))
    for at, prompt in enumerate(prompts):
        assert_same(together[at], search(model, [prompt], [sources[at]], config, sorted(ends))[0])


@named
def test_forced_decoding_of_a_hypothesis_gives_its_log_probabilities_and_score(changes):
    model = tiny.model(**changes)
    prompts, sources = [row(1, 1), row(1, 2)], [row(3, 3), row(7, 4)]
    config = how(4, n_best=4, length_penalty=0.7)
    for at, ones in enumerate(search(model, prompts, sources, config, (2, 9, 11))):
        assert len(ones) == 4
        for one in ones:
            read = source_of(model, [sources[at]])
            alone = score(model, one.ids, read and Batch.padded(read), prompts[at])
            assert alone == pytest.approx(one.log_probs, abs=1e-10)
            assert sum(alone) / len(alone) ** 0.7 == pytest.approx(one.score, rel=1e-10)


def test_forced_decoding_of_a_batch_is_that_of_its_rows():
    model = tiny.model(**BOTH)
    targets, sources = [row(5, 1), row(1, 2), row(32, 3)], [row(3, 4), row(8, 5), row(1, 6)]
    pairs = [(tuple(source), tuple(own)) for source, own in zip(sources, targets, strict=True)]
    for (source, target), one in zip(pairs, likelihoods(model, pairs, begin=1), strict=True):
        alone = score(model, target, Batch.padded([source]), [1])
        assert one.log_probs == pytest.approx(alone, abs=1e-10)
    for wrong, message in (
        ((), "Pair 1 has no prompt or no answer"),
        ((1,) * 33, "its answer 33, and the context is 32"),
    ):
        with pytest.raises(ConfigError, match=message):
            likelihoods(model, [((1,), wrong)], begin=1)


def flat(**changes):
    """A model for which every token is equally likely after anything."""
    model = copy.deepcopy(tiny.model(**changes, tied=False))
    torch.nn.init.zeros_(model.head.weight)
    return model


@pytest.mark.parametrize("ends", [(), (0,), (1, 4), (12,)])
def test_of_equals_the_earlier_in_the_beam_and_the_lower_token_comes_first(ends):
    model, config = flat(**BOTH), how(4, n_best=4, max_new_tokens=4)
    expected = plainly(model, [1], [2, 3], config, ends, 4)
    for ones in beam_search(model, [[1]] * 3, config, ends, [[2, 3], [5], row(7, 1)]):
        assert_same(ones, expected)


def counted(monkeypatch) -> list[int]:
    """How many rows each step of the search reads."""
    found, piece = [], BeamSearch.piece
    noted = lambda search: found.append(len(search.owners)) or piece(search)
    monkeypatch.setattr(BeamSearch, "piece", noted)
    return found


def test_the_batch_shrinks_as_beams_narrow_and_sentences_end(monkeypatch):
    rows = counted(monkeypatch)
    beam_search(tiny.model(), [[1], [2]], how(5, n_best=5, max_new_tokens=20), (12,))
    assert rows[0] == 2
    assert 10 >= rows[1] > rows[-1]
    assert rows[1:] == sorted(rows[1:], reverse=True)


@pytest.mark.parametrize("penalty", [0.0, -1.0])
def test_a_search_ends_when_nothing_live_can_win_any_more(monkeypatch, penalty):
    """Without a reward for length a live hypothesis only gets worse: this search need not last its
    30 steps."""
    rows = counted(monkeypatch)
    best = beam_search(
        tiny.model(), [[1]], how(4, max_new_tokens=30, length_penalty=penalty), (12,)
    )[0][0]
    assert best.finished
    assert len(best.ids) <= len(rows) < 6
    rows.clear()
    everything = beam_search(
        tiny.model(), [[1]], how(4, n_best=4, max_new_tokens=30, length_penalty=penalty), (12,)
    )[0]
    assert len(rows) > 6  # others were live
    assert everything[0] == best


@named
def test_slots_that_no_table_lists_are_used_again_and_nothing_changes(changes, monkeypatch):
    model, config = tiny.model(**changes), how(4, n_best=4, max_new_tokens=20)
    prompts, sources = [row(2, 1), row(4, 2), row(1, 3)], [row(3, 4), row(6, 5), row(1, 6)]
    expected = search(model, prompts, sources, config, (3, 5))
    taken, take = [], Pool.take

    def noted(pool, *which, **how):
        found = take(pool, *which, **how)
        taken.append(found.tolist())
        return found

    monkeypatch.setattr(Pool, "take", noted)
    for ones, others in zip(search(model, prompts, sources, config, (3, 5)), expected, strict=True):
        assert_same(ones, others)
    assert len({slot for own in taken for slot in own}) < sum(map(len, taken))


def test_five_beams_share_the_memory_of_what_they_have_in_common(monkeypatch):
    """Allocated slots, over a source of 512 elements."""
    model, sizes = tiny.model(**BOTH, max_length=600), dict[int, int]()
    for beams in (1, 5):
        made = list[Pool]()
        monkeypatch.setattr(
            memory, "Pool", lambda *a, made=made, **b: made.append(Pool(*a, **b)) or made[-1]
        )
        ones = beam_search(model, [[1]], how(beams, max_new_tokens=40), (), [row(512, 1)])
        assert len(ones[0][0].ids) == 40
        sizes[beams] = made[0].n_slots
    assert sizes[5] <= 1.3 * sizes[1] + 5 * 40


def test_what_is_cut_off_stands_behind_what_ended_even_with_a_better_score():
    model = tiny.model()
    ones = beam_search(model, [[1]], how(5, n_best=5, max_new_tokens=6), (12,))[0]
    flags = [one.finished for one in ones]
    assert flags == sorted(flags, reverse=True)
    assert {True, False} == set(flags)
    assert any(
        cut.score > whole.score
        for cut in ones
        if not cut.finished
        for whole in ones
        if whole.finished
    )


@pytest.mark.parametrize("changes", [BOTH, {}], ids=["encoder_decoder", "decoder"])
def test_a_target_ends_where_the_context_does(changes):
    model = tiny.model(**changes, max_length=7)
    found = search(model, [[1], [1, 2, 3]], [[1], [2]], how(2, max_new_tokens=50))
    assert [len(ones[0].ids) for ones in found] == [7, 5]


def test_a_prompt_longer_than_the_context_goes_on_from_its_last_half():
    model, long = tiny.model(max_length=8), row(20, 1)
    with pytest.raises(ConfigError, match="has 20 tokens and the context 8"):
        beam_search(model, [long], how(3))
    found = beam_search(model, [long, [1]], how(3, overflow="window"))
    assert_same(found[0], beam_search(model, [long[-4:]], how(3))[0])


def test_the_source_is_encoded_and_its_keys_computed_once():
    model = copy.deepcopy(tiny.model(**BOTH))
    calls, encode = [], model.encode
    model.encode = lambda batch: calls.append("encode") or encode(batch)
    for block in model.decoder.blocks:
        block.cross.k_proj.register_forward_hook(lambda *_: calls.append("keys"))
    beam_search(model, [[1]] * 2, how(3), (4,), [[1, 2], [3]])
    assert sorted(calls) == ["encode", "keys", "keys"]
    calls.clear()
    list(
        decode(
            model,
            [[1]] * 2,
            GenerateConfig.parse({"max_new_tokens": 9}),
            (4,),
            [[1, 2], [3]],
        )
    )
    assert sorted(calls) == ["encode", "keys", "keys"]


def test_more_hypotheses_than_tokens():
    ones = beam_search(tiny.model(), [[1]], how(20, n_best=20, max_new_tokens=1))[0]
    assert sorted(one.ids[0] for one in ones) == list(range(13))
    assert len(beam_search(tiny.model(), [[1]], how(20, n_best=20, max_new_tokens=2))[0]) == 20


def test_no_prompts_give_no_hypotheses():
    assert beam_search(tiny.model(), [], how(2)) == []


def test_what_cannot_be_searched_is_said():
    decoder, both = tiny.model(), tiny.model(**BOTH, source_vocab_size=6)
    with pytest.raises(ConfigError, match="An encoder-decoder reads a source"):
        beam_search(both, [[1]], how(2))
    with pytest.raises(ConfigError, match="a model of architecture='decoder' reads none"):
        beam_search(decoder, [[1]], how(2), (), [[1]])
    with pytest.raises(ConfigError, match="2 sources were given for 1 targets"):
        beam_search(both, [[1]], how(2), (), [[1], [2]])
    with pytest.raises(
        ConfigError, match="The source holds token id 6; this model's sources run from 0 to 5"
    ):
        beam_search(both, [[1]], how(2), (), [[1, 6]])
    with pytest.raises(ConfigError, match="The source is empty"):
        beam_search(both, [[1]], how(2), (), [[]])
    with pytest.raises(ConfigError, match="The prompt is empty"):
        beam_search(both, [[]], how(2), (), [[1]])
    with pytest.raises(ConfigError, match="beams=0"):
        beam_search(decoder, [[1]], GenerateConfig())
    with pytest.raises(ConfigError, match="beams=3; use beam_search"):
        next(decode(decoder, [[1]], how(3)))
    with pytest.raises(ConfigError, match="Only a decoder or encoder-decoder"):
        beam_search(tiny.model(architecture="encoder"), [[1]], how(2))


def test_damaged_weights_are_said_and_the_mode_is_given_back():
    model = copy.deepcopy(tiny.model(**BOTH)).train()
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(GlassformerError, match="not a number"):
        beam_search(model, [[1]], how(2), (), [[1]])
    assert model.training
    assert not torch.is_inference_mode_enabled()


def test_dropout_is_off_while_searching():
    model = copy.deepcopy(tiny.model(**BOTH, dropout=0.5)).train()
    found = beam_search(model, [[1]], how(3), (4,), [[1, 2]])
    assert found == beam_search(copy.deepcopy(model).eval(), [[1]], how(3), (4,), [[1, 2]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beams": 2, "temperature": 0}, "temperature=0.0 is for sampling and beams=2 searches"),
        ({"beams": 1, "top_k": 3}, "top_k=3 is for sampling"),
        ({"beams": 1, "top_p": 0.5}, "top_p=0.5 is for sampling"),
        ({"beams": 1, "min_p": 0.5}, "min_p=0.5 is for sampling"),
        ({"beams": 2, "n_best": 3}, "n_best=3 is more than beams=2; raise beams"),
        ({"n_best": 2}, "n_best=2 is more than beams=0"),
        ({"beams": -1}, r"generate\.beams"),
        ({"beams": 1, "length_penalty": "nan"}, r"generate\.length_penalty"),
    ],
)
def test_choices_that_exclude_each_other_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        GenerateConfig.parse(values)
