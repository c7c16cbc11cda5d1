"""Graphs of a Transformer.

model     input_ids [B, T], attention_mask [B, T] (or pixels, or patches)  ->  logits
model     the same, with past keys and values [B, G, P, K] and a mask [B, P + T]  ->  logits and
          present keys and values [B, G, P + T, K]; P = 0 begins
encoder   input_ids [B, S], attention_mask [B, S]  ->  keys and values of cross-attention
decoder   like a model with past keys and values, beside those of the encoder
"""

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.batch import Positions
from glassformer.interop.onnx import places
from glassformer.interop.onnx.graph import Graph, Value, floats, number, sizes
from glassformer.interop.onnx.heads import output
from glassformer.interop.onnx.layers import (
    Context,
    KeysValues,
    block,
    convolved,
    keys_values,
    last_rows,
    linear,
    norm,
)
from glassformer.layers.block import Block
from glassformer.layers.embed import Embedding, PatchEmbedding, TokenEmbedding
from glassformer.layers.stack import Stack
from glassformer.layers.stem import Convolution
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
SOURCE_MASK = "encoder_attention_mask"
PIXELS, PATCHES = "pixels", "patches"
SIDES = "key", "value"


def graphs(model: Transformer, images: ImageReader | None = None) -> dict[str, Graph]:
    """The graphs of a model by their names; a model of images reads pixels. ConfigError: a weight
    that no graph has."""
    config = model.config
    if config.architecture == "encoder_decoder":
        made = {"encoder": _encoder(model), "decoder": _decoder(model)}
    elif config.predicts_next:
        made = {"model": _decoder(model)}
    else:
        made = {"model": _patches(model, images) if config.reads_patches else _single(model)}
    first, *others = (one.account for one in made.values())
    first.finish(*others)
    return made


def cached(layer: int, side: str) -> Value:
    """The name of the input with the past keys or values of a layer."""
    return f"past_key_values.{layer}.{side}"


def present(layer: int, side: str) -> Value:
    """The name of the output with all keys or values of a layer."""
    return f"present.{layer}.{side}"


def crossed(layer: int, side: str) -> Value:
    """The name of the encoder's keys or values at a layer."""
    return f"encoder.{layer}.{side}"


def _single(model: Transformer) -> Graph:
    """Tokens to the outputs of an encoder, or of a decoder that does not generate."""
    g = Graph(model)
    where = places.places_of(g, _tokens(g, model.config, "length"))
    stack = model.encoder or model.decoder
    assert stack is not None
    x = _embedded(g, model.config, model.embed, where.position)
    causal = model.config.architecture == "decoder"
    own = places.context(g, model.config, stack, where.position, where, causal=causal)
    output(g, model, _stacked(g, model.config, stack, x, own)[0], where, "length")
    return g


def _patches(model: Transformer, images: ImageReader | None) -> Graph:
    """Pixels or patches to the outputs of an encoder."""
    g, config = Graph(model), model.config
    assert model.encoder is not None
    if images is None:
        given = g.input(PATCHES, np.float32, "batch", config.max_length, config.patch_width)
    else:
        given = _cut(g, images)
    positions = Positions.arange(config.max_length).after(config.n_prefix)
    x = _patch_embedded(g, model.embed, given, positions)
    own = places.patch_context(g, model.encoder, positions)
    hidden, _ = _stacked(g, config, model.encoder, x, own)
    output(g, model, hidden, None, positions.length)
    return g


def _encoder(model: Transformer) -> Graph:
    """A source to the keys and values that each layer of the decoder reads."""
    g, config = Graph(model), model.config
    assert model.encoder is not None
    assert model.decoder is not None
    where = places.places_of(g, _tokens(g, config, "source"))
    embed = model.embed if model.source_embed is None else model.source_embed
    x = _embedded(g, config, embed, where.position)
    own = places.context(g, config, model.encoder, where.position, where, causal=False)
    memory, _ = _stacked(g, config, model.encoder, x, own)
    for layer, one in enumerate(model.decoder.blocks):
        assert isinstance(one, Block)
        assert one.cross is not None
        for side, value in zip(SIDES, keys_values(g, one.cross, memory), strict=True):
            g.output(crossed(layer, side), value, *_cache_shape(config, "source"))
    return g


def _decoder(model: Transformer) -> Graph:
    """New tokens after past ones to logits and present keys and values."""
    g, config, stack = Graph(model), model.config, model.decoder
    assert stack is not None
    mask = _tokens(g, config, "length", "total", kinds=model.encoder is None)
    source = None
    if model.encoder is not None:
        source_mask = g.input(SOURCE_MASK, np.int64, "batch", "source")
        memory = [_cache_inputs(g, config, i, crossed, "source") for i in range(config.n_layers)]
        source = memory, places.source_context(g, source_mask)
    pasts = [_cache_inputs(g, config, i, cached, "past") for i in range(config.n_layers)]
    keys = places.places_of(g, mask)
    first = g.size(pasts[0][0], 2)
    position = last_rows(g, keys.position, first)
    x = _embedded(g, config, model.embed, position, kinds=model.encoder is None)
    own = places.context(g, config, stack, position, keys, causal=True)
    hidden, caches = _stacked(g, config, stack, x, own, pasts, source)
    output(g, model, hidden, keys, "length")
    for layer, kv in enumerate(caches):
        for side, value in zip(SIDES, kv, strict=True):
            g.output(present(layer, side), value, *_cache_shape(config, "total"))
    return g


