"""Equations 13 to 16 and 18 of the notes: heads, loss, shift, generation, patches, tagging,
classification.

Whole tiny models run in float64 beside the reference.
"""

from collections.abc import Callable, Iterator
from typing import get_args

import numpy as np
import torch

from glassformer.batch import IGNORE, Batch, Positions
from glassformer.generate import GenerateConfig, decode
from glassformer.generate.logits import temperature
from glassformer.layers import heads
from glassformer.layers.cache import Cache, FixedCache
from glassformer.layers.embed import PatchEmbedding
from glassformer.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import (
    IDS,
    SOURCE_IDS,
    array,
    batch_of,
    draw,
    filled,
    reference_logits,
    tiny,
)
from glassformer.verify.reference_model import ReferenceModel
from glassformer.verify.row import DEEP, EXACT, TIGHT, Row, row

T, D, V = 6, 16, 11


def task_rows() -> Iterator[Row]:
    """Rows of equations 13 to 16 and 18."""
    yield from head()
    yield from loss()
    yield from shift()
    yield from generation()
    yield from causality()
    yield from patches()
    yield from tasks()


def head() -> Iterator[Row]:
    """Equation 13."""
    h, embedding = draw("h", T, D), draw("E", V, D)
    tied = filled(heads.LanguageModelHead(D, V, torch.nn.Parameter(embedding.clone()), bias=False))
    formula = "u = h Eᵀ"
    expected = ref.project(array(h), array(tied.weight).T)
    yield row(
        "Note B",
        "13 language model head",
        formula,
        heads.LanguageModelHead,
        tied(h),
        expected,
        detail="tied",
    )
    untied = filled(heads.LanguageModelHead(D, V, None, bias=True))
    expected = ref.project(array(h), array(untied.weight).T, array(untied.bias))
    formula = "u = h W + b"
    yield row(
        "Note E",
        "13 language model head",
        formula,
        heads.LanguageModelHead,
        untied(h),
        expected,
        detail="untied",
    )
    model, _ = tiny()
    got, expected = (
        model.get_parameter("head.weight"),
        array(model.get_parameter("embed.element.weight")),
    )
    formula = "the head's matrix is E itself"
    yield row(
        "Note B", "13 language model head", formula, Transformer, got, expected, EXACT, "tied"
    )
    u = draw("u", T, V, spread=3.0)
    for tau in (0.5, 1.0, 2.0):
        got = temperature(u, tau).softmax(-1)
        yield row(
            "Note E",
            "13 language model head",
            "y = softmax(u / τ)",
            temperature,
            got,
            ref.softmax(array(u), tau),
            detail=f"τ = {tau:g}",
        )
    model, reference = tiny(architecture="encoder", head="masked_lm")
    expected = reference_logits(reference, batch_of(IDS))[0]
    formula = "u = LN(GELU(h W + b)) Eᵀ + b"
    got = model(batch_of(IDS)).logits[0]
    yield row(
        "Note E (BERT)",
        "13 language model head",
        formula,
        heads.MaskedLanguageModelHead,
        got,
        expected,
        DEEP,
    )


def loss() -> Iterator[Row]:
    """Equation 14."""
    logits, targets = (
        draw("logits", 2, T, V, spread=2.0),
        torch.tensor([[1, 4, IGNORE, 0, 10, 3], [IGNORE] * 5 + [2]]),
    )
    total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
    summed = cross_entropy(logits, targets)
    name, formula = "14 loss", "−Σ_i Σ_j y_ij log f_ij"
    yield row("Note E", name, formula, cross_entropy, summed.total, total)
    yield row("Note E", name, "targets that count", cross_entropy, summed.count, count, EXACT)
    yield row(
        "Note E",
        name,
        "targets that count",
        Batch,
        Batch(targets.clamp(min=0), targets=targets).n_targets,
        count,
        EXACT,
    )
    parts = [cross_entropy(logits[i : i + 1], targets[i : i + 1]) for i in range(2)]
    mean = sum(float(part.total) for part in parts) / sum(part.count for part in parts)
    formula = "(Σ over micro-batches) / (all targets)"
    yield row("Note E", name, formula, cross_entropy, mean, total / count)


