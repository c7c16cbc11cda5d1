"""Rows of parts as sequences and batches: nothing is lost, nothing is asked for but the answer."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import encoder_decoder, pad_examples, shared_prefix
from glassformer.data.example import Example, Patches
from glassformer.layers.losses import cross_entropy
from glassformer.models import Transformer
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_parts import parts_recipe

WIDTHS = {"image": 6, "audio": 2}
TEXTS = ["what is red?", "a dog", "", "a"]


@pytest.fixture(scope="module")
def byte():
    return train_tokenizer(TokenizerConfig(kind="byte"), TEXTS)


@pytest.fixture(scope="module")
def tokenizer(byte):
    return SequenceBuilder(byte)


def values(kind: str, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, n]).standard_normal((n, WIDTHS[kind])).astype(np.float32)


def example_of(tokenizer, row, answer=None, targets=None) -> Example:
    """A row as an example with its answer, or with class targets."""
    ids = None if answer is None else tokenizer.answer(answer)
    return replace(tokenizer.example(row), answer=ids, targets=targets)


def patches(kind):
    return st.integers(1, 4).map(lambda n: (kind, values(kind, n)))


parts = st.lists(
    st.one_of(
        st.sampled_from(TEXTS).map(lambda t: ("text", t)), patches("image"), patches("audio")
    ),
    max_size=4,
)


@given(parts, st.sampled_from([None, *TEXTS]))
def test_a_row_is_its_parts_in_order_between_begin_and_end(tokenizer, row, answer):
    example = example_of(tokenizer, row, answer)
    text, bos, eos = tokenizer.text, tokenizer.text.specials["bos"], tokenizer.text.specials["eos"]
    expected, at = [bos], []
    for _, part in row:
        if not isinstance(part, str):
            at.append((len(expected), part))
        expected += text.encode(part).tolist() if isinstance(part, str) else [0] * len(part)
    assert example.ids.tolist() == [*expected, eos]
    assert example.ids.dtype == np.int32
    assert [(p.begin, p.values is part) for p, (_, part) in zip(example.patches, at, strict=True)] == [
        (begin, True) for begin, _ in at  # not copied: a picture may have many questions
    ]  # fmt: skip
    assert example.length == len(example.ids) + (len(answer) if answer is not None else 0)
    if answer is not None:
        assert example.answer.tolist() == [*text.encode(answer).tolist(), eos]


@given(st.sampled_from(TEXTS))
def test_a_text_alone_is_the_text_tokenizers_sequence(tokenizer, text):
    (window,) = SequenceBuilder(tokenizer.text, 100).windows(text)
    example = tokenizer.example([("text", text)])
    assert np.array_equal(example.ids, window.example.ids)
    assert example.patches == ()


@given(
    st.lists(st.tuples(parts, st.sampled_from(TEXTS)), min_size=1, max_size=4),
    st.sampled_from(["left", "right"]),
)
def test_every_row_of_a_batch_is_its_example(tokenizer, rows, side):
    examples = [example_of(tokenizer, row, answer) for row, answer in rows]
    batch = pad_examples(examples, side)
    width = batch.elements.shape[1]
    asked = iter(zip(batch.at.tolist(), batch.targets.tolist(), strict=True))
    real = batch.where().valid
    real = torch.ones_like(batch.elements, dtype=torch.bool) if real is None else real
    for i, example in enumerate(examples):
        given_, answer = example.ids.tolist(), example.answer.tolist()
        assert batch.elements[i][real[i]].tolist() == given_ + answer[:-1]
        begin = int(real[i].nonzero()[0])
        assert (begin == 0) if side == "right" else bool(real[i, -1])
        for n, target in enumerate(answer):  # asked at the element in front of it
            assert next(asked) == (i * width + begin + len(given_) - 1 + n, target)
        for patch in example.patches:
            (part,) = (part for part in batch.parts if part.name == patch.kind)
            for n, numbers in enumerate(patch.values):
                (where,) = (part.at == i * width + begin + patch.begin + n).nonzero()[0]
                assert part.values[where].tolist() == numbers.tolist()
                assert int(part.index[where]) == n
    assert next(asked, None) is None
    assert sum(len(part.at) for part in batch.parts) == sum(
        len(p.values) for e in examples for p in e.patches
    )
    assert batch.n_targets == sum(len(e.answer) for e in examples)
    assert batch.n_elements == sum(e.length for e in examples)


def test_equal_lengths_have_no_padding_and_classes_one_target_for_each_row(tokenizer):
    row = [("image", values("image", 2)), ("text", "a")]
    batch = pad_examples([example_of(tokenizer, row, targets=np.array([c])) for c in (2, 0)])
    assert batch.positions is None
    assert (batch.at, batch.targets.tolist()) == (None, [2, 0])
    several = pad_examples(
        [
            example_of(tokenizer, row, targets=np.array([[0, 1, 1]])),
            example_of(tokenizer, [], targets=np.eye(3)[:1]),
        ]
    )
    assert several.targets.tolist() == [[0, 1, 1], [1, 0, 0]]
    nothing = pad_examples([tokenizer.example(row)])
    assert (nothing.targets, nothing.at) == (None, None)


def test_other_numbers_in_the_same_patches(tokenizer):
    row = [("image", values("image", 2)), ("text", "a"), ("image", values("image", 3))]
    example = example_of(tokenizer, row, "a")
    other = [values("image", 2, seed=1), values("image", 3, seed=1)]
    changed = example.with_values(other)
    (part,) = pad_examples([changed]).parts
    assert np.array_equal(part.values.numpy(), np.concatenate(other))
    assert torch.equal(part.at, pad_examples([example]).parts[0].at)
    assert changed.ids is example.ids
    with pytest.raises(ValueError, match="shorter"):
        example.with_values(other[:1])


def rows_of(tokenizer):
    return [
        example_of(tokenizer, [("image", values("image", 3)), ("text", "what?")], "red"),
        example_of(
            tokenizer,
            [("text", "a"), ("audio", values("audio", 2)), ("image", values("image", 3, 1))],
            "a dog",
        ),
    ]


def model_of(tokenizer, **changes) -> Transformer:
    sizes = {"vocab_size": tokenizer.text.vocab_size, "parts": WIDTHS, "part_patches": {"image": 3}}
    return tiny.stir(Transformer(tiny.config(**sizes, **changes)).double()).eval()


def test_a_decoders_loss_is_that_of_each_answer_alone(tokenizer):
    """Also held against the whole sequence, where everything but the answer has no target."""
    examples, model = rows_of(tokenizer), model_of(tokenizer)
    batch = pad_examples(examples)
    together = cross_entropy(model(batch).logits, batch.targets)
    alone = [
        cross_entropy(model(one).logits, one.targets)
        for one in (pad_examples([e]) for e in examples)
    ]
    assert_close(together.total, sum(one.total for one in alone), **tiny.EXACT)
    targets = torch.full_like(batch.elements, IGNORE)
    targets.view(-1)[batch.at] = batch.targets
    every = model(Batch(batch.elements, batch.positions, parts=batch.parts)).logits
    assert_close(together.total, cross_entropy(every, targets).total, **tiny.EXACT)
    left = pad_examples(examples, "left")
    assert_close(
        cross_entropy(model(left).logits, left.targets).total, together.total, **tiny.EXACT
    )


@given(st.lists(st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(TEXTS)), min_size=1, max_size=4), min_size=1,
                max_size=3), st.sampled_from(["rotary", "learned", "alibi", "relative"]))  # fmt: skip
def test_examples_with_a_common_beginning_answer_as_if_each_stood_alone(tokenizer, asked, position):
    model = model_of(tokenizer, position=position)
    bundles = [
        [
            example_of(tokenizer, [("text", "a"), ("image", values("image", 3, i)), ("text", q)], a)
            for q, a in own
        ]
        for i, own in enumerate(asked)
    ]
    alone = [example for bundle in bundles for example in bundle]
    together, separate = shared_prefix(bundles), pad_examples(alone)
    assert torch.equal(together.targets, separate.targets)
    assert_close(model(together).logits, model(separate).logits, **tiny.EXACT)
    shared = sum((len(bundle) - 1) * bundle[0].prefix_length for bundle in bundles)
    assert together.n_elements == sum(example.length for example in alone) - shared
    (part,) = together.parts
    assert len(part.at) == 3 * len(bundles)  # its picture stands in a row once


def test_an_encoder_decoder_reads_the_parts_and_writes_the_answer(tokenizer):
    examples, bos = rows_of(tokenizer), tokenizer.text.specials["bos"]
    batch = encoder_decoder(examples, bos)
    plain = encoder_decoder([Example(e.ids, answer=e.answer) for e in examples], bos)
    assert torch.equal(batch.elements, plain.elements)
    assert torch.equal(batch.targets, plain.targets)
    assert torch.equal(batch.source.elements, plain.source.elements)
    assert torch.equal(batch.source.where().valid, plain.source.where().valid)
    model = model_of(tokenizer, architecture="encoder_decoder")
    together = cross_entropy(model(batch).logits, batch.targets)
    alone = [
        cross_entropy(model(one).logits, one.targets)
        for one in (encoder_decoder([e], bos) for e in examples)
    ]
    assert together.count == len("red") + len("a dog") + 2
    assert_close(together.total, sum(one.total for one in alone), **tiny.EXACT)


def test_a_decoder_learns_to_say_what_is_in_a_picture(tokenizer):
    """Two pictures, one question, two answers: only who looks can tell them apart."""
    bright, dark = np.ones((2, 6), np.float32), -np.ones((2, 6), np.float32)
    question = ("text", "a")
    answers = ((bright, "red"), (dark, "dog"))
    batch = pad_examples(
        [
            example_of(tokenizer, [("image", picture), question], answer)
            for picture, answer in answers
        ]
    )
    torch.manual_seed(0)
    sizes = {
        "d_model": 16,
        "n_layers": 1,
        "vocab_size": tokenizer.text.vocab_size,
        "parts": {"image": 6},
    }
    model = Transformer(tiny.config(**sizes))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(40):
        loss = cross_entropy(model(batch).logits, batch.targets)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
    assert loss.total.item() / loss.count < 0.1  # an answer by chance costs 5.5 nats a byte
    assert torch.equal(model(batch).logits.argmax(-1), batch.targets)


def test_answers_need_an_end(byte, tmp_path):
    byte.save(tmp_path / "tokenizer.json")
    definition = json.loads((tmp_path / "tokenizer.json").read_text())
    definition["added_tokens"] = [
        t for t in definition["added_tokens"] if t["id"] != byte.specials["eos"]
    ]
    endless = SequenceBuilder(Tokenizer(definition))
    assert len(endless.example([("text", "red")]).ids) == len("red") + 1
    with pytest.raises(ConfigError, match="no eos symbol, without which an answer has no end"):
        endless.answer("red")


def test_what_an_example_is_made_of():
    example = Example(np.zeros(2, np.int32), patches=(Patches("image", 0, values("image", 2)),))
    assert pad_examples([example]).parts[0].at.tolist() == [0, 1]


def test_a_tokenizer_is_trained_on_the_texts_of_training_rows(tmp_path):
    recipe = parts_recipe(tmp_path)
    rows = PartsProcessor.read(recipe.data)["train"]
    texts = list(PartsProcessor.training_texts(recipe.processor, recipe.data))
    assert texts == [
        text
        for row in rows
        for text in (*(value for kind, value in row.parts if kind == "text"), row.target)
    ]
    assert texts
