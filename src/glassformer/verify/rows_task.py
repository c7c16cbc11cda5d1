"""Equations 13 to 16 and 18 of the notes: heads, loss, shift, generation, patches, tagging,
classification.

Small models run in float64 beside the reference, from production's own batches and patches, and
through its own decoding loop.
"""

from collections.abc import Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import get_args

import numpy as np
import torch

from glassformer import losses
from glassformer.batch import IGNORE, Batch, Positions
from glassformer.data import collate
from glassformer.data.example import Example
from glassformer.generate import GenerateConfig, advance, logits
from glassformer.generate.decode import decode
from glassformer.layers import heads
from glassformer.layers.cache import Cache, FixedCache
from glassformer.layers.embed import PatchEmbedding
from glassformer.media import patches as cutting
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
    reference_of,
    sample_of,
    tiny,
)
from glassformer.verify.reference_model import ReferenceModel
from glassformer.verify.row import DEEP, EXACT, LATER, PROJECT, TIGHT, Claim, Row
from glassformer.verify.rows_model_properties import in_pieces

T, D, V = 6, 16, 11
DEVIATIONS, DRAWN = 5.0, 300
"""Limit on the deviation of a sampled chain, in standard deviations, and its length. The seed is
fixed; a correct sampler exceeds 5 in less than one seed of 10^5 (12 sums, nearly normal)."""


def head() -> Iterator[Row]:
    """Equation 13."""
    h, embedding = draw("h", T, D), torch.nn.Parameter(draw("E", V, D))
    thirteen, sample = Claim("Note B", "13 language model head"), sample_of(batch_of(IDS), 0)
    for weight, note, formula, detail in (
        (embedding, "Note B", "u = h Eᵀ", "tied"),
        (None, "Note E", "u = h W + b", "untied"),
    ):
        module = filled(heads.LanguageModelHead(D, V, weight, bias=weight is None))
        expected = reference_of(module, "head", tied=False).head(array(h), sample)
        yield thirteen.by(note, detail)(formula, heads.LanguageModelHead, module(h), expected)
    model, _ = tiny()
    e = array(model.get_parameter("embed.element.weight"))
    got = model.get_parameter("head.weight")
    yield thirteen("the head's matrix is E itself", Transformer, got, e, EXACT, "tied")
    model, reference = tiny(architecture="encoder", head="masked_lm")
    got, expected = model(batch_of(IDS)).logits, reference_logits(reference, batch_of(IDS))[0]
    bert = thirteen.by(LATER, "BERT, Devlin et al. 2019")
    yield bert("u = LN(GELU(h W + b)) Eᵀ + b", heads.MaskedLanguageModelHead, got, expected, DEEP)


def temperatures() -> Iterator[Row]:
    """Equation 13 and the limits of τ, by the transform that generation applies."""
    u, thirteen = draw("u", T, V, spread=3.0), Claim("Note E", "13 language model head")
    for tau in (0.5, 1.0, 2.0):
        got, expected = logits.temperature(u, tau).softmax(-1), ref.softmax(array(u), tau)
        yield thirteen(
            "y = softmax(u / τ)", logits.temperature, got, expected, detail=f"τ = {tau:g}"
        )


def loss() -> Iterator[Row]:
    """Equation 14."""
    u, targets = draw("logits", 2, T, V, spread=2.0), torch.full((2, T), IGNORE)
    targets[0, [0, 1, 3, 4, 5]], targets[1, 5] = torch.tensor([1, 4, 0, 10, 3]), 2
    total, count = ref.cross_entropy(array(u), targets.numpy(), IGNORE)
    summed, fourteen = losses.cross_entropy(u, targets), Claim("Note E", "14 loss")
    yield fourteen("−Σ_i Σ_j y_ij log f_ij", losses.cross_entropy, summed.total, total)
    own, formula = fourteen.by(PROJECT), "targets that count"
    yield own(formula, losses.cross_entropy, summed.count, count, EXACT)
    got = Batch(targets.clamp(min=0), targets=targets).n_targets
    yield own(formula, Batch, got, count, EXACT)
    parts = [losses.cross_entropy(*part) for part in zip(u, targets, strict=True)]
    mean = sum(float(part.total) for part in parts) / sum(part.count for part in parts)
    yield own("(Σ over micro-batches) / (all targets)", losses.cross_entropy, mean, total / count)


