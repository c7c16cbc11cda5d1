"""Text in, text out: the stream is the whole, characters and words are whole, and each text says
why it ended."""

from functools import cache
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from every import slow_but
from glassformer.core.errors import DataError
from glassformer.models import Transformer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search
from glassformer.runtime.request import Request
from glassformer.runtime.speculative import Drafts
from glassformer.tasks.predictors.text import StopStrings, finish, write
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_writers import continuations

SAMPLE = "the naïve café — 日本 🙂 sings the song\nand the dog sleeps\n" * 3


@cache
def tokenizer(kind: str) -> Tokenizer:
    size = {"bpe": 290}.get(kind)
    return train_tokenizer(TokenizerConfig.parse({"kind": kind, "vocab_size": size}), [SAMPLE])


@cache
def model(kind: str) -> Transformer:
    """Random weights: byte tokenizers then write broken UTF-8 nearly everywhere, which is what is
    wanted here."""
    config = tiny.config(vocab_size=tokenizer(kind).vocab_size)
    return tiny.stir(Transformer(config).double(), 0.3).eval()


def how(**changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 14, "overflow": "window"} | changes)


def generate(*arguments, **options):
    return finish(continuations(*arguments, **options))


def stream(*arguments, **options):
    return chain.from_iterable(continuations(*arguments, **options))


KINDS = ("byte", "character", "word", "bpe")


@pytest.mark.parametrize("kind", KINDS)
@given(prompt=st.sampled_from(["the", "the dog ", "日", " 🙂x", "\n"]), seed=st.integers(0, 50))
@settings(max_examples=3)
def test_a_stream_is_the_whole_text_and_alone_is_in_a_batch(kind, prompt, seed):
    config, prompts = how(seed=seed), [prompt, "and the song", "dog"]
    whole = generate(model(kind), tokenizer(kind), prompts, config)
    alone = generate(model(kind), tokenizer(kind), [prompt], config)[0]
    joined, finished = ["", "", ""], []
    for delta in stream(model(kind), tokenizer(kind), prompts, config):
        joined[delta.row] += delta.text
        finished += [delta.row] if delta.finish else []
    assert joined == [result.text for result in whole]
    assert sorted(finished) == [0, 1, 2]
    assert alone.text == whole[0].text
    assert alone.ids == whole[0].ids


@pytest.mark.parametrize("kind", KINDS)
def test_prompt_and_text_are_the_decoding_of_all_ids(kind):
    """Words too: the space between the prompt and the first new word is part of the new text."""
    for seed in range(5):
        prompt = "the dog"
        result = generate(model(kind), tokenizer(kind), [prompt], how(seed=seed))[0]
        ids = [*tokenizer(kind).encode(prompt).tolist(), *result.ids]
        if result.finish == "end":
            ids.pop()
        assert prompt + result.text == tokenizer(kind).decode(ids)


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_a_stream_has_replacement_characters_only_where_the_whole_has_them(kind):
    for seed in range(4):
        text = ""
        for delta in stream(model(kind), tokenizer(kind), ["the"], how(seed=seed)):
            text += delta.text
        ids = generate(model(kind), tokenizer(kind), ["the"], how(seed=seed))[0].ids
        assert text == tokenizer(kind).decode(ids)


def said(text: str, config: GenerateConfig, *, end: bool = False):
    """What is shown of a model that says `text`, token by token, and why it ends."""
    own = tokenizer("byte")
    ids = own.encode(text).tolist() + [own.specials["eos"]] * end
    script = lambda new: torch.arange(own.vocab_size) == ids[len(new)]
    request = Request((1,), config, (own.specials["eos"],), allowed=script)
    steps = list(write(model("byte"), own, [request]))
    assert steps[-1], "a step after the end"
    deltas = [*chain.from_iterable(steps)]
    return [delta.text for delta in deltas], deltas[-1].finish


