"""Hostile and unusual input to the explorer: one clear answer each.

A head that there is not stands in `test_ops`, a foreign Host header in `test_server`, files of the
disk in `test_inputs`.
"""

import json

import pytest

from bare_runs import bare_run
from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.word_spans import WORD, word_spans
from glassformer.serve.explorer.handler import Explorer
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from serve.asking import ask

HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "'\"&<!--")
WRITTEN_FROM_THE_RIGHT = ("שלום עולם, זה מבחן", "مرحبا بالعالم 123", "abc שלום 45 مرحبا")


def explorer(folder, texts, specials=()) -> Explorer:
    """Of a tiny run in an empty folder, whose tokenizer was made for these texts."""
    config = TokenizerConfig.parse({"kind": "bpe", "vocab_size": 340, "specials": [*specials]})
    tokenizer = train_tokenizer(config, [*texts] * 3)
    return Explorer(bare_run(folder, tokenizer, max_length=40))


def test_tokens_that_look_like_a_page_are_data(tmp_path):
    """They come as they are, in JSON that no browser takes for a page, and no saved page holds one
    as markup."""
    own = explorer(tmp_path, ["the cat sat"], HOSTILE)
    specials = own.run.tokenizer.specials
    ids = [specials[name] for name in HOSTILE]
    look = {"input": ids}
    header = ask(own, "look", look=look).header
    assert [one["label"] for one in header["elements"]] == list(HOSTILE)
    told = {one["id"]: one["label"] for row in header["outcome"]["rows"] for one in row["top"]}
    assert {label for i, label in told.items() if i in ids} <= set(HOSTILE)
    questions = [json.dumps({"op": "look", "look": look}), json.dumps({"op": "model"})]
    page = ask(
        own,
        "document",
        state={"input": ids, "page": HOSTILE[1]},
        questions=questions,
        title=HOSTILE[0],
    )
    text = page.arrays["html"].tobytes().decode()
    for part in ("<img", "<script>alert", "&<!--"):
        assert part not in text
    assert "alert(1)" in text, "it is there, as text"


@pytest.mark.parametrize("text", WRITTEN_FROM_THE_RIGHT)
def test_text_from_right_to_left_stays_in_the_order_in_which_it_is_read(tmp_path, text):
    own = explorer(tmp_path, WRITTEN_FROM_THE_RIGHT * 20)
    elements = ask(own, "look", look={"input": text}).header["elements"]
    ids = [one["id"] for one in elements]
    assert own.run.tokenizer.decode(ids) == text
    words: dict[int, list[int]] = {}
    for one in elements:
        if one["word"] is not None:
            words.setdefault(one["word"], []).append(one["id"])
    found = [own.run.tokenizer.decode(words[i]).strip() for i in range(len(words))]
    assert found == [text[begin:end] for begin, end in word_spans(text, WORD)]
    assert (
        ask(own, "row", look={"input": text}, layer=0, head=1, query=len(ids) - 1)
        .arrays["weights"]
        .sum()
        > 0.999
    )


@pytest.mark.parametrize("given", ["the cat " * 12_500, [1] * 100_000, "x" * 100_000])
def test_a_hundred_thousand_tokens_are_refused_unnamed(tmp_path, monkeypatch, given):
    own = explorer(tmp_path, ["the cat sat"])

    def never(*arguments, **options):
        raise AssertionError("too long is too long")

    for room, name in (("tokenized", "token_elements"), ("tokens.elements", "token_words")):
        monkeypatch.setattr(f"glassformer.processors.{room}.{name}", never)
    said = r"^The input has \d+ elements and the model reads 40 at once; shorten it by \d+, or"
    with pytest.raises(ConfigError, match=said):
        own.handle({"op": "look", "look": {"input": given}})
    with pytest.raises(ConfigError, match=said):
        next(own.stream({"op": "generate", "look": {"input": given}}))
