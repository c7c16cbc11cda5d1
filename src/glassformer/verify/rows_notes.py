"""Rows of the notes: small models under every named choice, and functions outside a model."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.batch import IGNORE, Batch, Part, Positions
from glassformer.data import collate
from glassformer.data.example import Example
from glassformer.layers.attention import attend as attending
from glassformer.layers.attention.mask import Allowed, Causal, allowed
from glassformer.layers.position import vectors as positions
from glassformer.media.patches import patchify
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode
from glassformer.runtime.selectors import sampling as logits
from glassformer.verify import reference as ref
from glassformer.verify.row import Gap, Row, claims, rows_of
from glassformer.verify.rows_model import array, model_gaps, pair, reference_logits

TINY = {"vocab_size": 11, "max_length": 12, "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24}
"""Configuration of the small models, but for the fields of a case."""
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 0, 0]])
SOURCE_IDS = torch.tensor([[2, 7, 1, 8, 2], [0, 0, 3, 6, 9]])
PROMPT = [3, 1, 4]


def notes_rows() -> Iterator[Row]:
    """Every equation and every reading of the notes, production in float64 against the
    reference."""
    return rows_of(gap for group in GROUPS for gap in group())


def cases() -> dict[str, dict[str, Any]]:
    """Fields of the configuration of each claim that is a choice of such fields."""
    lines = claims().items()
    return {name: json.loads(line["fields"]) for name, line in lines if line["fields"]}


def field_text(fields: Mapping[str, Any]) -> str:
    """Text of the fields as in Python."""
    return ", ".join(f"{key}={value!r}" for key, value in fields.items())


def draw(*shape: int) -> Tensor:
    """Normal float64 numbers that depend only on the shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def make_model(config: ModelConfig) -> Transformer:
    """A model whose every weight has left its initial value: zeros and ones would hide mistakes."""
    model, generator = Transformer(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def batch_for(config: ModelConfig) -> Batch:
    """Two rows that such a model reads, the second shorter, and a source that is padded on the left
    if it reads one."""
    if config.reads_patches:
        patches = draw(2, config.max_length, config.patch_width)
        return Batch(patches, targets=torch.tensor([1, 4]))
    place, at = Positions.pad([8, 6]), torch.tensor([1, 2, 9])
    parts = tuple(
        Part(name, at + 2 * i, draw(3, width), torch.tensor([0, 1, 3]))
        for i, (name, width) in enumerate(config.parts.items())
    )
    targets = (IDS.roll(-1, 1) % (config.class_count or 11)).masked_fill(IDS == 0, IGNORE)
    targets = torch.tensor([1, 4]) if config.one_output else targets
    kinds = IDS % config.n_token_types if config.n_token_types else None
    if not config.is_encoder_decoder:
        return Batch(IDS, place, targets, kinds, parts=parts)
    parts = tuple(part for part in parts if int(part.at.max()) < SOURCE_IDS.numel())
    source = Batch(SOURCE_IDS, Positions.pad([5, 3], "left"), parts=parts)
    return Batch(IDS, place, targets, kinds, source)


def choices() -> Iterator[Gap]:
    """Every choice of fields: the gaps of a small model, whose forward pass is that of the case."""
    for name, fields in cases().items():
        config = ModelConfig.parse(TINY | fields)
        for gap in model_gaps(make_model(config), batch_for(config)):
            yield gap._replace(place=": ".join(filter(None, (field_text(fields), gap.place))))
            if gap.claim == "whole":
                yield gap._replace(claim=name, place=field_text(fields))


def scores() -> Iterator[Gap]:
    """Equation 2, and Note E's four terms of a score."""
    x, place = draw(6, 16), Positions.arange(6)
    allow, expected = allowed(Causal(), place, place), ref.simple_attention(array(x / 4))
    one = x[None, None] / 4
    for name, form in (("", attending.attend_reference), (".fused", attending.attend)):
        yield Gap(f"simplified{name}", "", form(one, one, one, allow, None, 1.0)[0], expected)
    p, (w_q, w_k) = positions.sinusoidal(place.position[0], 16, dtype=x.dtype), draw(2, 16, 4)
    q, k = (x + p) @ w_q, (x + p) @ w_k
    got = attending.attention_scores(q[None, None], k[None, None], Allowed(), None, 1.0)[0]
    contents = array(x), ref.sinusoid(np.arange(6), 16)
    terms = [a @ array(w_q) @ (b @ array(w_k)).T for a, b in product(contents, contents)]
    yield Gap("terms", "", got, np.sum(terms, axis=0))


def offsets() -> Iterator[Gap]:
    """Positions outside a model: relative offsets are linear operations (Note E); the first
    attempts of Note C."""
    vectors = partial(positions.sinusoidal, d_model=16, dtype=torch.float64)
    start = torch.arange(50)
    for delta in (1, 7, 30):
        p, moved_p, m = vectors(start), vectors(start + delta), ref.offset(16, delta)
        place = f"Δ = {delta}, every i to 50"
        yield Gap("offset", place, moved_p, array(p) @ m)
        yield Gap("offset.product", place, (p * moved_p).sum(-1), [m.trace() / 2] * 50)
    x = draw(1, 6, 16)
    naive = array(x[0]) + 0.1 * np.arange(1, 7)[:, None]
    yield Gap("naive", "", positions.naive_index(x, 0.1), naive)
    digits = [[int(digit) for digit in f"{i:07b}"[::-1]] for i in range(100)]
    yield Gap("binary", "", positions.binary_code(torch.arange(100), 7), digits)


def temperatures() -> Iterator[Gap]:
    """Equation 13, by the transform that generation applies."""
    u = 3 * draw(6, 11)
    for tau in (0.5, 1.0, 2.0):
        got = logits.temperature(u, tau).softmax(-1)
        yield Gap("temperature", f"τ = {tau:g}", got, ref.softmax(array(u), tau))


def shift() -> Iterator[Gap]:
    """Equation 15: in production's batch, target i is predicted from START and the targets before
    it."""
    config = ModelConfig.parse(TINY | {"architecture": "encoder_decoder"})
    (model, reference), start = pair(make_model(config)), 0
    source, answer = (one[0].numpy().astype(np.int32) for one in (SOURCE_IDS, IDS))
    given = collate.encoder_decoder([Example(source, answer=answer)], start)
    expected, read = [start, *answer[:-1].tolist()], Batch(SOURCE_IDS[:1])
    yield Gap("shift", "", given.elements, expected)
    steps = [
        reference_logits(reference, Batch(torch.tensor([expected[: i + 1]]), source=read))[0][-1]
        for i in range(len(expected))
    ]
    yield Gap("shift.teaching", "", model(given).logits, np.stack(steps))


def generation() -> Iterator[Gap]:
    """Equation 16: the likeliest token each time."""
    how = GenerateConfig.parse({"temperature": 0, "max_new_tokens": 8})
    for position in ("learned", "rotary", "relative"):
        config = ModelConfig.parse(TINY | {"position": position, "tied": False})
        model, reference = pair(make_model(config))
        step = lambda ids, r=reference: reference_logits(r, Batch(torch.tensor([ids])))[0][-1]
        got = [step.ids[0] for step in decode(model, [PROMPT], how)]
        yield Gap("greedy", f"position={position!r}", got, ref.greedy(step, PROMPT, 8))


def image() -> Iterator[Gap]:
    """Equation 18: an image as a sequence."""
    pixels = draw(1, 8, 12, 3)
    yield Gap("patches", "", patchify(pixels, (4, 4)), ref.patches(array(pixels[0]), 4))


GROUPS = (scores, choices, offsets, temperatures, shift, generation, image)
"""Functions of the gaps."""
