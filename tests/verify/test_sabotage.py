"""Negative controls: production that is wrong in one place fails in the rows that name it, and in
no others.

Each `Sabotage` breaks one production function and lists the rows of some groups that then fail. Every row of the notes fails in at least one of them.
"""

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn import functional as F

from glassformer import losses, verify
from glassformer.layers import attend, attention, mask
from glassformer.verify import rows_attention as A
from glassformer.verify import rows_golden as G
from glassformer.verify import rows_readings as R
from glassformer.verify import rows_stream as S
from glassformer.verify import rows_task as T
from verify.models import noted

Wrong = Callable[[Any], Any]


class Sabotage(NamedTuple):
    """`broken`, a name in glassformer, becomes wrong(right). `failing` are texts: a row of `groups`
    fails if and only if one of them is in its "equation | formula | function | detail"."""

    broken: str
    what: str
    wrong: Wrong
    groups: tuple[Callable[[], Any], ...]
    failing: tuple[str, ...]


def times(factor: float) -> Wrong:
    """The right result times a factor."""
    return lambda right: lambda *args, **kwargs: right(*args, **kwargs) * factor


def instead(function: Any) -> Wrong:
    """Another function."""
    return lambda right: function


def swapped(**kinds: str) -> Wrong:
    """Some words among the arguments taken for others."""
    return lambda right: (
        lambda *args: right(*(kinds.get(one, one) if isinstance(one, str) else one for one in args))
    )


def without_bias(weight: str) -> Wrong:
    """A module's map without its bias."""
    return instead(lambda self, x, *_: F.linear(x, self.get_parameter(weight)))


def sample_norm(x, weight, bias, epsilon):
    """LayerNorm with n - 1 in the deviation."""
    y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + epsilon).sqrt() * weight
    return y if bias is None else y + bias


def printed_swapped(right):
    """Note C's exponent for the paired one, and the other way round."""
    return lambda place, d_model, *, printed=False, **how: right(
        place, d_model, printed=not printed, **how
    )


def one_frequency(place, d_model, *, printed=False, halves=False, dtype=torch.float32):
    """Sines and cosines of the position itself in every pair."""
    pair = torch.stack([place.double().sin(), place.double().cos()], -1)
    return pair.repeat(*[1] * place.dim(), d_model // 2).to(dtype)


def groups_in_turn(q, k, v, allow, bias, scale, dropout=0.0):
    """Key-value heads dealt out in turn to the query heads."""
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1)
    return attend.attend_reference(q, k, v, allow, bias, scale)


def backwards(right):
    """Rotations by the negative angle."""

    def wrong(*args, **kwargs):
        cos, sin = right(*args, **kwargs)
        return cos, -sin

    return wrong


def by_slot(right):
    """Attention whose output depends on the slot."""
    return lambda q, *args: right(q, *args) + torch.arange(q.shape[2])[:, None]


def identity(scores):
    """A pattern in which every query attends to its own slot alone."""
    return torch.eye(*scores.shape[-2:], dtype=scores.dtype).expand_as(scores)


def loss_of(count: Callable[..., int], total: Callable[..., float] = lambda right: right.total):
    """A loss with another count or total; both get the right one, the logits and the targets."""
    return lambda right: (
        lambda u, targets: losses.LossSum(
            total(right(u, targets)), count(right(u, targets), targets)
        )
    )


def keys_reversed(right):
    """A cache that gives its keys in the other order."""

    def wrong(*args):
        keys, values = right(*args)
        return keys.flip(2), values

    return wrong


def paged_keys_reversed(right):
    """The same for each segment."""

    def wrong(*args):
        keys, values = right(*args)
        return tuple(own.flip(2) for own in keys), values

    return wrong


def untied(model):
    """A head with a copy of the embedding matrix."""
    head = getattr(model.head, "unembed", model.head)
    head.weight = torch.nn.Parameter(head.weight.detach().clone())


def second_best(u, rows, config):
    """The second likeliest token."""
    return u.topk(2).indices[:, 1]


def one_more_row(right):
    """A learned table with one row more."""

    def wrong(self, rows, *args):
        right(self, rows + 1, *args)

    return wrong


