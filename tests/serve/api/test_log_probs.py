"""Tokens and offsets of log-probabilities reproduce the text, whatever spells it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event, Scored
from glassformer.serve.api.texts import (
    Choice,
    Prompt,
    chat_log_probs,
    completion_log_probs,
)
from glassformer.tasks.predictors.text import RowText
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

TEXT = "The theatre then — Straße 你好 😀 isn't\nнет " * 10
ANY = st.text(alphabet=st.sampled_from("Theatr ß你好😀\n\t\\n—нё\u0301🏽\ufffd"), max_size=20)


def library(model, trainer, pre, decoder, normalizer=None):
    """A tokenizer of the library's own kinds."""
    made = Library(model)
    made.pre_tokenizer, made.decoder = pre, decoder
    if normalizer is not None:
        made.normalizer = normalizer
    made.train_from_iterator([TEXT], trainer)
    return made


def made(kind):
    """A small tokenizer of a kind."""
    match kind:
        case "wordpiece":
            model = models.WordPiece(unk_token="[UNK]")
            trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]"])
            pre, lower = pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()
            found = library(model, trainer, pre, decoders.WordPiece(), lower)
        case "marked":
            trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=["<unk>"])
            model = models.BPE(unk_token="<unk>")
            found = library(model, trainer, pre_tokenizers.Metaspace(), decoders.Metaspace())
        case _:
            size = 300 if kind == "bpe" else None
            return train_tokenizer(TokenizerConfig(kind=kind, vocab_size=size), [TEXT])
    return Tokenizer(json.loads(found.to_str()), "it")


KINDS = {one: made(one) for one in ("byte", "character", "word", "bpe", "wordpiece", "marked")}


def run(tokenizer, prompt, ids, **how):
    """A text whose tokens are these, and the pieces of its stream with their tokens."""
    config = GenerateConfig(stop=how.pop("stop", []))
    row = RowText(tokenizer, prompt.ids, config.stop, ())
    choice, pieces = Choice(0, prompt, tokenizer, row, **how), []
    scores = tuple(Scored(index, -1.0) for index in prompt.ids)
    for number, index in enumerate(ids):
        last = "length" if number + 1 == len(ids) else None
        new = choice.push(Event(0, Scored(index, -1.0, ((index, -1.0),)), last, scores))
        if new or choice.finish:
            pieces.append((new, choice.complete()))
        if choice.finish:
            break
    return choice, pieces


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), text=ANY, stop=st.lists(ANY.map(lambda t: t[:3]).filter(bool), max_size=2))
@settings(max_examples=60, deadline=None)
def test_tokens_and_offsets_reproduce_the_text(kind, data, text, stop):
    tokenizer = KINDS[kind]
    one = st.integers(0, tokenizer.vocab_size - 1)
    ids = [
        *tokenizer.encode(data.draw(ANY)).tolist(),
        *data.draw(st.lists(one, min_size=1, max_size=6)),
    ]
    given_ids = data.draw(st.booleans())
    own = tuple(data.draw(st.lists(one, max_size=6)) if given_ids else tokenizer.encode(text))
    own = tuple(map(int, own))
    shown = tokenizer.decode(own, skip_specials=False) if given_ids else text
    prompt = Prompt(shown, own, given_ids=given_ids)
    choice, pieces = run(tokenizer, prompt, ids, stop=stop, echo=data.draw(st.booleans()))
    told = completion_log_probs(tokenizer, choice.tokens, 1)
    if own or not choice.echo:  # a text of no token has no shares
        assert "".join(told["tokens"]) == choice.text
    for token, at in zip(told["tokens"], told["text_offset"], strict=True):
        assert choice.text[at : at + len(token)] == token
    assert [one for _, new in pieces for one in new] == choice.tokens
    said = chat_log_probs(tokenizer, choice.tokens)["content"]
    assert [one["token"] for one in said] == told["tokens"]


@given(text=ANY)
@settings(deadline=None)
def test_bytes_of_chat_tokens_join_to_the_text(text):
    for kind in ("byte", "bpe", "marked"):
        tokenizer = KINDS[kind]
        ids = tokenizer.encode(text).tolist()
        choice, _ = run(tokenizer, Prompt("", ()), ids)
        told = chat_log_probs(tokenizer, choice.tokens)["content"]
        assert bytes(b for one in told for b in one["bytes"]).decode() == choice.text


def test_likeliest_tokens_are_named_by_their_text_and_parts_by_their_bytes():
    tokenizer = KINDS["byte"]
    choice, _ = run(tokenizer, Prompt("", ()), tokenizer.encode("\né").tolist())
    told = completion_log_probs(tokenizer, choice.tokens, 1)
    assert told["tokens"] == ["\n", "", "é"]
    assert [*map(list, told["top_logprobs"])] == [["\n"], [r"bytes:\xc3"], ["é"]]