def shift() -> Iterator[Row]:
    """Equation 15: with the shifted input, the prediction of target i is made from START and
    targets before i."""
    model, reference = tiny(
        architecture="encoder_decoder", position="sinusoidal", tied=False, head_bias=True
    )
    target, start = IDS, 0
    taught = model(batch_of(ref.shift(target, start), SOURCE_IDS)).logits[0]
    steps = []
    for i in range(len(target)):
        steps.append(reference_logits(reference, batch_of([start, *target[:i]], SOURCE_IDS))[0][-1])
    formula = "[START] + target without its last ⇒ f_i = f(START, y_1 .. y_{i−1}; source)"
    yield row(
        "Note E", "15 shifted decoder input", formula, Transformer, taught, np.stack(steps), DEEP
    )
    changed = model(batch_of(ref.shift([*target[:-1], 7], start), SOURCE_IDS)).logits[0]
    formula = "the last target is never an input"
    yield row(
        "Note E", "15 shifted decoder input", formula, Transformer, changed, array(taught), EXACT
    )


def cached(
    model: Transformer, ids: torch.Tensor, sizes: list[int], cache: Cache, source: Batch | None
) -> torch.Tensor:
    """Logits of all ids, fed `sizes` at a time through a cache."""
    memory, outputs, at = None, [], 0
    for size in sizes:
        features = model.features(Batch(ids[:, at : at + size], source=source), memory, cache)
        assert features.cache is not None
        memory, cache, at = features.memory, features.cache, at + size
        outputs.append(model.head(features.hidden, features.positions))
    return torch.cat(outputs, dim=1)


def greedy_cached(model: Transformer, prompt: list[int], count: int) -> list[int]:
    """Greedy generation with a growing cache, one new element at a time."""
    features = model.features(batch_of(prompt), cache=Cache())
    new: list[int] = []
    while True:
        new.append(int(model.head(features.hidden[:, -1:], features.positions).argmax()))
        if len(new) == count:
            return new
        features = model.features(batch_of(new[-1:]), cache=features.cache)


def generation() -> Iterator[Row]:
    """Equation 16."""
    name, formula = "16 generation", "x_{t+1} = arg max f(x_1 .. x_t), append, repeat"
    for position in ("learned", "sinusoidal", "rotary", "alibi", "relative"):
        model, reference = tiny(position=position, tied=False)
        step = _next(reference)
        expected = ref.greedy(step, IDS[:3], 8)
        with torch.no_grad():
            got = greedy_cached(model, IDS[:3], 8)
            yield row(
                "Notes D, E",
                name,
                formula,
                Cache,
                got,
                expected,
                EXACT,
                f"{position}, growing cache",
            )
            how = GenerateConfig.parse({"temperature": 0, "max_new_tokens": 8})
            got = [step.ids[0] for step in decode(model, [IDS[:3]], how)]
            yield row("Notes D, E", name, formula, decode, got, expected, EXACT, position)
    for architecture, source in (
        ("decoder", None),
        ("encoder_decoder", torch.tensor([SOURCE_IDS])),
    ):
        model, _ = tiny(architecture=architecture, position="rotary", n_kv_heads=1)
        side, ids = None if source is None else Batch(source), torch.tensor([IDS])
        whole = array(model(Batch(ids, source=side)).logits)
        for sizes in ([8], [1] * 8, [3, 1, 4]):
            for cache in (Cache(), FixedCache(capacity=12)):
                with torch.no_grad():
                    got = cached(model, ids, sizes, cache, side)
                detail = f"{architecture}, steps of {'+'.join(map(str, sizes))}"
                yield row(
                    "Note D", name, "with cache = without", type(cache), got, whole, TIGHT, detail
                )


