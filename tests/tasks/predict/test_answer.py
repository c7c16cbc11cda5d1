"""Decoding with patches among the tokens: as recomputed without a cache, alone as in a batch,
within the context."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from glassformer.core.errors import ConfigError
from glassformer.data.collate import encoder_decoder, pad_examples
from glassformer.data.example import Example, Patches
from glassformer.models import Transformer
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_writers import answer

pytestmark = pytest.mark.usefixtures("no_grad")

WIDTHS = {"image": 5, "audio": 3}
MIXED = {"parts": WIDTHS, "part_patches": {"image": 4}}
KINDS = [
    *({**MIXED, "position": kind} for kind in tiny.POSITIONS),
    {**MIXED, "position": "rotary", "window": 6, "n_kv_heads": 2, "qk_norm": True},
]
named = pytest.mark.parametrize(
    "changes",
    tiny.usual(*KINDS),
    ids=lambda c: "-".join(str(v) for k, v in c.items() if k not in MIXED),
)
layouts = st.lists(st.sampled_from(["text", "image", "audio"]), min_size=1, max_size=4)
LAYOUTS = (["image", "text"], ["text"], ["text", "audio", "text", "image"], ["image"])


def how(**changes) -> GenerateConfig:
    return GenerateConfig.parse({"max_new_tokens": 9, "temperature": 0} | changes)


def example(layout, seed: int = 0) -> Example:
    """Two tokens for a text, three patches for a picture, two for a sound."""
    ids, patches = tiny.tokens(1, 8, seed=seed)[0].tolist(), []
    row: list[int] = []
    for i, kind in enumerate(layout):
        n = 3 if kind == "image" else 2
        if kind == "text":
            row += ids[2 * i : 2 * i + 2]
        else:
            values = (
                np.random.default_rng([seed, i])
                .standard_normal((n, WIDTHS[kind]))
                .astype(np.float32)
            )
            patches.append(Patches(kind, len(row), values))
            row += [0] * n
    return Example(np.array(row, np.int32), patches=tuple(patches))


def run(model, prompts, config, ends=(), sources=None):
    ids, log_probs = [[] for _ in prompts], [[] for _ in prompts]
    for step in decode(model, prompts, config, ends, sources):
        for row, token, log_prob in zip(step.rows, step.ids, step.log_probs, strict=True):
            ids[row].append(token)
            log_probs[row].append(log_prob)
    return ids, log_probs


def recomputed(model, one: Example, steps: int, source=None):
    """The likeliest token by a whole forward pass each time, with its log p: no cache, no
    padding."""
    ids, log_probs = [], []
    for _ in range(steps):
        grown = replace(one, ids=np.append(one.ids, np.array(ids, np.int32)))
        logits = model(replace(pad_examples([grown]), source=source)).logits[0, -1]
        ids.append(int(logits.argmax()))
        log_probs.append(float(logits.log_softmax(0)[ids[-1]]))
    return ids, log_probs


@named
def test_a_batch_with_parts_equals_whole_forward_passes_row_by_row(changes):
    model, examples = (
        tiny.model(**changes),
        [example(layout, seed) for seed, layout in enumerate(LAYOUTS)],
    )
    ids, log_probs = run(model, examples, how())
    for row, one in enumerate(examples):
        expected, expected_log_probs = recomputed(model, one, 9)
        assert ids[row] == expected
        assert log_probs[row] == pytest.approx(expected_log_probs, abs=1e-10)


@given(
    st.lists(layouts, min_size=1, max_size=4),
    st.sets(st.integers(0, 12), max_size=5),
    st.integers(0, 5),
)
@settings(max_examples=15)
def test_sampled_rows_that_stop_at_different_steps_equal_those_rows_alone(rows, ends, seed):
    model = tiny.model(**MIXED, position="rotary")
    examples, config = (
        [example(layout, at) for at, layout in enumerate(rows)],
        how(temperature=1, seed=seed),
    )
    together = run(model, examples, config, sorted(ends))
    for row, one in enumerate(examples):
        alone = run(model, [one], config, sorted(ends))
        assert together[0][row] == alone[0][0]
        assert together[1][row] == pytest.approx(alone[1][0], abs=1e-10)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), st.sampled_from([0.0, 1.0]))
@settings(max_examples=12)
def test_examples_without_patches_are_decoded_as_their_ids(lengths, temperature):
    model, config = tiny.model(**MIXED), how(temperature=temperature, repetition_penalty=1.3)
    prompts = [tiny.tokens(1, length, seed=at)[0].tolist() for at, length in enumerate(lengths)]
    examples = [Example(np.array(prompt, np.int32)) for prompt in prompts]
    assert run(model, examples, config) == run(model, prompts, config)


def test_what_stands_in_the_place_of_a_patch_is_no_token_that_was_seen():
    """The repetition penalty looks at tokens: the placeholder's id must not be punished."""
    model = tiny.model(**MIXED)
    one = example(["image", "text"], seed=3)
    text = one.ids[3:].tolist()
    first = model(pad_examples([one])).logits[0, -1]
    punished = first.clone()
    punished[text] = torch.where(first[text] > 0, first[text] / 9, first[text] * 9)
    assert 0 not in text
    assert run(model, [one], how(max_new_tokens=1, repetition_penalty=9.0))[0] == [
        [int(punished.argmax())]
    ]