def shift() -> Iterator[Row]:
    """Equation 15: in production's batch, target i is predicted from START and the targets before
    it."""
    choices = {"architecture": "encoder_decoder", "position": "sinusoidal", "head_bias": True}
    model, reference = tiny(**choices, tied=False)
    start, fifteen = 0, Claim("Note E", "15 shifted decoder input")

    def batch(target: list[int]) -> Batch:
        source, answer = (np.array(ids, np.int32) for ids in (SOURCE_IDS, target))
        return collate.encoder_decoder([Example(source, answer=answer)], start)

    given = batch(IDS)
    expected = ref.shift(IDS, start)
    yield fifteen(
        "[START] + target without its last", collate.shift_right, given.elements, expected, EXACT
    )
    seen = [batch_of([start, *IDS[:i]], SOURCE_IDS) for i in range(len(IDS))]
    steps = np.stack([reference_logits(reference, one)[0][-1] for one in seen])
    taught = model(given).logits
    yield fifteen(
        "[START] + target without its last ⇒ f_i = f(START, y_1 .. y_{i−1}; source)",
        collate.encoder_decoder,
        taught,
        steps,
        DEEP,
    )
    changed = model(batch([*IDS[:-1], 7])).logits
    yield fifteen(
        "the last target is never an input", collate.encoder_decoder, changed, array(taught), EXACT
    )


@torch.no_grad()
def greedy_cached(model: Transformer, prompt: list[int], count: int) -> list[int]:
    """Greedy generation by production's steps with a growing cache."""
    features, new = advance.prefill(model, [prompt], None, Cache()), []
    while True:
        ids = advance.next_logits(model, features).argmax(-1)
        new.append(int(ids))
        if len(new) == count:
            return new
        features = advance.advance(model, features, ids)


def generation() -> Iterator[Row]:
    """Equation 16: the likeliest token each time."""
    name = Claim("Notes D, E", "16 generation")
    formula = "x_{t+1} = arg max f(x_1 .. x_t), append, repeat"
    how = GenerateConfig.parse({"temperature": 0, "max_new_tokens": 8})
    for position in ("learned", "sinusoidal", "rotary", "alibi", "relative"):
        model, reference = tiny(position=position, tied=False)
        expected = ref.greedy(partial(_next, reference), IDS[:3], 8)
        got, detail = greedy_cached(model, IDS[:3], 8), f"{position}, growing cache"
        yield name(formula, Cache, got, expected, EXACT, detail)
        got = [step.ids[0] for step in decode(model, [IDS[:3]], how)]
        yield name(formula, decode, got, expected, EXACT, position)


def _next(reference: ReferenceModel, ids: list[int]) -> ref.Array:
    return reference_logits(reference, batch_of(ids))[0][-1]


def sampling() -> Iterator[Row]:
    """Equation 16 by distribution: with a window of 1, tokens are a Markov chain of known
    transitions."""
    chain = {"position": "none", "window": 1, "n_layers": 1, "tied": False}
    model, reference = tiny(**chain, max_length=DRAWN + 1)
    u = np.stack([_next(reference, [token]) for token in range(V)])
    name = Claim("Note D", "16 generation")
    for tau in (1.0, 0.5):
        how = GenerateConfig.parse({"temperature": tau, "max_new_tokens": DRAWN})
        drawn = [0, *(step.ids[0] for step in decode(model, [[0]], how))]
        counts, surprise = ref.sampling(drawn, ref.softmax(u, tau))
        for what, far in (("counts", float(np.abs(counts).max())), ("surprise", abs(surprise))):
            detail = f"{what} of {DRAWN} tokens, in standard deviations; τ = {tau:g}"
            yield name.at_most(
                "x_{t+1} ~ softmax(f(x_1 .. x_t) / τ)", decode, far, DEVIATIONS, detail
            )


def caching() -> Iterator[Row]:
    """Equation 16 with keys and values kept."""
    name = Claim(LATER, "16 generation")
    for architecture, source in (("decoder", None), ("encoder_decoder", SOURCE_IDS)):
        model, _ = tiny(architecture=architecture, position="rotary", n_kv_heads=1, head="none")
        whole = model(batch_of(IDS, source)).logits
        for sizes in ([8], [1] * 8, [3, 1, 4]):
            cuts = pairwise(accumulate(sizes, initial=0))
            pieces = [batch_of(IDS[begin:end], source) for begin, end in cuts]
            for cache in (Cache(), FixedCache(capacity=12)):
                got = in_pieces(model, pieces, cache)
                detail = f"{architecture}, steps of {'+'.join(map(str, sizes))}; Shazeer 2019"
                yield name("with cache = without", type(cache), got, array(whole), TIGHT, detail)


