"""Heads in ONNX operations; the formulas are those of `layers.heads`."""

import numpy as np

from glassformer.interop.onnx.graph import Graph, Value, number, sizes
from glassformer.interop.onnx.layers import activation, last_rows, linear, norm
from glassformer.interop.onnx.places import Places
from glassformer.layers.heads import (
    ClassifyHead,
    LanguageModelHead,
    MaskedLanguageModelHead,
    NoHead,
    TagHead,
)
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer

LOGITS, VECTORS = "logits", "vectors"


def output(
    g: Graph, model: Transformer, hidden: Value, places: Places | None, length: str | int
) -> None:
    """Give logits or vectors of the stream [B, T, D]; `places` None: patches, without padding."""
    config, module = model.config, model.head
    match module:
        case ClassifyHead():
            found = _classified(g, config, module, hidden, places)
        case LanguageModelHead():
            found = _words(g, module, hidden)
        case MaskedLanguageModelHead():
            kind = config.head_activation or "gelu"
            dense = activation(g, kind, linear(g, module.dense, hidden))
            found = _words(g, module.unembed, norm(g, module.norm, dense))
        case TagHead():
            found = linear(g, module.proj, hidden)
        case NoHead():
            found = hidden
    outcomes = config.vocab_size if config.predicts_words else config.class_count
    width = config.d_model if config.gives_vectors else outcomes
    shape = ("batch", width) if config.one_output else ("batch", length, width)
    g.output(VECTORS if config.gives_vectors else LOGITS, found, *shape)


def _words(g: Graph, head: LanguageModelHead, hidden: Value) -> Value:
    weight = g.parameter(head.weight)
    with g.within(head):
        h = hidden if head.factor == 1.0 else g.op("Mul", hidden, number(head.factor))
        scores = g.op("MatMul", h, g.transpose(weight, 1, 0))
        return scores if head.bias is None else g.op("Add", scores, g.parameter(head.bias))


def _classified(
    g: Graph, config: ModelConfig, head: ClassifyHead, hidden: Value, places: Places | None
) -> Value:
    with g.within(head):
        x = _pooled(g, head, hidden, places)
    if head.dense is not None:
        x = activation(g, config.head_activation or "tanh", linear(g, head.dense, x))
    x = x if head.proj is None else linear(g, head.proj, x)
    if head.distilled_proj is None:
        return x
    with g.within(head):
        register = g.op("Gather", hidden, np.array(1), axis=1)
    return g.op("Mul", g.op("Add", x, linear(g, head.distilled_proj, register)), number(0.5))


def _pooled(g: Graph, head: ClassifyHead, hidden: Value, places: Places | None) -> Value:
    """The last or the first real element of each row, or the mean of the real ones."""
    how = head.how
    if places is None:
        if how == "mean":
            patches = last_rows(g, hidden, g.constant(sizes([head.n_registers])))
            return g.op("ReduceMean", patches, sizes([1]), keepdims=0)
        return g.op("Gather", hidden, np.array(-1 if how == "last" else 0), axis=1)
    if how == "mean":
        real = g.unsqueeze(g.cast(places.valid, np.float32), 2)
        total = g.op("ReduceSum", g.op("Mul", hidden, real), sizes([1]), keepdims=0)
        count = g.op("ReduceSum", real, sizes([1]), keepdims=0)
        return g.op("Div", total, g.op("Max", count, number(1)))
    if how == "last":
        at = g.op("ArgMax", g.op("Where", places.valid, places.position, np.array(-1)), axis=1)
    else:
        most = np.array(np.iinfo(np.int64).max)
        at = g.op("ArgMin", g.op("Where", places.valid, places.position, most), axis=1)
    return g.op("GatherND", hidden, at, batch_dims=1)