def _cache_shape(config: ModelConfig, length: str) -> tuple[int | str, ...]:
    return "batch", config.kv_heads, length, config.head_width


def _cache_inputs(
    g: Graph, config: ModelConfig, layer: int, name: Callable[[int, str], Value], length: str
) -> KeysValues:
    shape = _cache_shape(config, length)
    key, value = (g.input(name(layer, side), np.float32, *shape) for side in SIDES)
    return key, value


def _tokens(
    g: Graph, config: ModelConfig, length: str, total: str | None = None, kinds: bool = True
) -> Value:
    """The inputs of tokens; returns their mask."""
    g.input(IDS, np.int64, "batch", length)
    mask = g.input(MASK, np.int64, "batch", total or length)
    if config.n_token_types and kinds:
        g.input(TYPES, np.int64, "batch", length)
    return mask


def _embedded(
    g: Graph, config: ModelConfig, embed: Embedding, position: Value, kinds: bool = True
) -> Value:
    """Vectors of tokens at these positions."""
    element = embed.element
    assert isinstance(element, TokenEmbedding)
    with g.within(embed):
        x = g.op("Gather", g.parameter(element.weight), IDS)
        x = x if element.factor == 1.0 else g.op("Mul", x, number(element.factor))
        if embed.position is not None:
            p = places.vectors(g, embed.position, position)
            x = g.op("Concat", x, p, axis=-1) if embed.position_width else g.op("Add", x, p)
        if embed.kind is not None:
            table = g.parameter(embed.kind.weight)
            first = g.op("Gather", table, np.array(0))
            x = g.op("Add", x, g.op("Gather", table, TYPES) if kinds else first)
    return x if embed.norm is None else norm(g, embed.norm, x)


def _cut(g: Graph, images: ImageReader) -> Value:
    """Pixels, uint8 [B, H, W, C], as normalized patches [B, T, P]."""
    height, width, channels = images.shape
    (rows, columns), (p, q) = images.grid, images.config.patch_size
    pixels = g.cast(g.input(PIXELS, np.uint8, "batch", height, width, channels), np.float32)
    mean, std = map(floats, images.normal)
    x = g.op("Sub", g.op("Mul", pixels, 1 / (np.float32(255) * std)), mean / std)
    cut = g.transpose(g.reshape(x, -1, rows, p, columns, q, channels), 0, 1, 3, 2, 4, 5)
    return g.reshape(cut, -1, rows * columns, p * q * channels)


def _patch_embedded(g: Graph, embed: Embedding, patches: Value, positions: Positions) -> Value:
    """Vectors of all patches, after those of a class token and registers if there are any."""
    element = embed.element
    assert isinstance(element, PatchEmbedding)
    with g.within(embed):
        if isinstance(element.proj, Convolution):
            assert element.stem is not None
            x = convolved(g, element.stem, element.proj, patches)
        else:
            x = linear(g, element.proj, patches)
        for learned in (element.registers, element.class_token):
            if learned is not None:
                shape = g.op("Concat", g.size(x, 0), sizes(learned.shape[1:]), axis=0)
                x = g.op("Concat", g.op("Expand", g.parameter(learned), shape), x, axis=1)
        if embed.position is not None:
            p = places.patch_vectors(g, embed.position, positions)
            if embed.position_width:
                shape = g.op("Concat", g.size(x, 0), sizes([1, 1]), axis=0)
                x = g.op("Concat", x, g.op("Expand", p, shape), axis=-1)
            else:
                x = g.op("Add", x, p)
    return x if embed.norm is None else norm(g, embed.norm, x)


def _stacked(
    g: Graph,
    config: ModelConfig,
    stack: Stack,
    x: Value,
    own: Context,
    pasts: Sequence[KeysValues] | None = None,
    source: tuple[Sequence[KeysValues], Context] | None = None,
) -> tuple[Value, list[KeysValues]]:
    """The stream after the last block, and the keys and values of each layer."""
    found = []
    for layer, one in enumerate(stack.blocks):
        assert isinstance(one, Block)
        past = None if pasts is None else pasts[layer]
        crossed = None if source is None else (source[0][layer], source[1])
        x, kv = block(g, one, config.activation, x, own, past, crossed)
        found.append(kv)
    return x if stack.norm is None else norm(g, stack.norm, x), found
