"""Requests of the evaluation harness (`local-completions`), and what it reads in the replies.

Scored requests are `context + continuation` as ids with `echo`, `logprobs=1` and one new token, in
batches; the harness drops that token and calls a continuation greedy if each of its tokens has
exactly the largest log-probability.
"""

from types import SimpleNamespace

import pytest

from glassformer.run.harness import Answers
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode
from glassformer.tasks.predictors.likelihood import likelihoods, split_answer

ASKED = {"temperature": 0, "logprobs": 1, "seed": 1234, "echo": True}
PAIRS = {
    "lm": [("the cat", " sat"), ("a dog ran", " on"), ("the", "m"), ("the cat", " sat on")],
    "chat": [("hot day", " cold"), ("dry", " small wet"), ("hot", " hot")],
}


@pytest.fixture(params=PAIRS)
def name(request):
    return request.param


@pytest.fixture
def run(api, name):
    return api.runs[name]


@pytest.fixture
def pairs(run, name):
    """Texts as pairs of ids; one continuation is what the model would write itself."""
    found = [split_answer(run.tokenizer, *pair) for pair in PAIRS[name]]
    context, how = found[0][0], GenerateConfig(temperature=0.0, max_new_tokens=2)
    own = tuple(step.ids[0] for step in decode(run.model, [list(context)], how))
    return [*found, (context, own)]


def scored(api, name, pairs, n_new=1):
    """log-probabilities of each continuation, and whether it is greedy, as the harness has them."""
    prompts = [[*context, *answer] for context, answer in pairs]
    reply = api.post("/v1/completions", model=name, prompt=prompts, max_tokens=n_new, **ASKED)
    found = []
    for choice, (context, answer) in zip(reply["choices"], pairs, strict=True):
        told, end = choice["logprobs"], len(context) + len(answer)
        assert len(told["token_logprobs"]) == end + n_new
        own, tops = (told[key][len(context) : end] for key in ("token_logprobs", "top_logprobs"))
        greedy = all(one == max(top.values()) for one, top in zip(own, tops, strict=True))
        found.append((own, greedy))
    return found


def test_scores_are_those_of_the_run(api, run, name, pairs):
    expected = likelihoods(run.model, pairs)
    found = scored(api, name, pairs)
    assert [greedy for _, greedy in found] == [one.greedy for one in expected]
    assert {one.greedy for one in expected} == {True, False}
    for (own, _), one in zip(found, expected, strict=True):
        # float32, by products of other shapes
        assert own == pytest.approx(one.log_probs, abs=4e-6)


def test_scores_have_the_same_bits_in_any_batch(api, name, pairs):
    together = scored(api, name, pairs)
    assert scored(api, name, pairs[::-1]) == together[::-1]
    assert [scored(api, name, [pair])[0] for pair in pairs] == together
    assert scored(api, name, pairs, n_new=0) == together


def test_new_text_is_that_of_the_adapter_for_the_run(api, folders):
    adapter = Answers(str(folders["lm"]), device="cpu")
    adapter.cache_hook = SimpleNamespace(add_partial=lambda *_: None)
    options = {"until": ["t", "at", "on ", "dog", "zz"], "max_gen_toks": 8}
    prompts = ["the cat", "a dog", "the"]
    asked = [SimpleNamespace(args=(prompt, options)) for prompt in prompts]
    ids = [adapter.run.tokenizer.encode(prompt).tolist() for prompt in prompts]
    fields = {"max_tokens": 8, "temperature": 0, "stop": options["until"], "seed": 1234}
    reply = api.post("/v1/completions", model="lm", prompt=ids, **fields)
    texts = [choice["text"] for choice in reply["choices"]]
    assert texts == adapter.generate_until(asked, disable_tqdm=True)