@pytest.mark.parametrize("beams", [0, 1, 3])
def test_an_answer_ends_where_it_fills_the_context_also_beside_shorter_rows(beams):
    model = tiny.model(**MIXED, max_length=8, position="learned")
    long, short = example(["image", "text", "text"], 1), example(["text"], 2)
    assert (long.length, short.length) == (7, 2)
    config = GenerateConfig.parse(
        {"max_new_tokens": 50, "beams": beams} | ({} if beams else {"temperature": 0})
    )
    if beams:
        found = [best[0].ids for best in beam_search(model, [long, short], config)]
    else:
        found = run(model, [long, short], config)[0]
    assert [len(ids) for ids in found] == [2, 7]  # the last token is never fed
    if beams < 2:
        assert found == [recomputed(model, long, 2)[0], recomputed(model, short, 7)[0]]


def test_a_prompt_that_does_not_fit_is_refused_even_with_windows():
    model = tiny.model(**MIXED, max_length=6)
    with pytest.raises(
        ConfigError, match=r"The prompt has 7 elements \(3 of them patches\) and the context 6;"
    ):
        run(model, [example(["image", "text", "text"])], how(overflow="window"))


def test_a_foreign_id_or_a_foreign_part_is_refused():
    model = tiny.model(**MIXED)
    with pytest.raises(ConfigError, match="holds token id 13"):
        run(model, [Example(np.array([1, 13], np.int32))], how())
    with pytest.raises(ConfigError, match="'image'"):
        run(tiny.model(), [example(["image", "text"])], how())


@named
def test_beams_with_one_hypothesis_are_greedy_and_more_never_find_less(changes):
    model, examples = (
        tiny.model(**changes),
        [example(layout, seed) for seed, layout in enumerate(LAYOUTS)],
    )
    greedy, log_probs = run(model, examples, how(max_new_tokens=5))
    search = {"max_new_tokens": 5, "length_penalty": 0.0}
    one = beam_search(model, examples, GenerateConfig.parse({**search, "beams": 1}))
    many = beam_search(model, examples, GenerateConfig.parse({**search, "beams": 4}))
    assert [best[0].ids for best in one] == greedy
    for row, best in enumerate(many):
        assert best[0].score >= sum(log_probs[row]) - 1e-9
        again = recomputed_score(model, examples[row], best[0].ids)
        assert best[0].score == pytest.approx(again, abs=1e-9)


def recomputed_score(model, one: Example, ids: list[int]) -> float:
    """Σ log p of an answer by one teacher-forced pass, as training sees it."""
    batch = pad_examples([replace(one, answer=np.array(ids, np.int32))])
    return float(model(batch).logits.log_softmax(-1).gather(1, batch.targets[:, None]).sum())


@pytest.mark.parametrize("position", ["learned", "buckets", "rotary"])
def test_an_encoder_decoder_with_parts_in_its_source_equals_whole_forward_passes(position):
    model = tiny.model(**MIXED, architecture="encoder_decoder", position=position)
    examples = [example(layout, seed) for seed, layout in enumerate(LAYOUTS)]
    ids, _ = run(model, [[1]] * 4, how(), sources=examples)
    for row, one in enumerate(examples):
        expected, _ = recomputed(
            model, Example(np.array([1], np.int32)), 9, source=pad_examples([one])
        )
        assert ids[row] == expected