def _next(reference: ReferenceModel) -> Callable[[list[int]], ref.Array]:
    return lambda ids: reference_logits(reference, batch_of(ids))[0][-1]


def causality() -> Iterator[Row]:
    """Equation 4 for whole models: a token changes nothing before it."""
    for architecture in ("decoder", "encoder_decoder"):
        source = SOURCE_IDS if architecture == "encoder_decoder" else None
        model, _ = tiny(architecture=architecture)
        before = model(batch_of(IDS, source)).logits[0]
        worst = torch.zeros(())
        for t in range(1, len(IDS)):
            other = [*IDS[:t], (IDS[t] + 1) % V, *IDS[t + 1 :]]
            after = model(batch_of(other, source)).logits[0]
            worst = torch.maximum(worst, (after[:t] - before[:t]).abs().max())
        formula = "changing token t+1 changes nothing up to t"
        yield row(
            "Notes A, B, D, E", "4 causality", formula, Transformer, worst, 0.0, EXACT, architecture
        )


def patches() -> Iterator[Row]:
    """Equation 18: an image as a sequence."""
    image = array(draw("image", 8, 12, 3))
    flat = ref.patches(image, 4)
    for class_token in (False, True):
        brick = filled(PatchEmbedding(4 * 4 * 3, D, class_token=class_token))
        expected = ref.project(flat, array(brick.proj.weight).T, array(brick.proj.bias))
        if brick.class_token is not None:
            expected = np.concatenate([array(brick.class_token)[0], expected])
        formula = "x_t = flatten(patch_t) W_emb"
        got = brick(torch.tensor(flat)[None])[0]
        detail = "behind a class token" if class_token else ""
        yield row(
            "Note D", "18 images and tasks", formula, PatchEmbedding, got, expected, detail=detail
        )


def tasks() -> Iterator[Row]:
    """Equation 18: tagging and classification."""
    name, h = "18 images and tasks", draw("h", 2, T, D)
    tag = filled(heads.TagHead(D, 5))
    expected = ref.project(array(h), array(tag.proj.weight).T, array(tag.proj.bias))
    yield row(
        "Note D", name, "tagging: softmax(h_t W + b) for every t", heads.TagHead, tag(h), expected
    )
    targets = torch.tensor([[0, 4, 2, IGNORE, 1, 3], [2, 2, 0, 1, IGNORE, IGNORE]])
    total, count = ref.cross_entropy(expected, targets.numpy(), IGNORE)
    summed = cross_entropy(tag(h), targets)
    formula = "tagging: −(1/n) Σ_t log y_t[target_t]"
    yield row("Note D", name, formula, cross_entropy, summed.total / summed.count, total / count)
    place = Positions.padded([4, 6])
    at = {"last": -1, "first": 0}
    for how in get_args(heads.Pool):
        brick = filled(heads.ClassifyHead(D, 5, how, dense=False))
        pooled = [array(h[b, : (4, 6)[b]]) for b in range(2)]
        pooled = [one[at[how]] if how in at else one.mean(0) for one in pooled]
        expected = ref.project(
            np.stack(pooled),
            array(brick.get_parameter("proj.weight")).T,
            array(brick.get_parameter("proj.bias")),
        )
        formula = "classification: softmax(h W + b)"
        yield row(
            "Note D",
            name,
            formula,
            heads.ClassifyHead,
            brick(h, place),
            expected,
            detail=f"{how} element",
        )
        total, count = ref.cross_entropy(expected, np.array([1, 4]))
        summed = cross_entropy(brick(h, place), torch.tensor([1, 4]))
        formula = "classification: −(1/n) Σ log y[class]"
        yield row(
            "Note D",
            name,
            formula,
            cross_entropy,
            summed.total / summed.count,
            total / count,
            detail=how,
        )
