"""Text in, text out: the stream is the whole, characters and words are whole, and each text says
why it ended."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from glassformer.errors import DataError
from glassformer.models import Transformer
from glassformer.runtime import GenerateConfig, beam_search
from glassformer.runtime.decode import Step
from glassformer.tasks.predict.stop import StopStrings
from glassformer.tasks.predict.text import generate, stream
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

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


def scripted(monkeypatch, text: str, kind: str = "byte", *, end: bool = False):
    """Let the model say `text`, token by token."""
    ids = tokenizer(kind).encode(text).tolist() + ([tokenizer(kind).specials["eos"]] if end else [])

    def decode(model, prompts, config, ends=(), source=None, finished=(), **how):
        for token in ids[: config.max_new_tokens]:
            yield Step((0,), (token,), (-1.0,))
            if finished or token in ends:
                return

    monkeypatch.setattr("glassformer.tasks.predict.text.decode", decode)


def said(config: GenerateConfig):
    deltas = list(stream(model("byte"), tokenizer("byte"), ["x"], config))
    return "".join(delta.text for delta in deltas), deltas[-1].finish


@given(
    st.text(st.sampled_from("ab é日🙂\n"), min_size=1, max_size=25),
    st.lists(st.text(st.sampled_from("ab é日🙂\n"), min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_neither_leak_nor_swallow(text, stops):
    with pytest.MonkeyPatch.context() as patch:
        n = len(text.encode())
        scripted(patch, text)
        shown, finish = said(how(max_new_tokens=n, stop=stops))
    passing = StopStrings(stops)  # its own laws are in test_stop.py
    wanted = passing.push(text) + passing.flush()
    assert shown == wanted
    assert finish == ("stop" if wanted != text else "length")


def test_a_character_is_shown_when_its_last_byte_has_come(monkeypatch):
    scripted(monkeypatch, "a🙂b")
    shown = [
        delta.text
        for delta in stream(model("byte"), tokenizer("byte"), ["x"], how(max_new_tokens=6))
    ]
    assert shown == ["a", "🙂", "b"]


def test_a_character_that_was_cut_off_by_the_end_is_one_replacement_character(monkeypatch):
    scripted(monkeypatch, "a🙂b")
    assert said(how(max_new_tokens=3)) == ("a\ufffd", "length")


def test_finish_reasons(monkeypatch):
    scripted(monkeypatch, "one two", end=True)
    assert said(how(max_new_tokens=100)) == ("one two", "end")
    assert said(how(max_new_tokens=4)) == ("one ", "length")
    assert said(how(max_new_tokens=100, stop=["two"])) == ("one ", "stop")
    # what was held back for a stop that did not come is given at the end
    assert said(how(max_new_tokens=100, stop=["two!"])) == ("one two", "end")
    assert said(how(max_new_tokens=6, stop=["two"])) == ("one tw", "length")
    # a stop that is complete with the very last token is a stop
    assert said(how(max_new_tokens=7, stop=["two"])) == ("one ", "stop")


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
    prompts, config = ["the", "the dog sleeps", "sings"], how(beams=3)
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