def causality() -> Iterator[Row]:
    """Equation 4 for whole models: a token changes nothing before it."""
    four = Claim("Notes A to E", "4 causality")
    for architecture, source in (("decoder", None), ("encoder_decoder", SOURCE_IDS)):
        model, _ = tiny(architecture=architecture)
        before, worst = model(batch_of(IDS, source)).logits[0], 0.0
        for t in range(1, len(IDS)):
            other = [*IDS[:t], (IDS[t] + 1) % V, *IDS[t + 1 :]]
            after = model(batch_of(other, source)).logits[0]
            worst = max(worst, float((after[:t] - before[:t]).detach().abs().max()))
        yield four(
            "changing token t+1 changes nothing up to t",
            Transformer,
            worst,
            0.0,
            EXACT,
            architecture,
        )


def patches() -> Iterator[Row]:
    """Equation 18: an image as a sequence."""
    image, eighteen = draw("image", 1, 8, 12, 3), Claim("Note D", "18 images and tasks")
    cut, flat = cutting.patchify(image, (4, 4)), ref.patches(array(image[0]), 4)
    yield eighteen("patches, flattened (h · w · c)", cutting.patchify, cut, flat, EXACT)
    for token, claim in (
        (False, eighteen),
        (True, eighteen.by(LATER, "behind a class token, Dosovitskiy et al. 2021")),
    ):
        module = filled(PatchEmbedding(4 * 4 * 3, D, class_token=token))
        expected = reference_of(module).linear("it.proj", flat)
        if module.class_token is not None:
            expected = np.concatenate([array(module.class_token)[0], expected])
        yield claim("x_t = flatten(patch_t) W_emb", PatchEmbedding, module(cut), expected)


def mean_loss(
    claim: Claim, formula: str, u: torch.Tensor, expected: ref.Array, targets: torch.Tensor
) -> Row:
    """The row of a loss over logits, the reference's from its own."""
    total, count = ref.cross_entropy(expected, targets.numpy(), IGNORE)
    summed = losses.cross_entropy(u, targets)
    return claim(formula, losses.cross_entropy, summed.total / summed.count, total / count)


def tagging() -> Iterator[Row]:
    """Equation 18: a class for each element."""
    name, h = Claim("Note D", "18 images and tasks"), draw("h", 2, T, D)
    tag = filled(heads.TagHead(D, 5))
    expected = reference_of(tag).linear("it.proj", array(h))
    yield name("tagging: softmax(h_t W + b) for every t", heads.TagHead, tag(h), expected)
    targets = torch.tensor([[0, 4, 2, IGNORE, 1, 3], [2, 2, 0, 1, IGNORE, IGNORE]])
    yield mean_loss(name, "tagging: −(1/n) Σ_t log y_t[target_t]", tag(h), expected, targets)


def classification() -> Iterator[Row]:
    """Equation 18: a class for a whole sequence."""
    h, place, name = draw("h", 2, T, D), Positions.padded([4, 6]), Claim("", "18 images and tasks")
    batch = Batch(torch.zeros(2, T, dtype=torch.long), place)
    sources = {
        "last": ("Note D", ""),
        "first": (LATER, ", Devlin et al. 2019"),
        "mean": (LATER, ""),
    }
    for how in get_args(heads.Pool):
        module, (note, paper) = filled(heads.ClassifyHead(D, 5, how, dense=False)), sources[how]
        reference = reference_of(module, "head", head="classify", pool=how, n_classes=5)
        rows = [reference.head(array(h[row]), sample_of(batch, row)) for row in range(2)]
        got = module(h, place)
        claim = name.by(note, f"{how} element{paper}")
        expected = np.stack(rows)
        yield claim("classification: softmax(h W + b)", heads.ClassifyHead, got, expected)
        targets = torch.tensor([1, 4])
        yield mean_loss(
            name.by("Note D", how), "classification: −(1/n) Σ log y[class]", got, expected, targets
        )


GROUPS = (
    head,
    temperatures,
    loss,
    shift,
    generation,
    sampling,
    caching,
    causality,
    patches,
    tagging,
    classification,
)
"""Functions of the rows, in order."""