@pytest.fixture(scope="module")
def tokenizer():
    return SequenceBuilder(train_tokenizer(TokenizerConfig(kind="byte"), ["a"]))


@pytest.fixture(scope="module", params=["decoder", "encoder_decoder"])
def writer(request, tokenizer):
    """A model of bytes whose answers are of different lengths."""
    model = Transformer(
        tiny.config(
            **MIXED,
            architecture=request.param,
            vocab_size=tokenizer.text.vocab_size,
            position="rotary",
            max_length=24,
        ),
        seed=3,
    ).double()
    return tiny.stir(model, 0.9).eval()


QUESTIONS = ("red?", "", "is it?", "a", "what?")


def asked(tokenizer) -> list[Example]:
    image = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    never = tokenizer.answer("never looked at")
    return [
        replace(tokenizer.example([("image", image * (1 + i)), ("text", text)]), answer=never)
        for i, text in enumerate(QUESTIONS)
    ]


def test_answers_stand_in_order_and_do_not_depend_on_who_is_beside_them(writer, tokenizer):
    examples = asked(tokenizer)
    alone = [answer(writer, tokenizer, [one], how())[0] for one in examples]
    for batch_size in (1, 2, 5):
        together = answer(writer, tokenizer, examples, how(), batch_size)
        assert [(one.text, one.ids, one.finish) for one in together] == [
            (one.text, one.ids, one.finish) for one in alone
        ]
    assert len({tuple(one.ids) for one in alone}) > 1
    assert all(one.text == tokenizer.text.decode(one.ids) for one in alone)
    assert answer(writer, tokenizer, [], how()) == []


def test_answers_are_no_longer_than_asked_and_than_fits(writer, tokenizer):
    examples = asked(tokenizer)
    for most in (1, 3, 100):
        for one, found in zip(
            examples, answer(writer, tokenizer, examples, how(max_new_tokens=most)), strict=True
        ):
            room = 24 - len(one.ids) + 1 if writer.config.architecture == "decoder" else 24
            end = tokenizer.text.specials["eos"]
            assert len(found.ids) == min(most, room) or found.ids[-1] == end
            assert found.finish == ("end" if found.ids[-1] == end else "length")
    long = tokenizer.example([("text", "x" * 30)])
    with pytest.raises(ConfigError, match="and the context 24"):
        answer(writer, tokenizer, [long], how())


def test_a_stop_string_cuts_the_answer_and_a_search_is_that_of_beam_search(writer, tokenizer):
    examples = asked(tokenizer)
    config = how(temperature=1.0, seed=5)
    for plain in answer(writer, tokenizer, examples, config):
        stop = plain.text[1:3]
        for found in answer(
            writer, tokenizer, examples, config.model_copy(update={"stop": (stop,)})
        ):
            assert stop not in found.text
    search = GenerateConfig.parse({"max_new_tokens": 4, "beams": 3})
    crossed_model = writer.config.architecture == "encoder_decoder"
    ends, begins = (tokenizer.text.specials["eos"],), [[tokenizer.begin]] * len(examples)
    rows = (begins, search, ends, examples) if crossed_model else (examples, search, ends)
    best = beam_search(writer, *rows)
    found = answer(writer, tokenizer, examples, search, batch_size=2)
    assert [one.ids for one in found] == [hypotheses[0].ids for hypotheses in best]


def test_teacher_forced_targets_are_what_it_writes(writer, tokenizer):
    """The batch of training and the prompts of decoding are the same sequence."""
    one = asked(tokenizer)[0]
    ids = answer(writer, tokenizer, [one], how(max_new_tokens=5))[0].ids
    taught = [replace(one, answer=np.array(ids, np.int32))]
    batch = (
        pad_examples(taught)
        if writer.config.architecture == "decoder"
        else encoder_decoder(taught, tokenizer.begin)
    )
    assert writer(batch).logits.argmax(-1).flatten().tolist() == ids
