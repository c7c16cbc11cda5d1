"""Texts to vectors: the trunk's stream by hand, pooled; alone or among others, long or short, for
every trunk."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError, DataError
from glassformer.layers.heads import ClassifyHead
from glassformer.models.trunk import streams
from glassformer.processors.config import ModelFacts
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tasks.options import EmbedOptions
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.train import train_tokenizer
from small_tasks import embed, embedder, reader_of

TEXTS = [
    "a cat sat",
    "the dog",
    "x",
    "a cat on the mat and a dog on the mat",
    "dog dog",
    "sat a cat",
]
EXACT = {"rtol": 1e-5, "atol": 1e-6}  # float32 of what was computed in float64
POOLS = ("mean", "first", "last")


@cache
def tokenizer(kind="character"):
    config = TokenizerConfig.parse(
        {"kind": kind, **({"vocab_size": 280, "min_frequency": 1} if kind == "bpe" else {})}
    )
    return train_tokenizer(config, TEXTS * 3)


def built(architecture, head="none", kind="character", **changes):
    tokens = tokenizer(kind)
    size = tokens.vocab_size
    other = (
        {"source_vocab_size": size, "vocab_size": 7}
        if architecture == "encoder_decoder"
        else {"vocab_size": size}
    )
    model = tiny.model(architecture=architecture, head=head, max_length=64, **{**other, **changes})
    return model, reader_of(model.config, tokens, "to x: ")


TRUNKS = {
    "encoder": {"architecture": "encoder"},
    "post-norm": {
        "architecture": "encoder",
        "norm_placement": "post",
        "embedding_norm": True,
        "n_token_types": 2,
    },
    "masked": {"architecture": "encoder", "head": "masked_lm"},
    "decoder": {"architecture": "decoder", "head": "lm", "position": "rotary"},
    "tagger": {"architecture": "decoder", "head": "tag", "n_classes": 3},
    "classifier": {"architecture": "encoder", "head": "classify", "n_classes": 3, "pool": "mean"},
    "encoder-decoder": {"architecture": "encoder_decoder", "head": "lm", "n_encoder_layers": 3},
    "one vocabulary": {
        "architecture": "encoder_decoder",
        "head": "lm",
        "source_vocab_size": None,
        "vocab_size": 40,
    },
}
every_trunk = pytest.mark.parametrize("trunk", TRUNKS.values(), ids=TRUNKS.keys())


def by_hand(model, ids, how, layer):
    """The stream of one sequence alone, without `streams` and `pool`."""
    x = torch.tensor([list(map(int, ids))])
    embedding = model.source_embed or model.embed
    stack = model.decoder if model.encoder is None else model.encoder
    if layer == 0:
        hidden = embedding.element.weight[x]
    else:
        positions = Positions.arange(x.shape[1])
        context = stack.scoring(torch.float64).context(positions, positions)
        hidden = embedding(x, positions)
        for block in stack.blocks[:layer]:
            hidden = block(hidden, context)
        hidden = stack.norm(hidden) if layer is None and stack.norm is not None else hidden
    vector = {"mean": hidden[0].mean(0), "first": hidden[0, 0], "last": hidden[0, -1]}[how]
    return vector.detach().numpy()


@every_trunk
@pytest.mark.parametrize("layer", [None, 0, 1, 2])
@pytest.mark.parametrize("how", POOLS)
def test_it_is_the_pooled_stream_of_the_trunk(trunk, layer, how):
    model, reader = built(**trunk)
    got = embed(model, reader, TEXTS, how, layer=layer, normalize=False)
    assert got.dtype == np.float32
    for text, vector in zip(TEXTS, got, strict=True):
        (ids,) = reader.windows(text)
        np.testing.assert_allclose(vector, by_hand(model, ids, how, layer), **EXACT)
    lengths = np.linalg.norm(got, axis=1, keepdims=True)
    np.testing.assert_allclose(
        embed(model, reader, TEXTS, how, layer=layer), got / lengths, **EXACT
    )


@pytest.mark.parametrize("name", ["encoder", "tagger", "decoder", "one vocabulary"])
def test_a_text_alone_is_read_as_in_a_row_of_parts(name):
    trunk = TRUNKS[name] | {"vocab_size": tokenizer().vocab_size}
    model = tiny.model(max_length=64, parts={"image": 3}, **trunk)
    processor = PartsProcessor(tokenizer(), ModelFacts.of(model.config), {})
    got = embed(model, processor.reader, TEXTS, normalize=False)
    for text, vector in zip(TEXTS, got, strict=True):
        (window,) = processor.windows([text])
        np.testing.assert_allclose(
            vector, by_hand(model, window.example.ids, "mean", None), **EXACT
        )


def test_what_stands_around_a_text_is_what_the_model_was_trained_with():
    tokens = tokenizer()
    bos, eos = tokens.specials["bos"], tokens.specials["eos"]
    plain = tokens.encode("a cat").tolist()

    def read(**trunk):
        (ids,) = built(**trunk)[1].windows("a cat")
        return ids.tolist()

    assert read(**TRUNKS["encoder"]) == read(**TRUNKS["classifier"]) == [bos, *plain, eos]
    assert read(**TRUNKS["tagger"]) == [bos, *tokens.encode(" a cat"), eos]
    assert read(**TRUNKS["decoder"]) == read(**TRUNKS["masked"]) == plain
    assert read(**TRUNKS["encoder-decoder"]) == [*tokens.encode("to x: a cat"), eos]


@pytest.mark.parametrize("how", POOLS)
def test_it_is_what_a_classifier_reads(how):
    """`<bos>` and `<eos>` count, since they do in training."""
    model, reader = built("encoder", "classify", n_classes=3, pool=how)
    assert isinstance(model.head, ClassifyHead)
    vector = torch.from_numpy(embed(model, reader, ["a cat"], how, normalize=False)).double()
    ids = torch.from_numpy(reader.windows("a cat")[0]).long()[None]
    torch.testing.assert_close(model.head.proj(vector), model(ids).logits, rtol=1e-5, atol=1e-5)


@given(
    st.lists(st.text("acdot ", min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=8),
    st.data(),
)
def test_alone_or_among_others_in_any_order(texts, data):
    model, reader = built("encoder")
    order = data.draw(st.permutations(range(len(texts))))
    how = data.draw(st.sampled_from(POOLS))
    whole = embed(model, reader, texts, how)
    np.testing.assert_allclose(
        embed(model, reader, [texts[i] for i in order], how), whole[list(order)], **EXACT
    )
    np.testing.assert_allclose(embed(model, reader, texts[:1], how), whole[:1], **EXACT)


@pytest.mark.parametrize("how", POOLS)
def test_a_long_text_is_all_read_in_windows(how):
    model, _ = built("encoder", position="none")
    reader = TextReader(tokenizer(), 10, frame=Frame.of((1,), (2,)))
    text = "a cat on the mat and a dog"
    ids = tokenizer().encode(text)
    parts = reader.windows(text)
    assert all(len(part) <= 10 and part[0] == 1 and part[-1] == 2 for part in parts)
    assert all((one[5:-1] == other[1:5]).all() for one, other in itertools.pairwise(parts[:-1]))
    assert (
        np.concatenate([parts[0][1:-1], *(part[5:-1] for part in parts[1:-1])])
        == ids[: 8 + 4 * (len(parts) - 2)]
    ).all()
    assert parts[-1][-2] == ids[-1]
    vectors = np.stack([by_hand(model, part, how, None) for part in parts])
    weights = np.array([len(part) for part in parts])
    wanted = {"mean": weights @ vectors / weights.sum(), "first": vectors[0], "last": vectors[-1]}[
        how
    ]
    (got,) = embed(model, reader, [text], how, normalize=False)
    np.testing.assert_allclose(got, wanted, **EXACT)


def test_one_token_more_than_fits_makes_two_windows():
    reader = TextReader(tokenizer(), 8, prefix="x ")
    assert [len(part) for part in reader.windows("a cat ")] == [8]
    assert [len(part) for part in reader.windows("a cat a")] == [8, 5]
    with pytest.raises(ConfigError, match="has no room for text"):
        TextReader(tokenizer(), 2, frame=Frame.of((1,), (2,)))


def test_a_text_without_tokens_has_no_vector():
    model, reader = built("encoder")
    for nothing in ("", " ", "\n\t"):
        with pytest.raises(DataError, match=r"Text 2 of 3 is .* which has no tokens"):
            embed(model, reader, ["a", nothing, "b"])
        found = embedder(model, reader).predict_each(["a", nothing, "b"], EmbedOptions())
        got = np.stack([one.value for one in found])
        assert not got[1].any()
        np.testing.assert_allclose(got[[0, 2]], embed(model, reader, ["a", "b"]), **EXACT)
    assert embed(model, reader, []).shape == (0, 8)


def test_what_there_is_not_is_named():
    model, reader = built("encoder")
    with pytest.raises(ConfigError, match="should be 'mean', 'first' or 'last', got 'median'"):
        embed(model, reader, [], "median")
    for layer in (-1, 3):
        with pytest.raises(
            ConfigError, match=rf"no layer {layer} .* 0, the static embedding, and 1 to 2"
        ):
            embed(model, reader, [], layer=layer)
    patches = tiny.model(architecture="encoder", elements="patches", patch_width=3, head="none")
    with pytest.raises(ConfigError, match="reads patches, not text"):
        embed(patches, reader, [])


@every_trunk
def test_streams_are_those_of_one_pass(trunk):
    model, _ = built(**trunk)
    batch = Batch(tiny.tokens(2, 5) % 7)
    found, positions = streams(model, batch, [0, 1, 2, None])
    assert positions.length == 5
    again, _ = streams(model, batch, [None, 1])
    assert torch.equal(found[3], again[0])
    assert torch.equal(found[1], again[1])
    post = model.config.norm_placement == "post"
    assert torch.equal(found[2], found[3]) == post


def test_dropout_is_off_and_the_mode_is_given_back():
    from glassformer.models.transformer import Transformer

    model = Transformer(
        tiny.config(
            architecture="encoder", head="none", dropout=0.5, vocab_size=tokenizer().vocab_size
        )
    )
    model.train()
    reader = reader_of(model.config, tokenizer())
    assert (embed(model, reader, ["a cat"]) == embed(model, reader, ["a cat"])).all()
    assert model.training
