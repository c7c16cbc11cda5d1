"""The engine: a request alone is a request in any company, and slots come back."""

import random
from dataclasses import replace

import pytest
import torch

import tiny
from every import slow_but
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.ragged import Pool
from glassformer.layers.cpu_kernels import ONE_DNN
from glassformer.models import ModelConfig, Transformer
from glassformer.models.packing import FORMATS, pack
from glassformer.native import Program, compiler
from glassformer.runtime import advance
from glassformer.runtime import engine as module
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode
from glassformer.runtime.engine import Engine
from glassformer.runtime.prefixes import BLOCK
from glassformer.runtime.request import Request

CONTEXT, SHARED = 150, tuple(range(70))
KINDS = [
    {"position": "rotary", "n_kv_heads": 2, "qk_norm": True, "norm": "rms"},
    {"position": "learned"},
    {"position": "alibi"},
    {"position": "buckets"},
    {"position": "rotary", "window": 20},
]
WINDOW = GenerateConfig(overflow="window")
named = pytest.mark.parametrize(
    "changes",
    slow_but(KINDS, KINDS[1], KINDS[2], KINDS[4]),
    ids=lambda c: "-".join(str(v) for v in c.values()),
)


def model_of(changes) -> Transformer:
    sizes = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_ff": 256, "max_length": CONTEXT}
    own = {"architecture": "decoder", "head": "lm", "vocab_size": 300, **sizes, **changes}
    return tiny.stir(Transformer(ModelConfig(**own), seed=1), std=0.1)


def requests(n: int, new: tuple[int, ...] = (1, 5, 40)) -> list[Request]:
    """Prompts at the edges of blocks, some with a shared beginning, some longer than what fits."""
    draw, found = random.Random(0), []
    for i in range(n):
        own = tuple(draw.randrange(300) for _ in range(draw.choice([1, 3, 63, 64, 65, 100, 129])))
        how = GenerateConfig(
            max_new_tokens=draw.choice(new),
            temperature=draw.choice([0, 1.0]),
            repetition_penalty=draw.choice([1, 1.3]),
            overflow="window",
            seed=i,
        )
        ids = SHARED + own if i % 3 == 0 else own
        found.append(Request(ids, how, ends=(7,), top=2, scores=len(ids) == 100))
    return found


def mixed(n: int, new: tuple[int, ...] = (1, 5, 40)) -> list[Request]:
    """Such requests, of which each fourth is a search."""
    found = requests(n, new)
    for at in range(3, n, 4):
        how = {"beams": 3, "n_best": 3, "max_new_tokens": 1 + at % 9, "overflow": "window"}
        config = GenerateConfig(**how, repetition_penalty=(1, 1.3)[at % 8 == 3])
        found[at] = replace(found[at], config=config, scores=False)
    return found


def news(events):
    """What a client sees of a request: every number."""
    return [(e.token, e.finish, e.scored, repr(e.error), e.hypotheses) for e in events]


def alone(model, request, **options):
    return together(model, [request], max_rows=3, shares_prefixes=False, **options)[0]


def together(model, wanted, seed=0, free=0.0, **options):
    """News of requests that arrive at random; `free` is written to free slots before each step."""
    engine, draw = Engine(model, **options), random.Random(seed)
    todo, numbers = list(range(len(wanted))), {}
    found = [[] for _ in wanted]
    draw.shuffle(todo)
    while todo or not engine.idle:
        while todo and draw.random() < 0.5:
            at = todo.pop()
            numbers[engine.add(wanted[at])] = at
        engine.pool.numbers[:, :, :, engine.pool.users == 0] = free
        for event in engine.step():
            assert event.error is None or str(event.error) in ("poison", "Panic")
            found[numbers[event.request]].append(event)
    assert engine.pool.n_free + BLOCK * len(engine.prefixes.blocks) + 1 == engine.pool.n_slots
    return [news(events) for events in found]


@pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@named
def test_a_request_is_the_same_alone_and_in_any_company(changes, threads):
    """Tokens, log-probabilities, alternatives: equal bits; free slots may hold anything."""
    torch.set_num_threads(threads)
    model, wanted = model_of(changes), mixed(12, new=(1, 5, 24))
    expected = [alone(model, one) for one in wanted]
    room = Pool.slot_bytes(2, model.config.kv_heads, 16, torch.float32) * 4 * BLOCK
    for options in ({"max_rows": 16}, {"max_rows": 5, "cache_bytes": room}):
        assert together(model, wanted, free=torch.nan, seed=len(options), **options) == expected


@pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_the_same_beside_texts_of_its_length(threads):
    """One call of attention for all of them would have other bits with two threads."""
    torch.set_num_threads(threads)
    model, how = model_of(KINDS[0]), GenerateConfig(max_new_tokens=10, temperature=0)
    wanted = [Request((i, 1, 2), how, top=2) for i in range(6)]
    expected = [alone(model, one) for one in wanted]
    engine, found = Engine(model), [[] for _ in wanted]
    numbers = {engine.add(one): at for at, one in enumerate(wanted)}
    while not engine.idle:
        for event in engine.step():
            found[numbers[event.request]].append(event)
    assert [news(events) for events in found] == expected


@pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
@pytest.mark.parametrize("bits", ["fp32", *FORMATS])
def test_it_is_the_same_with_packed_matrices(bits):
    """And with two threads."""
    torch.set_num_threads(2)
    model, wanted = model_of(KINDS[1]).eval(), mixed(6, new=(1, 9))
    pack(model, bits)
    expected = [alone(model, one) for one in wanted]
    assert together(model, wanted, free=torch.nan) == expected


@pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
def test_without_the_rules_bits_depend_on_the_company(monkeypatch):
    model, wanted = model_of(KINDS[0]), requests(6)
    monkeypatch.setattr(advance, "MIN_ROWS", 1)
    assert together(model, wanted) != [alone(model, one) for one in wanted]


@named
def test_it_decodes_what_the_loop_decodes(changes):
    model = model_of(changes)
    for request in requests(12, new=(1, 5, 24)):
        steps = list(decode(model, [list(request.prompt)], request.config, request.ends))
        tokens = [token for token, *_ in alone(model, request)]
        assert [token.id for token in tokens] == [step.ids[0] for step in steps]
        expected = [step.log_probs[0] for step in steps]
        # other shapes of products: rounding of float32 through two layers
        assert [token.log_prob for token in tokens] == pytest.approx(expected, abs=2e-5)


def test_a_scored_prompt_has_the_log_probability_of_each_token():
    model, request = model_of(KINDS[0]), requests(12)[11]
    assert BLOCK < len(request.prompt) <= CONTEXT
    (_, _, prompt, *_), *_ = alone(model, request)
    with torch.inference_mode():
        logits = model(torch.tensor([request.prompt])).logits[0].log_softmax(-1)
    assert tuple(scored.id for scored in prompt) == request.prompt
    assert prompt[0].log_prob is None
    for at, scored in enumerate(prompt[1:]):
        assert scored.log_prob == pytest.approx(float(logits[at, scored.id]), abs=2e-5)
        best = logits[at].topk(2)
        assert [index for index, _ in scored.top] == best.indices.tolist()


class Panic(BaseException):
    """As libraries in other languages raise it."""


@pytest.mark.parametrize(
    ("fault", "beams"),
    [
        (MemoryError("poison"), 2),
        (Panic("poison"), 0),
        pytest.param(MemoryError("poison"), 0, marks=pytest.mark.slow),
        pytest.param(Panic("poison"), 2, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_a_failing_request_ends_alone(monkeypatch, fault, beams):
    model, wanted = model_of(KINDS[0]), mixed(12)
    expected = [alone(model, one) for one in wanted]
    poison = Request((299, 299, 299), GenerateConfig(max_new_tokens=5, beams=beams))
    inside = model.embed.forward

    def forward(ids, *others):
        if bool((ids == 299).sum() >= 2):
            raise fault
        return inside(ids, *others)

    monkeypatch.setattr(model.embed, "forward", forward)
    *others, last = together(model, [*wanted, poison])
    assert others == expected
    known = fault if isinstance(fault, Exception) else RuntimeError("Panic")
    assert last == [(None, None, (), repr(known), ())]


def test_aborted_requests_give_their_slots_back_at_once():
    model, draw = model_of(KINDS[0]), random.Random(0)
    engine = Engine(model, max_rows=6, shares_prefixes=False)
    empty, live = engine.pool.n_free, set()
    for request in mixed(40):
        live.add(engine.add(request))
        gone = {event.request for event in engine.step() if event.finish}
        live -= gone
        if live and draw.random() < 0.7:
            engine.abort(number := draw.choice(sorted(live)))
            live.remove(number)
            assert all(one.number != number for one in (*engine.queue.waiting, *engine.running))
        held = sum(one.n_own for one in engine.running)
        listed = [one.slots for one in engine.searches.values()]
        assert engine.pool.n_free == empty - held - sum(len(set(own.tolist())) for own in listed)
    for number in live:
        engine.abort(number)
    engine.abort(1_000_000)
    assert engine.idle
    assert engine.pool.n_free == empty


def test_prefixes_are_shared_within_a_salt_alone():
    model = model_of(KINDS[0])
    engine = Engine(model)
    how = GenerateConfig(max_new_tokens=2, temperature=0)
    one = Request((*SHARED, 1, 2), how, salt=b"a")
    hits = []
    for request in (one, one, replace(one, prompt=(*SHARED[1:], 1, 2)), replace(one, salt=b"b")):
        engine.add(request)
        while not engine.idle:
            engine.step()
        hits.append(engine.prefixes.hits)
    assert hits == [0, 1, 1, 1]


def test_the_least_recently_used_prefix_makes_room():
    model = model_of(KINDS[0])
    size = Pool.slot_bytes(2, 2, 16, torch.float32)
    engine = Engine(model, cache_bytes=(1 + 2 * BLOCK + 20) * size)
    for begin in (0, 1, 0, 2):  # each needs 70 slots and leaves 64, of which two find room
        engine.add(Request(tuple(range(begin, begin + 70)), GenerateConfig(max_new_tokens=1)))
        while not engine.idle:
            engine.step()
    first, last = (module.keys(range(begin, begin + 70), b"")[0] for begin in (0, 2))
    assert tuple(engine.prefixes.blocks) == (first, last)


def test_a_long_prompt_is_read_between_the_tokens_of_others(monkeypatch):
    model, sizes = model_of(KINDS[0]), []
    engine = Engine(model)
    inside = model.embed.forward
    monkeypatch.setattr(
        model.embed,
        "forward",
        lambda ids, *more: (sizes.append(ids.numel()), inside(ids, *more))[1],
    )
    how = GenerateConfig(max_new_tokens=20, temperature=0)
    first = engine.add(Request((1,), how))
    engine.step()
    engine.add(Request(tuple(range(140)), GenerateConfig(max_new_tokens=1)))
    for _ in range(5):
        assert first in {event.request for event in engine.step()}
    assert sizes[1:] == [1 + 32, 1 + 32, 1 + 32, 1 + 32, 1 + 12]
    engine.abort(first)
    engine.add(Request(tuple(range(140)), GenerateConfig(max_new_tokens=1), salt=b"another"))
    assert len(engine.step()) == 1  # alone, at once
    assert sizes[6:] == [140]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request((), WINDOW), "empty"),
        (Request((300,), WINDOW), "300"),
        (Request((1,) * 151, GenerateConfig()), "151 tokens"),
        (Request((1,) * 151, WINDOW, scores=True), "not all of them"),
        (Request((1,), GenerateConfig(beams=17, max_new_tokens=1)), "beams=17"),
        (Request((1,) * 100, GenerateConfig(max_new_tokens=1)), "make the cache larger"),
    ],
    ids=["empty", "id", "long", "scored", "beams", "cache"],
)
def test_what_cannot_run_is_refused(request_, words):
    model = model_of(KINDS[0])
    size = Pool.slot_bytes(2, 2, 16, torch.float32)
    engine = Engine(model, cache_bytes=100 * size)
    with pytest.raises(ConfigError, match=words):
        engine.add(request_)
    assert engine.idle