REFERENCE = attend.attend_reference


def pre_norm(self, stream, norm, branch, x):
    """x + f(LN(x)), whatever the block's placement."""
    return self.join(stream, branch(norm(x)))


def post_norm(self, stream, norm, branch, x):
    """LN(x + f(x)), whatever the block's placement."""
    return norm(self.join(stream, branch(x)))


PATCHES_OF_14 = {"patch_width": 14 * 14 * 3, "grid": (16, 16), "max_length": 256}
SABOTAGES = [
    # 1
    Sabotage(
        "layers.attention:Attention.queries",
        "no bias",
        instead(lambda self, x, _: attention.split_heads(x @ self.q_proj.weight.T, self.n_heads)),
        (A.projections,),
        ("q_i",),
    ),
    Sabotage(
        "layers.attention:Attention.keys_values",
        "in the other order",
        lambda right: lambda *args: right(*args)[::-1],
        (A.projections,),
        ("k_i", "v_i"),
    ),
    # 2, 3
    Sabotage(
        "layers.attend:attention_scores",
        "too large",
        times(1.01),
        (A.simplified, A.scaled, G.worked_example),
        (
            "attend_reference",
            "attention_scores",
            "softmax_j",
            ".84967",
        ),
    ),
    Sabotage(
        "layers.attend:attend",
        "too large",
        times(1.01),
        (A.simplified, A.scaled, A.causal),
        ("attend.attend |",),
    ),
    Sabotage(
        "layers.attend:attention_pattern",
        "rows that do not sum to 1",
        times(0.9),
        (A.scaled, G.worked_example, G.causal_table),
        ("softmax_j", "Σ_j a_ij = 1", "softmax: "),
    ),
    Sabotage(
        "layers.attend:attention_values",
        "of other rows",
        lambda right: lambda pattern, v: right(pattern, v.roll(1, -2)),
        (A.scaled, G.causal_table),
        ("attend_reference", "a_{3,2}"),
    ),
    # 4
    Sabotage(
        "layers.mask:Causal.table",
        "one too far",
        instead(lambda self, q, k: k.position[:, None] <= q.position[:, :, None] + 1),
        (A.causal, G.causal_table),
        ("M_ij = 0", "nothing gives", "row i sees"),
    ),
    Sabotage(
        "verify.cases:allowed",
        "everything",
        instead(lambda *_: mask.Allowed()),
        (A.causal, G.causal_table, R.inside_or_outside, R.future_scores),
        ("p_ij", "+ M)", "(M +", "a_ij = 0 for", "a_ij > 0 exactly"),
    ),
    Sabotage(
        "layers.stack:allowed",
        "everything",
        instead(lambda *_: mask.Allowed()),
        (T.causality,),
        ("4 causality",),
    ),
    Sabotage(
        "layers.attend:attention_pattern",
        "each query to itself",
        instead(identity),
        (A.causal, R.future_scores, G.sharpness),
        (
            "nothing gives z_i = 0 | glassformer.layers.attend.attend_r",
            "zeroing",
            "0 before softmax ⇒ a_ij >",
            "near uniform",
        ),
    ),
    # 5
    Sabotage(
        "layers.attention:merge_heads",
        "in the other order",
        instead(lambda z: z.flip(1).transpose(1, 2).flatten(2)),
        (A.heads, R.output_projection),
        ("5 heads", "W_O"),
    ),
    Sabotage(
        "layers.attention:attend",
        "groups dealt out in turn",
        instead(groups_in_turn),
        (A.heads,),
        ("grouped-query",),
    ),
    # scores with positions
    Sabotage(
        "layers.position:sinusoidal",
        "printed for paired",
        printed_swapped,
        (A.four_terms, S.position_vectors, S.offsets, R.printed_sinusoid),
        (
            "x·x",
            "position term",
            "position-content",
            "p(i, 2k)",
            "| sinusoidal",
            "Δ =",
            "sinusoid exponent",
            "frequency",
        ),
    ),
    Sabotage(
        "layers.attention:Attention.queries",
        "too large",
        times(1.01),
        (A.four_terms,),
        ("3, 8",),
    ),
    # 6
    Sabotage(
        "layers.position:RelativeBias.forward",
        "the wrong way round",
        lambda right: lambda self, query, key: right(self, query, key).mT,
        (A.relative, R.choices),
        ("f(i − j)", "√d_k + B", "+ B) / √d_k"),
    ),
    Sabotage(
        "layers.position:relative_bucket",
        "one too far",
        lambda right: lambda d, *a, **k: right(d - 1, *a, **k),
        (A.relative,),
        ("T5",),
    ),
    Sabotage(
        "layers.position:BucketBias.forward",
        "too large",
        times(1.01),
        (A.relative, R.choices),
        ("B_ij = f(bucket", "not scaled | glassformer.layers.attend", "Q Kᵀ + B | "),
    ),
    Sabotage(
        "layers.position:alibi_slopes",
        "too flat",
        times(0.5),
        (A.relative,),
        ("ALiBi",),
    ),
    Sabotage(
        "layers.attend:attend",
        "without its bias",
        instead(lambda q, k, v, allow, bias, scale: REFERENCE(q, k, v, allow, None, scale)),
        (A.relative,),
        ("attend.attend |",),
    ),
    Sabotage(
        "layers.attend:attend_reference",
        "without its bias",
        instead(lambda q, k, v, allow, bias, scale: REFERENCE(q, k, v, allow, None, scale)),
        (A.relative,),
        ("attend_reference",),
    ),
    # 7
    Sabotage(
        "layers.stack:SOURCE_MASK",
        "sees padding",
        instead(mask.Everything()),
        (A.cross,),
        ("7 cross",),
    ),
    # 8
    Sabotage(
        "layers.position:LearnedPosition.forward",
        "too large",
        times(1.01),
        (S.position_vectors,),
        ("p_i = row", "learned"),
    ),
    Sabotage(
        "layers.embed:TokenEmbedding.forward",
        "of the next token",
        lambda right: lambda self, ids: right(self, (ids + 1) % len(self.weight)),
        (S.position_vectors, G.picked_rows),
        ("x_i = ", "golden: row"),
    ),
    Sabotage(
        "layers.embed:Embedding.forward",
        "[p; x]",
        lambda right: lambda self, *args: right(self, *args).roll(self.position_width, -1),
        (S.position_vectors, R.choices),
        ("[E[id", "[x; Pos]"),
    ),
    Sabotage(
        "layers.position:naive_index",
        "from 0",
        lambda right: lambda x, beta: right(x, beta) - beta,
        (S.position_vectors,),
        ("naive",),
    ),
    Sabotage(
        "layers.position:binary_code",
        "highest first",
        lambda right: lambda *args: right(*args).flip(-1),
        (S.position_vectors,),
        ("binary",),
    ),
    Sabotage(
        "layers.position:sinusoidal",
        "one frequency",
        instead(one_frequency),
        (S.offsets, R.printed_sinusoid),
        ("8 relative", "frequency", "as printed", "sin or cos"),
    ),
    Sabotage(
        "layers.position:rotation",
        "backwards",
        backwards,
        (S.rotary,),
        ("turned by",),
    ),
    Sabotage(
        "layers.position:rotation",
        "of the square",
        lambda right: lambda p, *args, **kwargs: right(type(p)(p.position**2), *args, **kwargs),
        (S.rotary,),
        ("rotary",),
    ),
    # 9
    Sabotage(
        "layers.norm:layer_norm",
        "n - 1 in the deviation",
        instead(sample_norm),
        (S.normalization,),
        ("norm.layer_norm", "LayerNorm"),
    ),
    Sabotage(
        "layers.norm:rms_norm",
        "too large",
        times(1.01),
        (S.normalization,),
        ("RMSNorm",),
    ),
    # 10
    Sabotage(
        "layers.feedforward:gelu_tanh",
        "the exact one",
        instead(F.gelu),
        (S.feed_forward,),
        ("φ = gelu_tanh",),
    ),
    Sabotage(
        "layers.feedforward:FeedForward.forward",
        "mixes tokens",
        lambda right: lambda self, x: right(self, x) + x.mean(1, keepdim=True),
        (S.feed_forward,),
        ("10 feed-forward",),
    ),
    # 11, 12, 19
    Sabotage(
        "layers.block:Block.sublayer",
        "post-norm",
        instead(post_norm),
        (S.blocks,),
        ("x + f(LN(x))",),
    ),
    Sabotage(
        "layers.block:Block.sublayer",
        "pre-norm",
        instead(pre_norm),
        (S.blocks, R.choices),
        ("LN(x + f(x))", "LN(f(x))"),
    ),
    Sabotage(
        "layers.block:Block.join",
        "never",
        instead(lambda self, x, branch: branch),
        (S.residual, S.gradient),
        ("12 residual", "= 1 + ∂f"),
    ),
    Sabotage(
        "layers.block:Block.join",
        "always",
        instead(lambda self, x, branch: x + branch),
        (S.gradient, R.choices),
        ("without:",),
    ),
    # 13
    Sabotage(
        "layers.heads:LanguageModelHead.forward",
        "no bias",
        without_bias("weight"),
        (T.head, R.choices),
        ("u = h W + b", "BERT"),
    ),
    Sabotage(
        "layers.heads:LanguageModelHead.forward",
        "too large",
        times(1.01),
        (T.head,),
        ("LanguageModelHead |",),
    ),
    Sabotage(
        "models.transformer:Transformer.tie",
        "with a copy",
        instead(untied),
        (T.head,),
        ("E itself", "BERT"),
    ),
    Sabotage(
        "layers.heads:MaskedLanguageModelHead.forward",
        "too large",
        times(1.01),
        (T.head,),
        ("BERT",),
    ),
    Sabotage(
        "generate.logits:temperature",
        "multiplied",
        lambda right: lambda u, tau: right(u, 1 / tau),
        (T.temperatures, G.temperature),
        ("τ = 0.5", "τ = 2", "τ = 10⁶", "τ = 0.001"),
    ),
    Sabotage(
        "generate.logits:top_k",
        "one more",
        lambda right: lambda u, k: right(u, k + 1),
        (G.temperature,),
        ("τ = 0 ",),
    ),
    # 14
    Sabotage(
        "losses:cross_entropy",
        "padding counted",
        loss_of(lambda right, targets: targets.numel()),
        (T.loss, T.tagging),
        ("targets that count | glassformer.losses", "micro-batches", "tagging: −"),
    ),
    Sabotage(
        "losses:cross_entropy",
        "a mean",
        loss_of(lambda right, _: right.count, lambda right: right.total / right.count),
        (T.loss, T.tagging, T.classification),
        ("Σ_i Σ_j", "micro-batches", "tagging: −", "classification: −"),
    ),
    Sabotage(
        "batch:Batch.n_targets",
        "padding counted",
        instead(property(lambda self: self.targets.numel())),
        (T.loss,),
        ("batch.Batch",),
    ),
    # 15
    Sabotage(
        "data.collate:shift_right",
        "not shifted",
        instead(lambda answers, bos: torch.tensor([list(ids) for ids in answers])),
        (T.shift,),
        ("15 shifted",),
    ),
    # 16
    Sabotage(
        "layers.cache:Cache.store",
        "forgets",
        keys_reversed,
        (T.caching,),
        ("cache.Cache",),
    ),
    Sabotage(
        "layers.segments:SegmentedCache.store",
        "forgets",
        paged_keys_reversed,
        (T.caching,),
        ("segments.SegmentedCache",),
    ),
    Sabotage(
        "generate.advance:next_logits",
        "of the negative",
        times(-1),
        (T.generation,),
        ("growing cache",),
    ),
    Sabotage(
        "generate.choosing:next_tokens",
        "the second likeliest",
        instead(second_best),
        (T.generation,),
        ("decode.decode",),
    ),
    Sabotage(
        "generate.choosing:next_tokens",
        "the likeliest",
        instead(lambda u, *_: u.argmax(-1)),
        (T.sampling,),
        ("16",),
    ),
    Sabotage(
        "generate.logits:temperature",
        "ignored",
        instead(lambda u, tau: u),
        (T.sampling,),
        ("τ = 0.5",),
    ),
    Sabotage(
        "generate.logits:uniform",
        "of the seed alone",
        lambda right: lambda seed, step: right(seed, 0),
        (T.sampling,),
        ("counts of",),
    ),
    # 17
    Sabotage(
        "layers.attention:attend",
        "depends on the slot",
        by_slot,
        (S.permutation,),
        ("17",),
    ),
    Sabotage(
        "layers.position:RelativeBias.forward",
        "of slots",
        lambda right: (
            lambda self, query, key: right(self, *(type(p).arange(p.length) for p in (query, key)))
        ),
        (S.permutation,),
        ("relative:",),
    ),
    # 18
    Sabotage(
        "media.patches:patchify",
        "flattened by columns",
        lambda right: lambda pixels, size: right(pixels.transpose(1, 2), size),
        (T.patches,),
        ("18",),
    ),
    Sabotage(
        "layers.embed:PatchEmbedding.forward",
        "too large",
        times(1.01),
        (T.patches,),
        ("W_emb",),
    ),
    Sabotage(
        "layers.heads:TagHead.forward",
        "no bias",
        without_bias("proj.weight"),
        (T.tagging,),
        ("tagging",),
    ),
    *(
        Sabotage(
            "layers.heads:pool",
            f"{other} for {how}",
            swapped(**{how: other}),
            (T.classification,),
            (f"{how} element", f"cross_entropy | {how}"),
        )
        for how, other in (("last", "first"), ("first", "mean"), ("mean", "last"))
    ),
    Sabotage(
        "layers.heads:ClassifyHead.reads",
        "the register first",
        lambda right: lambda *args: right(*args).flip(0),
        (T.classification,),
        ("distillation token", "cross_entropy | distilled"),
    ),
    # readings
    Sabotage(
        "layers.heads:pooled_at",
        "the other one",
        swapped(first="last", last="first"),
        (R.choices,),
        ("last element", "first element"),
    ),
    Sabotage(
        "layers.heads:pooled_mean",
        "too large",
        times(1.01),
        (R.choices,),
        ("mean of",),
    ),
    Sabotage(
        "layers.block:Block.sublayer",
        "post-norm",
        instead(post_norm),
        (R.choices,),
        (
            "scale",
            "bias placement",
            "sinusoid",
            "without: f(",
            "final norm",
            "FFN",
            "head |",
            "classification",
        ),
    ),
    Sabotage(
        "layers.attention:score_scale",
        "of the head for the model",
        swapped(model="head"),
        (R.scale, R.choices),
        ("√d,",),
    ),
    Sabotage(
        "layers.attention:score_scale",
        "of the head for none",
        swapped(none="head"),
        (R.choices,),
        ("scale='none'",),
    ),
    Sabotage(
        "layers.attention:score_scale",
        "of the model for the head",
        swapped(head="model"),
        (R.scale,),
        ("√(d_k / h)",),
    ),
    Sabotage(
        "models.transformer:score_scale",
        "of the model for the head",
        swapped(head="model"),
        (R.choices,),
        ("inside",),
    ),
    Sabotage(
        "layers.feedforward:FeedForward.forward",
        "wide ones halved",
        lambda right: (
            lambda self, x: right(self, x) / (2 if self.up_proj.out_features == 64 else 1)
        ),
        (R.choices,),
        ("d_ff > d",),
    ),
    Sabotage(
        "layers.attend:attention_scores",
        "masked by a number",
        lambda right: lambda *args: right(*args).clamp(min=-10.0),
        (R.inside_or_outside, R.future_scores),
        ("mask placement", "future scores"),
    ),
    Sabotage(
        "layers.position:SinusoidalPosition.forward",
        "one later",
        lambda right: lambda self, p: right(self, type(p)(p.position + 1)),
        (R.choices,),
        ("sinusoidal",),
    ),
    Sabotage(
        "layers.feedforward:FeedForward.forward",
        "square maps left out",
        lambda right: (
            lambda self, x: (
                x if self.up_proj.in_features == self.up_proj.out_features else right(self, x)
            )
        ),
        (R.choices,),
        ("D x D",),
    ),
    Sabotage(
        "layers.attention:Attention.forward",
        "no output bias",
        lambda right: (
            lambda self, *args, **kwargs: (
                right(self, *args, **kwargs)
                - (0 if self.out_proj.bias is None else self.out_proj.bias)
            )
        ),
        (R.output_projection,),
        ("W_O + b",),
    ),
    Sabotage(
        "layers.position:LearnedPosition.__init__",
        "1 x N",
        lambda right: lambda self, rows, width: right(self, 1, rows),
        (R.position_table,),
        ("E_pos",),
    ),
    # golden numbers
    Sabotage(
        "layers.attention:score_scale",
        "of 3 for every width",
        instead(lambda *_: 3**-0.5),
        (G.worked_example,),
        ("D_K = 3 only",),
    ),
    Sabotage(
        "layers.attend:attention_scores",
        "halved",
        times(0.5),
        (G.worked_example,),
        ("q₁", "58.", "softmax"),
    ),
    Sabotage(
        "layers.position:sinusoidal",
        "cosine first",
        lambda right: lambda *args, **kwargs: right(*args, **kwargs).roll(1, -1),
        (G.position_vectors,),
        ("golden",),
    ),
    Sabotage(
        "media.image:patchify",
        "half as wide",
        lambda right: lambda pixels, size: right(pixels, (size[0], size[1] // 2)),
        (G.image_patches,),
        ("768 | ", "image is", "one vector"),
    ),
    Sabotage(
        "models.presets:TABLE",
        "patches of 14",
        lambda right: right | {"vit": right["vit"] | PATCHES_OF_14},
        (G.image_patches,),
        ("presets.vit",),
    ),
    Sabotage(
        "layers.attention:score_scale",
        "the other one",
        swapped(head="none", none="head"),
        (G.sharpness,),
        ("golden: scaling",),
    ),
    Sabotage(
        "layers.attention:Attention.__init__",
        "full width in each head",
        lambda right: lambda self, d, h, g, _: right(self, d, h, g, d),
        (G.cost,),
        ("cost of h heads =",),
    ),
    Sabotage(
        "models.config:ModelConfig.head_width",
        "full",
        instead(property(lambda self: self.d_model)),
        (G.cost,),
        ("d_head",),
    ),
    Sabotage(
        "layers.position:LearnedPosition.__init__",
        "one row more",
        one_more_row,
        (G.parameters,),
        ("GPT-2", "BERT", "ViT"),
    ),
    Sabotage(
        "layers.position:BucketBias.__init__",
        "one head more",
        lambda right: lambda self, h, *args, **kwargs: right(self, h + 1, *args, **kwargs),
        (G.parameters,),
        ("T5",),
    ),
]


def breaks(patch: pytest.MonkeyPatch, one: Sabotage) -> None:
    """Apply a sabotage; a replaced function keeps its name, which rows show."""
    module, _, path = one.broken.partition(":")
    *owners, name = path.split(".")
    owner = import_module(f"glassformer.{module}")
    for inner in owners:
        owner = getattr(owner, inner)
    right = getattr(owner, name)
    wrong = one.wrong(right)
    patch.setattr(owner, name, wraps(right)(wrong) if isinstance(wrong, FunctionType) else wrong)


def told(row: verify.Row) -> str:
    """Text of a row."""
    return f"{row.equation} | {row.formula} | {row.function} | {row.detail} "


@cache
def broken_rows(one: Sabotage) -> tuple[verify.Row, ...]:
    """The rows of its groups under a sabotage."""
    with pytest.MonkeyPatch.context() as patch:
        breaks(patch, one)
        return tuple(row for group in one.groups for row in group())


@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: f"{one.broken} {one.what}")
def test_the_named_rows_fail_and_no_others(one):
    rows = broken_rows(one)
    named = [told(row) for row in rows if any(text in told(row) for text in one.failing)]
    assert [told(row) for row in rows if not row.passed] == named
    assert all(any(text in line for line in named) for text in one.failing)


def test_every_row_of_the_notes_fails_in_a_sabotage():
    failed = {
        (row.equation, row.formula)
        for one in SABOTAGES
        for row in broken_rows(one)
        if not row.passed
    }
    assert {(row.equation, row.formula) for row in noted()} == failed
