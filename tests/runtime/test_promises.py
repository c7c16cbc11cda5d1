"""What the engine promises, D2 to D7, in numbers; D1 is in test_engine.py."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from glassformer.layers.cpu_kernels import ONE_DNN
from glassformer.runtime import engine as module
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.engine import Engine
from glassformer.runtime.prefixes import BLOCK
from glassformer.runtime.request import Request, Scored
from glassformer.runtime.selectors.constraints import Rows
from glassformer.runtime.selectors.sampling import next_tokens
from glassformer.tasks.predictors.text import RowText
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer

from .test_engine import CONTEXT, KINDS, alone, model_of, news, requests, together

pytestmark = [pytest.mark.slow, pytest.mark.serving]
needs_one_dnn = pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
EDGES = (1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, CONTEXT)
CHUNKS = (1, 2, 7, 16, BLOCK - 1, BLOCK)
ROUNDING = 2e-5
"""Other shapes of products: rounding of float32 through two layers."""


def run(engine, request):
    """The events of a request in an engine that has no other."""
    engine.add(request)
    found = []
    while not engine.idle:
        found += engine.step()
    return found


def log_probs(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].log_softmax(-1)


def test_the_cache_changes_no_token(table, monkeypatch):
    """D2; quick: test_engine.py, test_it_decodes_what_the_loop_decodes and
    test_a_scored_prompt_has_the_log_probability_of_each_token."""
    draw, n, other, most = random.Random(0), 0, 0, 0.0
    for changes in KINDS:
        model = model_of(changes)
        for chunk in CHUNKS:
            monkeypatch.setattr(module, "CHUNK", chunk)
            engine = Engine(model, shares_prefixes=False)
            for length in EDGES:
                prompt = tuple(draw.randrange(300) for _ in range(length))
                new = min(5, CONTEXT + 1 - length)
                how = GenerateConfig(max_new_tokens=new, temperature=0)
                events = run(engine, Request(prompt, how, scores=True))
                tokens = [*events[0].scored[1:], *(event.token for event in events)]
                ids = [*prompt, *(event.token.id for event in events)]
                full = log_probs(model, ids[:CONTEXT])
                for at, token in enumerate(tokens):
                    n += 1
                    most = max(most, abs(token.log_prob - float(full[at, token.id])))
                    if at >= length - 1:
                        other += int(full[at].argmax()) != token.id
    table(
        "D2", f"{n:,} positions at block edges: {other} tokens differ, log p by {most:.1e} at most"
    )
    assert (other, most < ROUNDING) == (0, True)


RESTARTED = """
import json, sys
sys.path[:0] = sys.argv[1:]
import test_engine as own
import torch
torch.set_num_threads(1)
found = own.together(own.model_of(own.KINDS[0]), own.requests(200), seed=9)
print(json.dumps([[token.id for token, *_ in one] for one in found]))
"""


@needs_one_dnn
def test_a_seed_is_a_text(table):
    """D3; quick: test_engine.py, test_a_request_is_the_same_alone_and_in_any_company."""
    model, wanted = model_of(KINDS[0]), requests(200)
    ids = lambda found: [[token.id for token, *_ in one] for one in found]
    expected = ids([alone(model, one) for one in wanted])
    found = [ids(together(model, wanted, seed=seed, max_rows=seed)) for seed in (2, 5, 16, 64)]
    here = Path(__file__).parent
    command = [sys.executable, "-c", RESTARTED, str(here), str(here.parent)]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found.append(json.loads(printed))
    differing = sum(a != b for one in found for a, b in zip(one, expected, strict=True))
    seeds = [replace(one, config=one.config.model_copy(update={"seed": 999})) for one in wanted]
    moved = sum(a != b for a, b in zip(ids(together(model, seeds)), expected, strict=True))
    table("D3", f"200 seeds alone, in 4 schedules, after a restart: {differing} texts differ")
    assert differing == 0
    assert moved > 50  # half of them are greedy, or of one token


@needs_one_dnn
def test_nothing_is_read_of_others(table):
    """D4; quick: test_engine.py, test_prefixes_are_shared_within_a_salt_alone and those with NaN in
    free slots."""
    model, draw = model_of(KINDS[0]), random.Random(0)
    shared = [replace(one, salt=draw.choice([b"a", b"b"])) for one in requests(600, new=(1, 4, 9))]
    own = [replace(one, salt=str(i).encode()) for i, one in enumerate(shared)]
    expected = [alone(model, one) for one in shared]
    leaks = sum(
        a != b
        for wanted in (shared, own)
        for a, b in zip(together(model, wanted, free=torch.nan), expected, strict=True)
    )
    hits = []
    for wanted in (shared, own):
        engine = Engine(model)
        numbers = {engine.add(one): i for i, one in enumerate(wanted)}
        found = [[] for _ in wanted]
        dropped = {number for number in numbers if draw.random() < 0.3}
        while not engine.idle:
            for event in engine.step():
                found[numbers[event.request]].append(event)
            for running in [one for one in engine.running if one.number in dropped]:
                engine.abort(running.number)
                given = running.slots[engine.pool.users[running.slots] == 0]
                engine.pool.numbers[:, :, :, given] = torch.nan
        kept = {i for number, i in numbers.items() if number not in dropped}
        leaks += sum(news(found[i]) != expected[i] for i in kept)
        hits.append(engine.prefixes.hits)
    table("D4", f"1,200 texts, NaN in free slots, aborts: {leaks} leaks, {hits[1]} shared by salts")
    assert (leaks, hits[1]) == (0, 0)
    assert hits[0] > 0


SAMPLE = "the naïve café — 日本 🙂 👩‍👩‍👧 sings the song\n" * 3
TOKENIZERS = [
    train_tokenizer(TokenizerConfig.parse({"kind": kind, "vocab_size": size}), [SAMPLE])
    for kind, size in (("byte", None), ("bpe", 300))
]
STRINGS = st.text(st.sampled_from("ab é日本🙂👩\u200d👧\ufe0f🏽\u0301\ufffd\n"), max_size=20)
BYTES = st.one_of(STRINGS.map(str.encode), st.binary(max_size=12))
IDS = BYTES.map(list) | st.integers(256, 299).map(lambda index: [index])
MANY = settings(max_examples=10_000, database=None)


def shown(tokenizer, ids, stops=()):
    """The pieces of a text that is these ids, and why it ended."""
    row, pieces, finish = RowText(tokenizer, (), stops, ()), [], None
    for at, index in enumerate(ids):
        piece, finish = row.push(Scored(index, -1.0), at + 1 == len(ids))
        pieces.append(piece)
        if finish:
            break
    return pieces, finish


def test_a_stream_is_the_whole_text(table):
    """D5; quick: tests/tokenizers/test_stream.py, test_any_ids_stream_to_their_decode, and, with
    log-probabilities, usage and finish_reason, tests/serve/api/test_routes.py,
    test_a_stream_is_the_plain_reply_in_pieces."""
    counts = {"texts": 0, "replaced": 0}

    @MANY
    @given(st.lists(IDS, max_size=4), st.sampled_from(TOKENIZERS))
    def streams(parts, tokenizer):
        ids = [index for part in parts for index in part if index < tokenizer.vocab_size]
        pieces, _ = shown(tokenizer, ids)
        whole = tokenizer.decode(ids)
        assert "".join(pieces) == whole
        counts["texts"] += 1
        counts["replaced"] += "\ufffd" in whole

    streams()
    table(
        "D5", f"{counts['texts']:,} streams are the whole, {counts['replaced']:,} of broken UTF-8"
    )
    assert counts["replaced"] > 100


def ended(text, stops):
    """Character by character: the first beginning of the text that ends with a stop, without it."""
    for end in range(1, len(text) + 1):
        if found := [stop for stop in stops if text[:end].endswith(stop)]:
            return text[: end - max(map(len, found))]
    return text


def test_stop_strings_neither_leak_nor_are_missed(table):
    """D6; quick: tests/tasks/predict/test_stop.py and test_stop_strings_neither_leak_nor_swallow of
    tests/tasks/predict/test_text.py."""
    counts = {"texts": 0, "stopped": 0, "across": 0}
    letters = st.sampled_from("ab é日🙂\n")
    stop_lists = st.lists(st.text(letters, min_size=1, max_size=6), min_size=1, max_size=4)

    @MANY
    @given(st.text(letters, max_size=25), stop_lists, st.data(), st.sampled_from(TOKENIZERS))
    def stops(text, wanted, data, tokenizer):
        if data.draw(st.booleans()):
            text += data.draw(st.sampled_from(wanted))  # a stop at the end
        cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
        parts = [text[a:b] for a, b in pairwise(sorted([0, *cuts, len(text)]))]
        ids = [index for part in parts for index in tokenizer.encode(part).tolist()]
        pieces, finish = shown(tokenizer, ids, wanted)
        expected = ended(text, wanted)
        assert "".join(pieces) == expected
        assert (finish == "stop") == (expected != text)
        counts["texts"] += 1
        counts["stopped"] += finish == "stop"

    stops()
    table("D6", f"{counts['texts']:,} texts, {counts['stopped']:,} with a stop: 0 leaked, 0 missed")
    assert counts["stopped"] > 1000


def slow_law(logits, seen, how):
    """The distribution that a setting means, in float64, one token after the other."""
    u = np.array(logits, np.float64)
    for index in set(seen):
        penalty = how.get("repetition_penalty", 1.0)
        u[index] = u[index] / penalty if u[index] > 0 else u[index] * penalty
    u /= how.get("temperature", 1.0)
    order = sorted(range(len(u)), key=lambda i: (-u[i], i))[: how.get("top_k", len(u))]
    p = {i: np.exp(u[i] - u[order[0]]) for i in order}
    total, kept = sum(p.values()), 0.0
    for i in order:
        mass, kept = p[i] / total, kept + p[i] / total
        if kept - mass >= how.get("top_p", 1.0):
            p[i] = 0.0
    p = {i: mass * (mass >= how.get("min_p", 0.0)) for i, mass in p.items()}
    return np.array([p.get(i, 0.0) for i in range(len(u))]) / sum(p.values())


LAWS = [
    {"temperature": 0.6},
    {"temperature": 1.7},
    {"top_k": 5},
    {"top_p": 0.8},
    {"min_p": 0.1},
    {"repetition_penalty": 1.5},
    {"temperature": 1.3, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2},
]
N_DRAWS = 100_000


def test_tokens_are_drawn_by_their_law(table):
    """D7; quick: tests/runtime/test_logits.py, test_choices_are_distributed_as_softmax_chi_square
    and test_choices_after_all_transforms_are_distributed_as_what_is_left."""
    values = np.random.default_rng(0).normal(0, 1.5, 16).astype(np.float32)
    logits, seen, found = torch.tensor(values)[None], [3, 5, 5, 11], []
    for seed, how in enumerate(LAWS):
        config, law = GenerateConfig.parse(how | {"seed": seed}), slow_law(values, seen, how)
        drawn = np.zeros(16)
        for step in range(N_DRAWS):
            drawn[int(next_tokens(logits, Rows([seen], [step]), config))] += 1
        alive = law > 0
        assert not drawn[~alive].any()
        found.append(chisquare(drawn[alive], N_DRAWS * law[alive]).pvalue)
    table(
        "D7",
        f"{len(LAWS)} laws, {N_DRAWS:,} draws of each: p of chi-square {min(found):.3f} at least",
    )
    assert min(found) > 0.001