def test_a_cache_without_room_is_refused():
    with pytest.raises(ConfigError, match="at least"):
        Engine(model_of(KINDS[0]), cache_bytes=1000)


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_a_thousand_requests_in_twenty_schedules(table, compiled):
    """D1: 3 to 64 texts and searches at the same time, with and without shared prefixes, small pools. Torch's bits are
    those of a number of threads: a product with two of them sums in another order."""
    if not (compiler() if compiled else ONE_DNN):
        pytest.skip("no C compiler, or no oneDNN, whose promise it is")
    model, wanted = model_of(KINDS[0]).eval(), mixed(1000, new=(1, 4, 9))
    if compiled:
        pack(model, "int8")
        model.compiled_step = Program(model)
    differing, block, expected = 0, BLOCK * Pool.slot_bytes(2, 2, 16, torch.float32), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        if not (compiled and expected):
            expected = [alone(model, one) for one in wanted]
        for schedule in range(10):
            draw = random.Random(10 * threads + schedule)
            rows, blocks = draw.choice([3, 5, 16, 64]), draw.choice([5, 9, 40, 300])
            options = {"max_rows": rows, "cache_bytes": blocks * block, "seed": schedule}
            found = together(model, wanted, shares_prefixes=bool(schedule % 2), **options)
            differing += sum(a != b for a, b in zip(found, expected, strict=True))
    kind = "8 bits by the compiled step" if compiled else "float32 by torch"
    table("D1", f"{kind}, 1,000 requests in 20 schedules: {differing} of 20,000 differ in any bit")
    assert differing == 0


def test_a_hook_says_which_tokens_may_come():
    """Odd and even ones in turn; log-probabilities stay the model's own."""
    model, odd = model_of(KINDS[0]), torch.arange(300) % 2 == 1
    how = GenerateConfig(max_new_tokens=8, seed=1)
    request = Request((1, 2, 3), how, allowed=lambda new: odd ^ (len(new) % 2 == 1))
    found = [token for token, *_ in alone(model, request)]
    tokens = [token.id for token in found]
    assert [index % 2 for index in tokens] == [1, 0] * 4
    with torch.inference_mode():
        logits = model(torch.tensor([[1, 2, 3, *tokens]])).logits[0].log_softmax(-1)
    expected = [float(logits[2 + at, index]) for at, index in enumerate(tokens)]
    assert [token.log_prob for token in found] == pytest.approx(expected, abs=2e-5)