@settings(max_examples=40)
@given(
    st.text(st.sampled_from("ab é日🙂\n"), min_size=1, max_size=15),
    st.lists(st.text(st.sampled_from("ab é日🙂\n"), min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_neither_leak_nor_swallow(text, stops):
    shown, finish = said(text, how(max_new_tokens=len(text.encode()), stop=stops))
    passing = StopStrings(stops)  # its own laws are in test_stop.py
    wanted = passing.push(text) + passing.flush()
    assert "".join(shown) == wanted
    assert finish == ("stop" if wanted != text else "length")


def test_a_character_is_shown_when_its_last_byte_has_come():
    assert said("a🙂b", how(max_new_tokens=6))[0] == ["a", "🙂", "b"]


def test_a_character_that_was_cut_off_by_the_end_is_one_replacement_character():
    assert said("a🙂b", how(max_new_tokens=3)) == (["a", "\ufffd"], "length")


def test_finish_reasons():
    def ended(**changes):
        shown, finish = said("one two", how(**{"max_new_tokens": 100} | changes), end=True)
        return "".join(shown), finish

    assert ended() == ("one two", "end")
    assert ended(max_new_tokens=4) == ("one ", "length")
    assert ended(stop=["two"]) == ("one ", "stop")
    # what was held back for a stop that did not come is given at the end
    assert ended(stop=["two!"]) == ("one two", "end")
    assert ended(max_new_tokens=6, stop=["two"]) == ("one tw", "length")
    # a stop that is complete with the very last token is a stop
    assert ended(max_new_tokens=7, stop=["two"]) == ("one ", "stop")


@pytest.mark.parametrize(
    ("batch_size", "ahead"),
    slow_but([(n, ahead) for n in (1, 2, 5) for ahead in (0, 9)], (2, 9), (5, 0)),
)
def test_texts_that_stop_are_the_same_in_any_company(ahead, batch_size):
    """One that outgrows the context beside shorter ones; the guesses behind a stop are dropped."""
    prompts, own = ["the dog sleeps and sings" * 2, "a", "the", "song", "é"], tokenizer("byte")
    plain, drafts = how(seed=3, max_new_tokens=25), Drafts(model("byte"), ahead) if ahead else None
    whole = [generate(model("byte"), own, [one], plain)[0] for one in prompts]
    config = plain.model_copy(update={"stop": tuple(one.text[4:6] for one in whole[:2])})
    found = generate(model("byte"), own, prompts, config, batch_size=batch_size, drafts=drafts)
    for one, other in zip(found, whole, strict=True):
        stops = StopStrings(config.stop)
        assert one.text == stops.push(other.text) + stops.flush()
        assert one.finish == ("stop" if stops.stopped else "length")
        assert one.ids == other.ids[: len(one.ids)]
        assert one.log_probs == pytest.approx(other.log_probs[: len(one.ids)], abs=1e-10)
        assert (len(one.ids) < 25) == stops.stopped
    assert {one.finish for one in found} == {"stop", "length"}
    assert drafts is None or drafts.counts.right > 20


def test_ids_and_log_probabilities_belong_together():
    result = generate(model("bpe"), tokenizer("bpe"), ["the dog"], how(seed=1))[0]
    assert len(result.ids) == len(result.log_probs)
    assert all(log_prob <= 0 for log_prob in result.log_probs)


@pytest.mark.parametrize(("kind", "prompt"), [("byte", ""), ("word", ""), ("word", " \n")])
def test_a_prompt_without_a_token_is_the_beginning_of_a_text(kind, prompt):
    own = tokenizer(kind)
    assert own.encode(prompt).tolist() == []
    found = generate(model(kind), own, [prompt], how(temperature=0.0))[0].ids
    with torch.no_grad():
        logits = model(kind)(torch.tensor([[own.specials["eos"]]])).logits
    assert found[0] == logits[0, -1].argmax()


def test_a_prompt_that_is_no_text_is_refused():
    with pytest.raises(DataError, match="surrogate"):
        generate(model("byte"), tokenizer("byte"), ["a\udc80"], how())


@pytest.mark.parametrize("kind", KINDS)
def test_with_beams_the_text_is_that_of_the_best_hypothesis(kind):
    prompts, config = ["the dog sleeps", "sings", "the"], how(beams=3)
    end = tokenizer(kind).specials["eos"]
    begins = [tokenizer(kind).encode(prompt).tolist() for prompt in prompts]
    finished, joined = [], ["", "", ""]
    for delta in stream(model(kind), tokenizer(kind), prompts, config):
        joined[delta.row] += delta.text
        finished += [delta.row] if delta.finish else []
    assert sorted(finished) == [0, 1, 2]
    results = generate(model(kind), tokenizer(kind), prompts, config)
    for at, (best, *_) in enumerate(beam_search(model(kind), begins, config, (end,))):
        assert (results[at].ids, results[at].log_probs) == (best.ids, best.log_probs)
        assert results[at].finish == ("end" if best.finished else "length")
        assert joined[at] == results[at].text
        whole = begins[at] + [token for token in best.ids if token != end]
        assert prompts[at] + joined[at] == tokenizer(kind).decode(whole)


def test_a_stop_string_cuts_the_best_hypothesis():
    whole = generate(model("byte"), tokenizer("byte"), ["the"], how(beams=2))[0]
    middle = whole.text[2:4]
    cut = generate(model("byte"), tokenizer("byte"), ["the"], how(beams=2, stop=[middle]))[0]
    assert cut.finish == "stop"
    assert cut.text == whole.text[: whole.text.index(middle)]
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert len(cut.ids) < len(whole.ids)


def test_beams_end_with_the_context_and_say_so():
    """Decoding goes on in a window; a search has none, and its text is as long as the context
    allows."""
    results = generate(
        model("byte"), tokenizer("byte"), ["the dog ", "x"], how(beams=2, max_new_tokens=60)
    )
    assert [(len(result.ids), result.finish) for result in results] == [
        (25, "length"),
        (32, "length"),
    ]
